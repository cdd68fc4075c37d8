"""The answers of a model to the rows of a table: translated now, or read from a file that was written before."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.columns import Columns
from glassformer.data.formats import FORMATS, open_source, suffix_of
from glassformer.data.headers import folded
from glassformer.data.ledger import Ledger
from glassformer.data.rows import check_rows, open_lines
from glassformer.data.source import damage
from glassformer.data.tables import Table
from glassformer.errors import ColumnError, TableError
from glassformer.inference.evaluation import read_for
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from glassformer.inference.translator import Translator

_ANSWER = re.compile(r"(?:translation|text)(?:_(\d+))?")
"""The name of the column of answers: `translation` in a table, with a number where a column has that name, or `text` in
the JSON of `translate --json`.
"""


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

        It has an answer for each row of the table, or for each row that was kept, in their order. For a table without a
        header it is the last column. Raises TableError for another number of answers, ColumnError where there is no
        such column.
        """
        found = _read_answers(path, has_header=table.header)
        read, kept = table.ledger.read, len(table.pairs)
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

        A model with other inputs, or whose columns are others of this table, reads its own; `data` are the columns that
        are set. Raises TableError when it reads other rows or targets.
        """
        own, trained = table, translator.model_file.data.columns
        names = {folded(column.name) for column in trained.all if column.name is not None} if trained else set()
        has_own = bool(names) and names <= set(map(folded, table.columns or ()))
        if translator.inputs or table.inputs or has_own:
            own = read_for(translator.model_file, table.path, data)
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
            got=" → ".join(table.labels) + ", and " + " → ".join(other.labels),
            hint="name the columns with --source and --target",
        )


def _read_answers(path: str, *, has_header: bool) -> list[str]:
    """Return the answers of a file: its lines, or a column of a table; a row without one has an empty answer.

    `has_header`: the table of the sources has one, so that what `translate` wrote for it has one too.
    """
    if suffix_of(Path(path)) not in FORMATS:
        with open_lines(path) as opened:
            rows = list(opened.rows)
        check_rows(opened, rows)
        return [row.cells[0] if row.cells else "" for row in rows]
    with open_source(path) as source:
        is_header = any(_ANSWER.fullmatch(folded(name)) for name in source.first)
        columns = Columns.of(source, (), "yes" if is_header else "no", path)
        names = columns.names or source.first
        is_last = not columns.names and (source.width == 1 or not has_header)
        at = source.width - 1 if is_last else _answer_column(list(map(folded, names)), path)
        lines = list(source.scan((at,), columns.consumed, path, Ledger(), ["any"]))
        if damaged := [line for line in lines if line.fault]:
            raise damage(damaged, path, expected=source.advice, hint="correct them")
    return [line.cells[0] if line.cells else "" for line in lines]


def _answer_column(names: Sequence[str], path: str) -> int:
    """Return the column of answers: `translation` with the largest number, because a kept column may have the name."""
    numbered = {at: found[1] for at, name in enumerate(names) if (found := _ANSWER.fullmatch(name))}
    if not numbered:
        raise ColumnError(
            "the file has no column of answers",
            where=path,
            expected="a column named translation, as `translate` writes it",
            hint="rename the column of the answers, or give plain lines: one answer a line",
        )
    return max(numbered, key=lambda at: int(numbered[at] or 1))
