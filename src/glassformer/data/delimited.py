"""Rows of cells separated by a comma (CSV) or a tab (TSV), with the faults found in them.

    csv_rows(lines) -> Row, Row, …     RFC 4180, as the csv module reads it when strict; another separator if stated
    tsv_rows(lines) -> Row, Row, …     a lone quote is text; cells that a spreadsheet quoted are read without the quotes

A cell of CSV may have many lines, so that a quote that is never closed extends its cell to the end of the file. Only
the lines of the row up to that quote are lost, and the lines after them are read again. No line is read again twice:
the next quote that could open a cell would have ended the first reading. A quote that is still open after
`MAX_LOOKAHEAD` characters is taken for one that is never closed.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from glassformer.data.ledger import Fault, Reason
from glassformer.data.lines import Lines

MAX_ROW_CHARACTERS = 2**24
"""Maximum number of characters of a row of CSV, line ends included; a longer row is damaged."""

MAX_LOOKAHEAD = 2**28
"""Characters that are read to find the end of a damaged row; a quote that is still open then is never closed."""

QUOTES_READ = "cells in double quotes are read without them, as a spreadsheet writes them"
SPACES_SKIPPED = "spaces after a separator are left out, because there are quoted cells after them"

_REST_OF_QUOTED = re.compile(r'[^"]*+(?:""[^"]*+)*+"')
_WITH_DOUBLED = re.compile(r'"[^"]*(?:""[^"]*)+"')
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')


class Row(NamedTuple):
    """One row: the number of its first line from 1 (None in a format without lines), and its cells.

    A damaged row has a `fault` and no cells; a blank line has neither.
    """

    line: int | None
    cells: Sequence[str]
    fault: Fault | None = None


def tsv_rows(lines: Lines, notes: list[str]) -> Iterator[Row]:
    """Return the rows of a TSV file, one per line.

    The first row that has a quote decides: if each of its quotes belongs to a quoted cell with doubled quotes in it, or
    if it is the first row and all its cells are quoted, quoted cells are read without their quotes, and `notes` says
    so. Otherwise all quotes are text.
    """
    is_quoted: bool | None = None  # undecided
    n_rows = 0
    for number, text, fault in lines.numbered():
        cells = text.split("\t") if text and not fault else ()
        if is_quoted is None and '"' in text and cells:
            is_first_row = not n_rows and len(cells) > 1 and all(map(_QUOTED.fullmatch, cells))
            is_quoted = is_first_row or all(_WITH_DOUBLED.fullmatch(cell) for cell in cells if '"' in cell)
            notes += [QUOTES_READ] if is_quoted else []
        if is_quoted and '"' in text:
            cells = [cell[1:-1].replace('""', '"') if _QUOTED.fullmatch(cell) else cell for cell in cells]
        n_rows += bool(cells)
        yield Row(number, cells, fault)


def csv_rows(lines: Lines, notes: list[str], separator: str = ",") -> Iterator[Row]:
    """Return the rows of a CSV file. `lines` must end at a lone \\r too, as those of the csv module do.

    From the first row on in which a quoted cell follows a separator and spaces, such spaces are left out; `notes` says
    so. The csv module's own limit for a cell applies to the whole process. It is raised to `MAX_ROW_CHARACTERS` if it
    is lower, and not reset: with a lower limit, a valid cell would look like a quote that is never closed.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_CHARACTERS))
    pushback, record, number = _PushbackLines(lines), [""], 1 + lines.skipped
    grammar = _Grammar.of(separator)
    reader = grammar.reader(_fed(pushback, record))
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
            n_lines, fault = _recover(record, pushback, grammar)
            if fault is None:
                fault = Fault(Reason.ROW_TOO_LONG, str(error))
            elif n_lines > 1:
                fault = fault._replace(detail=f"the quote opens in line {number + n_lines - 1}")
            reader = grammar.reader(_fed(pushback, record))
        if ' "' in record[0] and not grammar.skips_spaces and grammar.has_space_before_quote(cells, record):
            notes += [SPACES_SKIPPED]
            grammar = grammar._replace(skips_spaces=True)
            pushback.put_back(iter(record[:]))
            reader = grammar.reader(_fed(pushback, record))
            continue
        if lines.faults:
            found = (lines.faults[n] for n in range(number, number + n_lines) if n in lines.faults)
            fault = fault or next(found, None)
        yield Row(number, () if fault else cells, fault)
        number += n_lines


class _Written(list[str]):
    r"""What the csv module writes. It is told that rows end with \r\n, so that it quotes both, and they end with \n."""

    def write(self, row: str) -> None:
        self.append(row[:-2] + "\n")


