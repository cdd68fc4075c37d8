"""Findings about tables that are read in another way than they were meant: row numbers as text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from glassformer.before.audit.findings import Finding, Side, about_rows
from glassformer.before.audit.pairs import only_texts
from glassformer.data.tables import Table

MIN_NUMBERS = 5  # minimum of the rows whose numbers are no coincidence
_WHOLE_NUMBER = re.compile(r"\s*[+-]?\d{1,18}\s*")


def has_row_numbers(table: Table, side: Side) -> bool:
    """Return whether each text of a side is a number, in each file one more than in the row before.

    Or more by as much as the number of the row, so that rows that were left out, and samples, change nothing.
    """
    if len(table.pairs) < MIN_NUMBERS:
        return False
    numbers, rows = list[int](), table.rows
    for pair in only_texts(table).pairs:
        if not _WHOLE_NUMBER.fullmatch(text := getattr(pair, side)):
            return False
        numbers.append(int(text))
    neighbors = (both for _, indices in table.by_file() for both in pairwise(indices))
    return all(numbers[after] - numbers[before] in (1, rows[after] - rows[before]) for before, after in neighbors)


def find_row_numbers(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for a side that is probably an index, such as the one that pandas writes."""
    return about_rows(
        "row numbers",
        "warning",
        table,
        side,
        range(len(table.pairs) if has_row_numbers(table, side) else 0),
        f"have a {side} that is one more than in the row before: this is probably an index, not a text",
        "choose the columns with --source and --target; if the numbers are meant, as in 7 → seven, nothing",
    )
