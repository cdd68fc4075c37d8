"""The answers of a model to the rows of a table: translated now, or read from a file that was written before."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.data.columns import Columns
from glassformer.data.formats import FORMATS, open_source, suffix_of
from glassformer.data.headers import folded, names_usual
from glassformer.data.ledger import Ledger
from glassformer.data.open_table import damage
from glassformer.data.rows import check_rows, open_lines
from glassformer.data.tables import Table
from glassformer.errors import ColumnError, TableError, counted, quoted
from glassformer.evaluation.evaluate import read_for
from glassformer.text import Tokenizer
from glassformer.text.inputs import Source
from glassformer.text.normalization import nfc, nfc_source

if TYPE_CHECKING:
    from glassformer.inference.translator import Translator

_ANSWER = re.compile(r"answer(?:_(\d+))?")
_OTHER_NAMES = ("output", "translation", "prediction", "hypothesis", "text")
"""Names of the column of answers in a file that `translate` did not write as a table, the first one first."""


@dataclass(frozen=True)
class Answers:
    """The answers of one model: a text for each pair of a table.

    `tokenizer` is the model's target tokenizer, or None where the model is not known. `sources` are what the model
    read, if that is not the sources of the table. `unfinished` counts answers that were cut off.
    """

    name: str
    texts: Sequence[str]
    tokenizer: Tokenizer | None = None
    sources: Sequence[Source] | None = None
    unfinished: int = 0

    @classmethod
    def read(cls, path: str, table: Table) -> Answers:
        """Read a file of answers: plain lines, or a table with the column that `translate` writes.

        If it has the sources of the table too, answers are paired by source. Otherwise it has an answer for each row of
        the table, or for each row that was kept. Raises TableError for another number of answers, or a source without
        an answer, ColumnError for a table without such a column.
        """
        sources, answers = _read_answers(path, table)
        if sources is not None:
            return cls(path, _by_source(path, sources, answers, table))
        n_read, n_kept = table.ledger.read, len(table.pairs)
        if len(answers) == n_read and not table.files:
            answers = [answers[row - 1] for row in table.rows]
        if len(answers) != n_kept:
            rows = f"{n_kept:,}"
            if n_kept != n_read:
                rows = f"{n_read:,}, or {n_kept:,} without the rows that were not kept"
            raise TableError(
                "the file does not have one answer for each row of the table",
                where=path,
                got=f"{len(answers):,}",
                expected=f"{rows}, as {table.path} has",
                hint="translate the source column of this table, in its order",
            )
        return cls(path, answers)

    @classmethod
    def of_model(cls, translator: Translator, table: Table, data: Mapping[str, Any], **options: Any) -> Answers:
        """Translate the sources of a table; `options` are fields of DecodingSettings.

        A model with other inputs, or trained on other columns of this table, reads its own columns; `data` are the
        columns that are set. Raises TableError when it reads other rows or targets.
        """
        model_table, trained = table, translator.model_file.data.columns
        names = {folded(column.name) for column in trained.all if column.name is not None} if trained else set()
        has_model_columns = bool(names) and names <= set(map(folded, table.columns or ()))
        if translator.inputs or table.inputs or has_model_columns:
            model_table = read_for(translator.model_file, table.path, data)
            targets = [[pair.target for pair in read.pairs] for read in (model_table, table)]
            if targets[0] != targets[1] or list(model_table.rows) != list(table.rows):
                raise TableError(
                    "the models do not read the same rows and targets of the table",
                    where=model_table.path,
                    got=" → ".join(model_table.labels) + ", and " + " → ".join(table.labels),
                    hint="name the columns with --source and --target",
                )
        where = {source: model_table.location(row) for row, source in reversed(list(enumerate(model_table.sources)))}
        answers = translator.translate(list(where), where=list(where.values()), **options)
        text_of = dict(zip(where, (answer.text for answer in answers), strict=True))
        return cls(
            str(translator.model_file.path),
            [text_of[source] for source in model_table.sources],
            translator.target_tokenizer,
            None if model_table.sources == table.sources else model_table.sources,
            sum(not answer.finished for answer in answers),
        )


def _read_answers(path: str, table: Table) -> tuple[list[str] | None, list[str]]:
    """Return the sources of a file of answers, if it has the table's, and its answers; a missing answer is empty."""
    if suffix_of(Path(path)) not in FORMATS:
        with open_lines(path) as opened:
            rows = list(opened.rows)
        check_rows(opened, rows)
        return None, [row.cells[0] if row.cells else "" for row in rows]
    with open_source(path) as source:
        taken_names = [folded(column.name) for column in table.taken.all if column.name] if table.taken else []
        first = list(map(folded, source.first))
        is_header = names_usual(first) or any(_ANSWER.fullmatch(name) or name in taken_names for name in first)
        columns = Columns.of(source, (), "yes" if is_header else "no", path)
        everything = tuple(range(source.width))
        kinds = ["any"] * len(everything)
        lines = list(source.scan(everything, columns.consumed, path, Ledger(), kinds))  # type: ignore[arg-type]
        if damaged := [line for line in lines if line.fault]:
            raise damage(damaged, path, expected=source.advice, hint="correct them")
    cells = [[line.cells[at] if line.cells else "" for line in lines] for at in everything]
    names = [folded(name) for name in columns.names] if columns.names else None
    at_source = _source_column(names, cells, table)
    free = [at for at in everything if at != at_source]
    if names is None and len(free) > 1 and at_source is not None:  # a kept column of targets is no column of answers
        pairs = {*map(tuple, zip(table.sources, (pair.target for pair in table.pairs), strict=True))}
        free = [at for at in free if not pairs <= {*zip(cells[at_source], cells[at], strict=True)}]
    at_answer = _answer_column(names, free, taken_names)
    if at_answer is None:
        raise ColumnError(
            "the file has no column of answers",
            where=path,
            expected=f"a column named answer, as `translate` writes it, or {', '.join(_OTHER_NAMES)}",
            hint="rename the column of the answers, or give plain lines: one answer a line",
        )
    return None if at_source is None else cells[at_source], cells[at_answer]


