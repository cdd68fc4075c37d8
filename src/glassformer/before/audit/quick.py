"""The short audit before each training: the worst findings that take little time, as at most three lines."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from glassformer.before.audit.characters import looks_misdecoded
from glassformer.before.audit.findings import rows_text, verb_of
from glassformer.before.audit.pairs import Rows, all_cells, contradictions, repeated
from glassformer.before.audit.splits import shared_pairs
from glassformer.data.cleaning import has_control
from glassformer.data.corpus import spread
from glassformer.data.tables import Pair, Table

MAX_LINES = 3
MAX_ROWS = 100_000
"""Rows of a table that are examined; a sample of a larger one."""


def quick_audit(table: Table, others: Sequence[Table] = ()) -> list[str]:
    """Return at most MAX_LINES lines about a table to train on, the worst first; none if nothing was found."""
    n_rows = len(table.pairs)
    if n_rows > MAX_ROWS:
        indices = spread(n_rows, MAX_ROWS).tolist()
        table = table.chosen(indices, [table.pairs[i] for i in indices])
    pairs = Rows(table).pairs
    shared = [(other, len(shared_pairs(pairs, Rows(other).pairs))) for other in others]
    lines = [
        f"{rows_text(n)} of {other.path} {verb_of(n, 'are')} trained on as well, source and target"
        for other, n in shared
        if n
    ]
    texts = all_cells(table).pairs
    if found := _count(texts, looks_misdecoded):
        lines.append(f"{rows_text(found)} {verb_of(found, 'have')} a text that was decoded with the wrong encoding")
    found_contradictions = contradictions(pairs)
    if found_contradictions.rows:
        best = 100 * found_contradictions.best_exact_match(len(pairs))
        lines.append(
            f"{rows_text(found_contradictions.rows)} have a source with several targets: with one right answer a row, "
            f"exact match cannot exceed {best:.2f} %"
        )
    if duplicates := len(repeated(pairs)):
        lines.append(f"{rows_text(duplicates)} {verb_of(duplicates, 'repeat')} an earlier row")
    if found := _count(texts, has_control):
        lines.append(f"{rows_text(found)} {verb_of(found, 'have')} control or invisible characters")
    shown = lines[:MAX_LINES]
    if shown and n_rows > MAX_ROWS:
        shown[-1] += f" (of a sample of {MAX_ROWS:,} of the {n_rows:,} rows)"
    if shown and table.format != "python":
        shown[-1] += f" (examples: glassformer audit {shlex.quote(table.path)})"
    return shown


def _count(pairs: Sequence[Pair], check: Callable[[str], bool]) -> int:
    return sum(1 for source, target in pairs if check(source) or check(target))
