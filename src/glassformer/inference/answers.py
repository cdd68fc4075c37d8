"""The answers of a model to the rows of a table: translated now, or read from a file that was written before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.formats import FORMATS, suffix_of
from glassformer.data.rows import OpenRows, check_rows, open_columns, open_lines
from glassformer.data.tables import Table, read_table
from glassformer.errors import ColumnError, TableError
from glassformer.inference.evaluation import settings_for
from glassformer.paper.settings import DataSettings
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from glassformer.inference.translator import Translator

ANSWER_COLUMNS = ("translation", "text")
"""Columns of what `translate` writes: a table, and JSON Lines with all that is known of an answer."""


@dataclass(frozen=True)
class Answers:
    """The answers of one model: a text for each pair of a table.

    `tokenizer` is that of its target side, or None where the model is not known. `sources` are those that the model was
    given, if they are not the sources of the table. `unfinished` counts answers that were cut off.
    """

    name: str
    texts: Sequence[str]
    tokenizer: Tokenizer | None = None
    sources: Sequence[str] | None = None
    unfinished: int = 0

    @classmethod
    def read(cls, path: str, table: Table) -> Answers:
        """Read a file of answers: plain lines, or a table with the column that `translate` writes.

        It has an answer for each row of the table, or for each row that was kept. Raises TableError for another number
        of answers, ColumnError for a table without such a column.
        """
        found, read, kept = list(_cells_of(path)), table.ledger.read, len(table.pairs)
        if len(found) == read and not table.files:
            found = [found[row - 1] for row in table.rows]
        if len(found) != kept:
            rows = f"{read:,}, or {kept:,} without the rows that were not kept" if kept != read else f"{kept:,}"
            raise TableError(
                "the file does not have one answer for each row of the table",
                where=path,
                got=f"{len(found):,}",
                expected=f"{rows}, as {table.path} has",
                hint="translate the source column of this table, in its order",
            )
        return cls(path, found)

    @classmethod
    def of_model(cls, translator: Translator, table: Table, data: Mapping[str, Any], **options: Any) -> Answers:
        """Translate the sources of a table; `options` are fields of DecodingSettings.

        A model with other inputs reads its own columns of the table; `data` are the columns that are set. Raises
        TableError when it reads other rows or targets.
        """
        own = table
        if translator.inputs or table.inputs:
            own = read_table(table.path, settings_for(translator.model_file, data))
            _check_same_rows(own, table)
        where = {source: own.location(row) for row, source in reversed(list(enumerate(own.sources)))}
        answers = translator.translate(list(where), where=list(where.values()), **options)
        text_of = dict(zip(where, (answer.text for answer in answers), strict=True))
        return cls(
            str(translator.model_file.path),
            [text_of[source] for source in own.sources],
            translator.target_tokenizer,
            None if own.sources == table.sources else own.sources,
            sum(not answer.finished for answer in answers),
        )


def _check_same_rows(table: Table, other: Table) -> None:
    """Raise TableError unless two readings of a table have the same rows and targets."""
    targets, others = ([pair.target for pair in each.pairs] for each in (table, other))
    if targets != others or list(table.rows) != list(other.rows):
        raise TableError(
            "the models do not read the same rows and targets of the table",
            where=table.path,
            got=f"{table.taken[0]} → {table.taken[1]}, and {other.taken[0]} → {other.taken[1]}",
            hint="name the columns with --source and --target",
        )


def _cells_of(path: str) -> Iterator[str]:
    """Yield each answer of a file; a row without one is empty."""
    if suffix_of(Path(path)) not in FORMATS:
        with open_lines(path) as opened:
            yield from _first_cells(opened)
        return
    for column in ANSWER_COLUMNS:
        try:
            with open_columns(path, [column], DataSettings(header="yes"), kinds=["optional"]) as opened:
                yield from _first_cells(opened)
                return
        except ColumnError:
            continue
    raise ColumnError(
        "the file has no column of answers",
        where=path,
        expected=f"a column named {' or '.join(ANSWER_COLUMNS)}, as `translate` writes it",
        hint="rename the column of the answers, or give plain lines: one answer a line",
    )


def _first_cells(opened: OpenRows) -> Iterator[str]:
    rows = list(opened.rows)
    check_rows(opened, rows)
    return (row.cells[0] if row.cells else "" for row in rows)
