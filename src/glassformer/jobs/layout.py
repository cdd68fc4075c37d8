"""Answers as bytes: plain lines, CSV, TSV or JSON Lines, one row of output for each row of input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.cells import Json, json_text
from glassformer.data.delimited import csv_text
from glassformer.data.digits import six_digits
from glassformer.data.formats import suffix_of
from glassformer.data.lines import COMPRESSIONS, compressed
from glassformer.data.unreadable import DOCUMENTS
from glassformer.errors import UsageError
from glassformer.jobs.answers import JobAnswer
from glassformer.jobs.inputs import JobRow

OF_SUFFIX = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
OF_INPUT = {"CSV": "csv", "TSV": "tsv", "JSON Lines": "jsonl", "Parquet": "parquet", "parallel text": "tsv"}

ANSWER, CONFIDENCE, ALIGNMENT = "answer", "confidence", "alignment"
_ONE_CELL = str.maketrans("\t\r\n", "   ")
_ONE_LINE = str.maketrans("\r\n", "  ")


@dataclass(frozen=True)
class OutputForm:
    """The form of the output.

    `format` is lines, csv, tsv, jsonl or parquet. `full`: JSON Lines with all that is known of an answer. `kept` names
    the columns that are passed through, `answer` the column of answers. `header`: whether CSV and TSV begin with the
    names.
    """

    format: str
    full: bool = False
    alignments: bool = False
    kept: tuple[str, ...] = ()
    answer: str = ANSWER
    header: bool = True
    confidence: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns."""
        return (*self.kept, self.answer, *self._names_after_answer)

    @property
    def _names_after_answer(self) -> tuple[str, ...]:
        """The names of the columns after the answer."""
        columns = ((self.confidence, CONFIDENCE), (self.alignments, ALIGNMENT))
        return tuple(name for is_given, name in columns if is_given)

    def head(self) -> bytes:
        """Return what comes before the first row."""
        if self.header and self.format in ("csv", "tsv"):
            return _delimited(self.format, [self.names])
        return b""

    def encode(self, rows: Sequence[JobRow], answers: Sequence[JobAnswer]) -> bytes:
        """Return the rows of output for these rows, whatever the answers hold."""
        pairs = list(zip(rows, answers, strict=True))
        if self.format == "lines":
            return _encoded("".join(answer.text.translate(_ONE_LINE) + "\n" for _, answer in pairs))
        if self.full:
            return _json_lines(self._full(row, answer) for row, answer in pairs)
        values = (self._values(row, answer) for row, answer in pairs)
        if self.format in ("csv", "tsv"):
            return _delimited(self.format, values)
        return _json_lines(dict(zip(self.names, cells, strict=True)) for cells in values)

    def _values(self, row: JobRow, answer: JobAnswer) -> tuple[Any, ...]:
        cells = row.kept if self.format == "jsonl" else map(_as_text, row.kept)
        values = {CONFIDENCE: answer.confidence, ALIGNMENT: pharaoh(answer)}
        return (*cells, answer.text, *(values[name] for name in self._names_after_answer))

    def _full(self, row: JobRow, answer: JobAnswer) -> dict[str, Any]:
        cells = {"kept": dict(zip(self.kept, row.kept, strict=True))} if self.kept else {}
        return {"row": row.number, "source": row.source, **cells, **answer.to_json()}


def choose_format(out: Path | None, input_format: str, *, full: bool, columns: bool) -> str:
    """Return the format of the output, by the suffix of `out` or else by the format of the input.

    `full` means JSON Lines. `columns`: the output has more than the answers, as TSV where the input is plain lines;
    without that it is plain lines. Raises UsageError for formats that conflict.
    """
    if out is not None:
        compressed(b"", out)  # raises an error where its library is not installed
        if suffix_of(out) in DOCUMENTS:
            expected = f"one that ends in {', '.join(OF_SUFFIX)}, or plain lines, in .txt"
            raise UsageError("answers cannot be written to such a file", where=str(out), expected=expected)
    output_format = None if out is None else OF_SUFFIX.get(suffix_of(out))
    if full:
        if output_format not in (None, "jsonl"):
            raise UsageError(
                "--json and several answers are JSON Lines", got=f"the format {output_format}", hint="--out FILE.jsonl"
            )
        return "jsonl"
    output_format = output_format or (OF_INPUT.get(input_format, "tsv") if columns else "lines")
    if output_format == "parquet" and out is not None and out.suffix.lower() in COMPRESSIONS:
        raise UsageError("Parquet is compressed by itself", where=str(out), hint=f"a name without {out.suffix}")
    if output_format == "parquet" and out is None:
        raise UsageError("Parquet needs a file", hint="--out FILE.parquet, or --json")
    return output_format


def free_name(kept: Sequence[str]) -> str:
    """Return the name of the column of answers: `answer`, or with a number when a kept column is called that."""
    taken = {*kept, CONFIDENCE, ALIGNMENT}
    numbered = (ANSWER if number == 1 else f"{ANSWER}_{number}" for number in range(1, len(taken) + 2))
    return next(name for name in numbered if name not in taken)


def pharaoh(answer: JobAnswer) -> str:
    """Return the alignment of an answer in the format of Pharaoh: "0-0 2-1", source token and token of the answer."""
    return " ".join(f"{source}-{target}" for source, target in answer.alignment)


def _delimited(form: str, rows: Iterable[Sequence[Any]]) -> bytes:
    cells = ([_cell(value) for value in row] for row in rows)
    if form == "tsv":  # without quoting, a cell has neither tabs nor line breaks
        return _encoded("".join("\t".join(cell.translate(_ONE_CELL) for cell in row) + "\n" for row in cells))
    return _encoded(csv_text(cells))


def _cell(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else repr(six_digits(value))


def _as_text(cell: str) -> str:
    """Return a kept cell as text; a missing one is empty."""
    return "" if cell == "null" and isinstance(cell, Json) else cell


def _json_lines(values: Iterator[dict[str, Any]]) -> bytes:
    return _encoded("".join(json_text(six_digits(value)) + "\n" for value in values))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
