"""Sentences for the terminal that several verbs share: what was read of a table, and how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from glassformer.cli.console import Voice, printable
from glassformer.errors import shortened

if TYPE_CHECKING:
    from glassformer.data.tables import Column, Table

_CELLS_OF_FIRST_ROW = 8


def say_table(voice: Voice, table: Table) -> None:
    """How a table of pairs was read, what was left out and why."""
    _say_reading(voice, table, f"source: {table.taken[0]} · target: {table.taken[1]}")


def say_column(voice: Voice, column: Column) -> None:
    """How a column of a table was read, what was left out and why."""
    _say_reading(voice, column, f"column: {column.taken.removeprefix('column ')}")
    if n_empty := len(column.ledger.entries):
        rows = "1 row has no cell and gets" if n_empty == 1 else f"{n_empty:,} rows have no cell and get"
        voice.warn(f"{rows} an empty line")


def _say_reading(voice: Voice, table: Table | Column, taken: str) -> None:
    header = "with a header" if table.header else "without a header"
    if table.format in ("JSON Lines", "Parquet", "parallel text"):
        header = "named columns" if table.header else "line by line"
    voice.say(f"read {printable(table.path)} ({table.format}, {header}): {table.ledger.summary()}")
    voice.say(printable(taken))
    if table.first:
        cells = [repr(shortened(cell)) for cell in table.first[:_CELLS_OF_FIRST_ROW]]
        first = " | ".join([*cells, "…"] if len(table.first) > len(cells) else cells)
        role, option = ("a header", "--no-header") if table.header else ("data", "--header")
        otherwise = f" (otherwise: {option})" if table.header_guessed else ""
        voice.say(f"the first row was taken for {role}: {first}{otherwise}")
