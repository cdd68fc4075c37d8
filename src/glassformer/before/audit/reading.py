"""Findings about tables that are read in another way than they were meant: row numbers, headers or quotes as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from glassformer.before.audit.findings import Finding, Side, about_rows, texts_of_side
from glassformer.data.tables import Table
from glassformer.text.inputs import split

MIN_NUMBERS = 5  # minimum of the rows whose numbers are no coincidence
_WHOLE_NUMBER = re.compile(r"\s*[+-]?\d{1,18}\s*")
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')  # a cell in the quotes of CSV
_AROUND = " \t\r\n\ufeff"  # what is left out when a cell is compared with a name: white space, byte order marks


def has_row_numbers(table: Table, side: Side) -> bool:
    """Return whether each text of a side is a number, in each file one more than in the row before.

    Or more by as much as the number of the row, so that rows that were left out, and samples, change nothing.
    """
    if len(table.pairs) < MIN_NUMBERS:
        return False
    numbers, rows = list[int](), table.rows
    for text in texts_of_side(table, side, features=False):
        if not _WHOLE_NUMBER.fullmatch(text):
            return False
        numbers.append(int(text))
    neighbors = (both for _, indices in table.by_file() for both in pairwise(indices))
    return all(numbers[after] - numbers[before] in (1, rows[after] - rows[before]) for before, after in neighbors)


def find_row_numbers(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for a side that is probably an index, such as the one that pandas writes."""
    return about_rows(
        "row numbers",
        table,
        side,
        range(len(table.pairs) if has_row_numbers(table, side) else 0),
        f"have a {side} that is one more than in the row before, probably an index: choose the columns with --source "
        "and --target",
        "choose other columns; if the numbers are meant, as in 7 → seven, nothing",
    )


def find_headers(table: Table) -> Iterator[Finding]:
    """Yield a finding for rows that repeat the header, as in a file that was made of several."""
    return about_rows(
        "repeated headers",
        table,
        None,
        header_rows(table),
        "repeat the header: source and target are the names of their columns",
        "remove these rows; several files with a header each are read as one table from a folder or a pattern",
    )


def header_rows(table: Table) -> list[int]:
    """Return the indices of the pairs whose cells are the names of their columns, without case and white space."""
    if table.columns is None or table.taken is None:
        return []
    *sources, target = (_plain(column.name or "") for column in table.taken.all)
    return [
        index
        for index, pair in enumerate(table.pairs)
        if _plain(pair.target) == target and [*map(_plain, split(pair.source))] == sources
    ]


def _plain(text: str) -> str:
    return text.strip(_AROUND).casefold()


def find_quoted(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for cells of TSV in the quotes of CSV: with doubled quotes inside, or all cells of a side."""
    texts = [getattr(pair, side) for pair in table.pairs] if table.format == "TSV" else []
    quoted = [[cell for cell in split(text) if _QUOTED.fullmatch(cell)] for text in texts]
    found: Sequence[int] = [row for row, cells in enumerate(quoted) if any('""' in cell[1:-1] for cell in cells)]
    if all(len(cells) == len(split(text)) for cells, text in zip(quoted, texts, strict=True)):
        found = range(len(texts))
    return about_rows(
        "quoted cells",
        table,
        side,
        found,
        f"have a {side} in double quotes as in CSV; in TSV a quote is text, and the model learns it",
        "save the table as TSV without quotes, or as CSV",
    )
