"""Rows of cells that a comma (CSV) or a tab (TSV) separates, with the damage that was found in them.

    csv_rows(lines) -> Row, Row, …     RFC 4180, as the csv module reads it when strict
    tsv_rows(lines) -> Row, Row, …     no quoting: a lone quote is text

A cell of CSV may have many lines, so that a quote that is never closed swallows the rest of the file. Only its own line
is lost then, and what was swallowed is read again. No line is read again twice: the next quote that could open a cell
would have ended the swallowing.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import NamedTuple

from glassformer.data.ledger import Fault, Reason
from glassformer.data.lines import Lines

MAX_ROW_CHARACTERS = 2**24
"""Characters of a row of CSV, line ends included, that are held in memory; a longer row is damaged."""

_REST_OF_QUOTED = re.compile(r'[^"]*+(?:""[^"]*+)*+"')
_UNQUOTED = re.compile(r"[^,\r\n]*+")
_AFTER_CELL = re.compile(r",|\r\n|\r|\n|\Z")


class Row(NamedTuple):
    """One row: its first physical line from 1 (None where a format has no lines), and its cells.

    A damaged row has a `fault` and no cells; a blank line has neither.
    """

    line: int | None
    cells: Sequence[str]
    fault: Fault | None = None


def tsv_rows(lines: Lines) -> Iterator[Row]:
    """The lines of a TSV file."""
    for number, text, fault in lines.numbered():
        yield Row(number, text.split("\t") if text and not fault else (), fault)


def csv_rows(lines: Lines) -> Iterator[Row]:
    """The records of a CSV file, whose `lines` end at a lone \\r too, as the csv module's do.

    The csv module's own limit for a cell holds for the whole process. It is raised to `MAX_ROW_CHARACTERS` where it is
    lower, and stays there: with a lower one, a valid cell would look like a quote that is never closed.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))
    tape, record, number = _Tape(lines), [""], 1
    reader = csv.reader(_fed(tape, record), strict=True)
    with ExitStack() as files:
        while True:
            record.clear()
            cells: Sequence[str] = ()
            fault = None
            try:
                cells = next(reader)
                n_lines = len(record)
            except StopIteration:
                return
            except (csv.Error, _RowTooLongError) as error:
                n_lines, fault = _recover(record, tape, files)
                if fault is None:
                    fault = Fault(Reason.ROW_TOO_LONG, str(error))
                elif n_lines > 1:
                    fault = fault._replace(detail=f"the quote opens in line {number + n_lines - 1}")
                reader = csv.reader(_fed(tape, record), strict=True)
            if lines.faults:
                found = (lines.faults[n] for n in range(number, number + n_lines) if n in lines.faults)
                fault = fault or next(found, None)
            yield Row(number, () if fault else cells, fault)
            number += n_lines


class _RowTooLongError(Exception):
    """The row that is being read has more than `MAX_ROW_CHARACTERS`."""


class _Tape:
    """Lines that can be put back, to come once more."""

    def __init__(self, lines: Lines) -> None:
        self._rest: list[Iterator[str]] = [iter(lines)]  # the last one comes first

    def __iter__(self) -> Iterator[str]:
        while self._rest:
            # Not `yield from`: when this generator is left, that would end what it draws from.
            for text in self._rest[-1]:  # noqa: UP028
                yield text
            self._rest.pop()

    def put_back(self, lines: Iterator[str]) -> None:
        """These lines come next."""
        self._rest.append(lines)


def _fed(tape: _Tape, record: list[str]) -> Iterator[str]:
    """The lines of a tape for the csv module, noted in `record`. Raises _RowTooLongError."""
    size = 0
    for text in tape:
        size = size + len(text) if record else len(text)
        record.append(text)
        if size > MAX_ROW_CHARACTERS:
            raise _RowTooLongError(f"more than {MAX_ROW_CHARACTERS:,} characters")
        yield text


def _recover(record: list[str], tape: _Tape, files: ExitStack) -> tuple[int, Fault | None]:
    """How many lines are lost to the record that begins with `record`, and to what (None: the record is whole).

    The lines after them are put back. What the record has beyond `record` may be the rest of the file, so those lines
    wait in a temporary file, which is closed with `files` at the latest.
    """
    beyond: SpooledTemporaryFile[bytes] = SpooledTemporaryFile(MAX_ROW_CHARACTERS)  # noqa: SIM115, it may outlive this
    n_lines, fault = _scan(chain(record, _copied(tape, beyond)))
    if beyond.tell():
        files.enter_context(beyond)
        tape.put_back(islice(_read_back(beyond), max(0, n_lines - len(record)), None))
    else:
        beyond.close()
    tape.put_back(iter(record[n_lines:]))
    return n_lines, fault


def _scan(lines: Iterable[str]) -> tuple[int, Fault | None]:
    """The number of lines of the record that `lines` begin with, however long it is, and None.

    If one of its cells is damaged: the number of lines up to the one in which that cell begins, and what is wrong.
    """
    opened: int | None = None  # the line in which a quoted cell begins that has not ended yet
    for index, text in enumerate(lines):
        position = 0
        while True:
            if opened is None and text.startswith('"', position):
                opened, position = index, position + 1
            cell = (_UNQUOTED if opened is None else _REST_OF_QUOTED).match(text, position)
            if cell is None:
                break  # it goes on in the next line
            end = _AFTER_CELL.match(text, cell.end())
            if end is None:
                reason = Reason.TEXT_AFTER_QUOTE if opened == index else Reason.UNCLOSED_QUOTE
                return (opened or 0) + 1, Fault(reason)
            if end[0] != ",":
                return index + 1, None
            opened, position = None, end.end()
    return (opened or 0) + 1, Fault(Reason.UNCLOSED_QUOTE)


def _copied(lines: Iterable[str], file: SpooledTemporaryFile[bytes]) -> Iterator[str]:
    """The lines, each written to `file` first."""
    for text in lines:
        data = text.encode("utf-8", "surrogateescape")
        file.write(len(data).to_bytes(8) + data)
        yield text


def _read_back(file: SpooledTemporaryFile[bytes]) -> Iterator[str]:
    """The lines that `_copied` wrote; then the file is closed."""
    file.seek(0)
    while head := file.read(8):
        yield file.read(int.from_bytes(head)).decode("utf-8", "surrogateescape")
    file.close()
