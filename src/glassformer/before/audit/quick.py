"""The short audit before each training: the worst findings that take little time, as at most three lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from glassformer.before.audit.characters import looks_misdecoded
from glassformer.before.audit.findings import SIDES, verb_of
from glassformer.before.audit.pairs import Rows, all_cells
from glassformer.before.audit.reading import has_row_numbers, header_rows
from glassformer.before.audit.splits import shared_pairs
from glassformer.data.cleaning import Groups, has_control
from glassformer.data.corpus import spread
from glassformer.data.tables import Pair, Table
from glassformer.errors import counted

MAX_LINES = 3
MAX_ROWS = 100_000
"""Rows of a table that are examined; a sample of a larger one."""


def quick_audit(table: Table, others: Sequence[Table] = ()) -> list[str]:
    """Return at most MAX_LINES lines about a table to train on, the worst first; none if nothing was found."""
    n_rows = len(table.pairs)
    if n_rows > MAX_ROWS:
        indices = spread(n_rows, MAX_ROWS).tolist()
        table = table.chosen(indices, [table.pairs[i] for i in indices])
    shown = list(islice(_lines(table, others), MAX_LINES))
    if shown and n_rows > MAX_ROWS:
        shown[-1] += f" (of a sample of {MAX_ROWS:,} of the {n_rows:,} rows)"
    if shown and table.format != "python":
        shown[-1] += f" (examples: glassformer audit {shlex.quote(table.path)})"
    return shown


def _lines(table: Table, others: Sequence[Table]) -> Iterator[str]:
    for side in SIDES:
        if has_row_numbers(table, side):
            yield f"the {side}s are row numbers, probably an index: choose the columns with --source and --target"
    pairs, texts = Rows(table).pairs, all_cells(table).pairs
    for other in others:
        if n := len(shared_pairs(pairs, Rows(other).pairs)):
            yield f"{counted(n, 'row')} of {other.path} {verb_of(n, 'are')} trained on as well, source and target"
    if n := _count(texts, looks_misdecoded):
        yield f"{counted(n, 'row')} {verb_of(n, 'have')} a text that was decoded with the wrong encoding"
    if n := len(header_rows(table)):
        yield f"{counted(n, 'row')} {verb_of(n, 'repeat')} the header"
    groups = Groups(pairs)
    if n := groups.n_contradictions:
        best = f"with one right answer a row, exact match cannot exceed {100 * groups.best_exact_match:.2f} %"
        yield f"{counted(n, 'row')} have a source with several targets: {best}"
    if n := int(groups.is_repetition.sum()):
        yield f"{counted(n, 'row')} {verb_of(n, 'repeat')} an earlier row"
    if n := _count(texts, has_control):
        yield f"{counted(n, 'row')} {verb_of(n, 'have')} control or invisible characters"


def _count(pairs: Sequence[Pair], check: Callable[[str], bool]) -> int:
    return sum(1 for source, target in pairs if check(source) or check(target))
