"""Input of the verbs: the pairs of a table, or texts. The path of the ledger is checked before they are read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.cli.console import Reporter, check_output
from glassformer.cli.narrate import print_column_reading, print_reading
from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.data.ledger import Ledger
    from glassformer.data.tables import Table

TABLE_SUFFIXES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet")


def read_pairs(reporter: Reporter, path: str, data: dict[str, Any], ledger: Path | None, *, overwrite: bool) -> Table:
    """Read the pairs of a table; `data` is that of `data_options`, `ledger` the file for rows not kept."""
    from glassformer.data.tables import read_table
    from glassformer.settings import DataSettings

    check_output(ledger, "--ledger", overwrite=overwrite, inputs=path)
    table = read_table(path, DataSettings(**data["data"]))
    print_reading(reporter, table, ledger)
    return table


def read_texts(
    reporter: Reporter, source: str, column: str | None, data: dict[str, Any], ledger: Path | None
) -> tuple[list[str], Ledger]:
    """Read the texts to translate, plain lines or a column, and return them with the ledger of their table."""
    from glassformer.data.tables import Ledger, read_column, read_lines
    from glassformer.settings import DataSettings

    if column is not None:
        if source == "-":
            raise UsageError("--column needs a table", got="standard input", hint="name a file: .csv, .tsv, .jsonl, …")
        found = read_column(source, column, DataSettings(**data["data"]))
        print_column_reading(reporter, found, ledger)
        return found.cells, found.ledger
    if source != "-" and Path(source.removesuffix(".gz").removesuffix(".zst")).suffix.lower() in TABLE_SUFFIXES:
        raise UsageError(
            "this input is a table",
            where=source,
            hint="name the column to translate: --column NAME (or a position from 0)",
        )
    if data["data"] or ledger is not None:
        raise UsageError(
            "--header, --bad-rows and --ledger are for tables, and the input is plain lines", hint="--column NAME"
        )
    return read_lines(sys.stdin.buffer if source == "-" else source), Ledger()