def csv_text(rows: Iterable[Sequence[str]], separator: str = ",") -> str:
    """Return rows as CSV."""
    written = _Written()
    csv.writer(written, delimiter=separator, lineterminator="\r\n").writerows(rows)
    return "".join(written)


class _Grammar(NamedTuple):
    """How cells are separated, and the patterns that follow from it."""

    separator: str
    unquoted: re.Pattern[str]
    after_cell: re.Pattern[str]
    space_before_quote: re.Pattern[str]
    skips_spaces: bool = False

    @classmethod
    def of(cls, separator: str) -> _Grammar:
        end = re.escape(separator)
        return cls(
            separator,
            re.compile(rf"[^{end}\r\n]*+"),
            re.compile(rf"{end}|\r\n|\r|\n|\Z"),
            re.compile(rf'{end} +"(?:[^"]|"")*"(?={end}|[\r\n]|\Z)'),
        )

    def has_space_before_quote(self, cells: Sequence[str], record: Sequence[str]) -> bool:
        """Return whether a quoted cell follows a separator and spaces in a row of these lines."""
        if not any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for cell in cells):
            return False
        return self.space_before_quote.search("".join(record)) is not None

    def reader(self, lines: Iterator[str]) -> Iterator[list[str]]:
        """Return the csv module's reader of lines."""
        return csv.reader(lines, strict=True, delimiter=self.separator, skipinitialspace=self.skips_spaces)


class _RowTooLongError(Exception):
    """The row that is being read has more than `MAX_ROW_CHARACTERS`."""


class _PushbackLines:
    """Lines that can be put back and read again."""

    def __init__(self, lines: Lines) -> None:
        self._rest: list[Iterator[str]] = [iter(lines)]  # the last one is read first

    def __iter__(self) -> Iterator[str]:
        while self._rest:
            # Not `yield from`: when this generator is closed, that would close the inner one too.
            for text in self._rest[-1]:  # noqa: UP028
                yield text
            self._rest.pop()

    def put_back(self, lines: Iterator[str]) -> None:
        """Make these the next lines."""
        self._rest.append(lines)


def _fed(pushback: _PushbackLines, record: list[str]) -> Iterator[str]:
    """Return the lines for the csv module, each appended to `record`. Raises _RowTooLongError."""
    size = 0
    for text in pushback:
        size = size + len(text) if record else len(text)
        record.append(text)
        if size > MAX_ROW_CHARACTERS:
            raise _RowTooLongError(f"more than {MAX_ROW_CHARACTERS:,} characters")
        yield text


def _recover(record: list[str], pushback: _PushbackLines, grammar: _Grammar) -> tuple[int, Fault | None]:
    """Return how many lines the row that begins with `record` has, and its fault (None: the row is complete).

    The lines after the row are put back.
    """
    beyond: list[str] = []
    n_lines, fault = _scan(chain(record, _kept(pushback, beyond)), grammar)
    pushback.put_back(iter((*record, *beyond)[n_lines:]))
    return n_lines, fault


def _kept(lines: Iterable[str], kept: list[str]) -> Iterator[str]:
    """Return the lines, each appended to `kept` first."""
    for text in lines:
        kept.append(text)
        yield text


def _scan(lines: Iterable[str], grammar: _Grammar) -> tuple[int, Fault | None]:
    """Return the number of lines of the first row of `lines`, whatever its length, and None.

    If one of its cells is damaged: the number of lines up to the one in which that cell begins, and the fault.
    """
    opened: int | None = None  # the line in which a quoted cell begins that has not ended yet
    n_characters = 0
    for index, text in enumerate(lines):
        position = 0
        n_characters += len(text)
        if n_characters > MAX_LOOKAHEAD:
            break
        while True:
            if opened is None and grammar.skips_spaces:
                position += len(text[position:]) - len(text[position:].lstrip(" "))
            if opened is None and text.startswith('"', position):
                opened, position = index, position + 1
            cell = (grammar.unquoted if opened is None else _REST_OF_QUOTED).match(text, position)
            if cell is None:
                break  # the cell continues in the next line
            end = grammar.after_cell.match(text, cell.end())
            if end is None:
                reason = Reason.TEXT_AFTER_QUOTE if opened == index else Reason.UNCLOSED_QUOTE
                return (opened or 0) + 1, Fault(reason)
            if end[0] != grammar.separator:
                return index + 1, None
            opened, position = None, end.end()
    return (opened or 0) + 1, Fault(Reason.UNCLOSED_QUOTE)
