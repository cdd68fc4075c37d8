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
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
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

    A damaged row has a `fault` and no cells; a blank line has neither. `number` counts the rows of a table from 1.
    """

    line: int | None
    cells: Sequence[str]
    fault: Fault | None = None
    number: int = 0


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
    """Return the rows of a CSV file. `lines` must end at a lone \\r too, as the csv module's do.

    Spaces between a separator and a quoted cell are left out from the first row that has such spaces; `notes` says so.
    """
    grammar, number = _Grammar(separator), 1 + lines.skipped
    texts, again = iter(lines), deque[str]()  # lines that are read again
    while text := again.popleft() if again else next(texts, ""):
        if '"' not in text and len(text) <= MAX_ROW_CHARACTERS and not grammar.skips_spaces:
            line, fault = text.rstrip("\r\n"), lines.faults.get(number)
            yield Row(number, line.split(separator) if line and not fault else (), fault)
            number += 1
            continue
        again.appendleft(text)
        record: list[str] = []
        cells, n_lines, fault = grammar.row(_fed(again, texts, record))
        if ' "' in record[0] and not grammar.skips_spaces and grammar.has_space_before_quote(cells, record):
            notes += [SPACES_SKIPPED]
            grammar.skips_spaces = True
            again.extendleft(reversed(record))
            continue
        again.extendleft(reversed(record[n_lines:]))
        if fault and n_lines > 1:
            fault = fault._replace(detail=f"the quote opens in line {number + n_lines - 1}")
        if not fault and sum(map(len, record)) > MAX_ROW_CHARACTERS:
            fault = Fault(Reason.ROW_TOO_LONG, f"more than {MAX_ROW_CHARACTERS:,} characters")
        if lines.faults:
            faults = (lines.faults[n] for n in range(number, number + n_lines) if n in lines.faults)
            fault = fault or next(faults, None)
        yield Row(number, () if fault else cells, fault)
        number += n_lines


def _fed(again: deque[str], texts: Iterator[str], record: list[str]) -> Iterator[str]:
    """Yield the lines, each appended to `record`."""
    while (text := again.popleft() if again else next(texts, None)) is not None:
        record.append(text)
        yield text


class _Written(list[str]):
    r"""What the csv module writes. It is told that rows end with \r\n, so that it quotes both, and they end with \n."""

    def write(self, row: str) -> None:
        self.append(row[:-2] + "\n")


def csv_text(rows: Iterable[Sequence[str]], separator: str = ",") -> str:
    """Return rows as CSV."""
    written = _Written()
    csv.writer(written, delimiter=separator, lineterminator="\r\n").writerows(rows)
    return "".join(written)


class _Grammar:
    """How cells are separated."""

    def __init__(self, separator: str) -> None:
        end = re.escape(separator)
        self.skips_spaces = False
        self._separator = separator
        self._unquoted = re.compile(rf"[^{end}\r\n]*+")
        self._after_cell = re.compile(rf"{end}|\r\n|\r|\n|\Z")
        self._space_before_quote = re.compile(rf'{end} +"(?:[^"]|"")*"(?={end}|[\r\n]|\Z)')

    def has_space_before_quote(self, cells: Sequence[str], record: Sequence[str]) -> bool:
        """Return whether a quoted cell follows a separator and spaces in a row of these lines."""
        if not any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for cell in cells):
            return False
        return self._space_before_quote.search("".join(record)) is not None

    def row(self, lines: Iterable[str]) -> tuple[Sequence[str], int, Fault | None]:
        """Return the cells of the first row of `lines`, of any length, its number of lines, and None.

        If a cell is damaged: no cells, the number of lines up to the line in which that cell begins, and the fault.
        """
        cells: list[str] = []
        quoted: list[str] = []  # lines of a quoted cell that has not ended yet
        opened: int | None = None  # the line in which it begins
        n_characters = 0
        for index, text in enumerate(lines):
            position = 0
            n_characters += len(text)
            if n_characters > MAX_LOOKAHEAD:
                break
            while True:
                while opened is None and self.skips_spaces and text.startswith(" ", position):
                    position += 1
                if opened is None and text.startswith('"', position):
                    opened, position = index, position + 1
                cell = (self._unquoted if opened is None else _REST_OF_QUOTED).match(text, position)
                if cell is None:
                    quoted.append(text[position:])
                    break  # the cell continues in the next line
                end = self._after_cell.match(text, cell.end())
                if end is None:
                    reason = Reason.TEXT_AFTER_QUOTE if opened == index else Reason.UNCLOSED_QUOTE
                    return (), (opened or 0) + 1, Fault(reason)
                content = cell[0] if opened is None else "".join((*quoted, cell[0][:-1])).replace('""', '"')
                cells.append(content)
                if end[0] != self._separator:
                    return (cells if text.strip("\r\n") else ()), index + 1, None
                quoted, opened, position = [], None, end.end()
        return (), (opened or 0) + 1, Fault(Reason.UNCLOSED_QUOTE)