def _source_column(names: Sequence[str] | None, cells: Sequence[Sequence[str]], table: Table) -> int | None:
    """Return the column that has the sources of the table, by its name or by its texts. None: there is none."""
    if table.inputs:
        return None
    candidates = [at for at in range(len(cells)) if names is None or not _ANSWER.fullmatch(names[at])]
    name = table.taken.inputs[0].name if table.taken else None
    if names is not None and name is not None and folded(name) in names:
        return names.index(folded(name))
    sources = set(map(nfc_source, table.sources))
    return next((at for at in candidates if sources <= set(map(nfc, cells[at])) and len(cells) > 1), None)


def _answer_column(names: Sequence[str] | None, free: Sequence[int], taken_names: Sequence[str]) -> int | None:
    """Return the column of answers: `answer` with the largest number, or another usual name, or the only one."""
    if names is not None:
        numbered = {at: match for at in free if (match := _ANSWER.fullmatch(names[at]))}
        if numbered:  # a column that was kept has the name without a number, or a smaller one
            return max(numbered, key=lambda at: int(numbered[at][1] or 1))
        usual = [at for name in _OTHER_NAMES for at in free if names[at] == name]
        if usual:
            return usual[0]
        free = [at for at in free if names[at] not in taken_names]
    return free[0] if len(free) == 1 else None


def _by_source(path: str, sources: Sequence[str], answers: Sequence[str], table: Table) -> list[str]:
    """Return the answer to the source of each pair: the n-th answer to the n-th pair with the same source."""
    answers_to: dict[Source, list[str]] = defaultdict(list)
    for source, answer in zip(sources, answers, strict=True):
        answers_to[nfc(source)].append(answer)
    missing = [source for source in table.sources if nfc_source(source) not in answers_to]
    if missing:
        raise TableError(
            f"the file has no answer to {counted(len(missing), 'source')} of the table",
            where=path,
            got=f"nothing for {quoted(missing[0])}",
            expected=f"an answer to each source of {table.path}",
        )
    n_taken: Counter[Source] = Counter()
    texts = []
    for key in map(nfc_source, table.sources):
        texts.append(answers_to[key][min(n_taken[key], len(answers_to[key]) - 1)])
        n_taken[key] += 1
    return texts
