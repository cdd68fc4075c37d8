"""The short audit before each training: the first findings that take little time, as at most three lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from glassformer.before.audit.characters import find_control, find_misdecoded
from glassformer.before.audit.findings import SIDES, Finding
from glassformer.before.audit.reading import find_headers, find_row_numbers
from glassformer.before.audit.rows import find_contradictions, find_duplicates, find_overlap
from glassformer.data.cleaning import Groups
from glassformer.data.corpus import spread
from glassformer.data.tables import Table

MAX_LINES = 3
MAX_ROWS = 100_000
"""Rows of a table that are examined; a sample of a larger one."""


def quick_audit(table: Table, others: Sequence[Table] = ()) -> list[str]:
    """Return at most MAX_LINES lines about a table to train on, the worst first; none if nothing was found."""
    n_rows = len(table.pairs)
    if n_rows > MAX_ROWS:
        indices = spread(n_rows, MAX_ROWS).tolist()
        table = table.chosen(indices, [table.pairs[i] for i in indices])
    shown = [
        finding.text if finding.table == table.path else f"{finding.table}: {finding.text}"
        for finding in islice(_findings(table, others), MAX_LINES)
    ]
    if shown and n_rows > MAX_ROWS:
        shown[-1] += f" (of a sample of {MAX_ROWS:,} of the {n_rows:,} rows)"
    if shown and table.format != "python":
        shown[-1] += f" (examples: glassformer audit {shlex.quote(table.path)})"
    return shown


def _findings(table: Table, others: Sequence[Table]) -> Iterator[Finding]:
    for side in SIDES:
        yield from find_row_numbers(table, side)
    for other in others:
        yield from (found for found in find_overlap(table, other, "test") if found.kind == "pair overlap")
    for side in SIDES:
        yield from find_misdecoded(table, side)
    yield from find_headers(table)
    groups = Groups(table.pairs)
    yield from find_contradictions(table, groups)
    yield from find_duplicates(table, groups)
    for side in SIDES:
        yield from find_control(table, side, trained=True)
