"""The lengths of the texts, what the limits leave out, and pairs whose lengths do not fit together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from glassformer.before.audit.findings import (
    N_EXAMPLES,
    Example,
    Finding,
    Lengths,
    Side,
    about_rows,
    fraction_text,
)
from glassformer.data.tables import Table
from glassformer.errors import counted

Counts = NDArray[np.int64]

N_INTERVALS = 10
PERCENTILES = (5, 50, 95, 99)
FAR_OUT = 5.0  # robust standard deviations from the expected length
MIN_FACTOR = 2.0  # minimum factor between the expected and the actual length
MIN_ROWS = 50  # rows from which the expected length is estimated
WINDOW, MIN_WINDOW, MAX_SHIFT = 500, 100, 3  # rows that are compared at once; maximum shift in rows
MIN_CORRELATION, MIN_GAIN = 0.4, 0.3


def summarize(side: Side, unit: str, lengths: Counts, limit: int | None) -> Lengths:
    """Return the summary of some lengths. At least one is needed."""
    low, high = int(lengths.min()), int(lengths.max())
    named = {str(percent): int(np.percentile(lengths, percent, method="lower")) for percent in PERCENTILES}
    return Lengths(
        side, unit, float(lengths.mean()), {"min": low, **named, "max": high}, _histogram(lengths, low, high), limit
    )


def _histogram(lengths: Counts, low: int, high: int) -> tuple[tuple[int, int, int], ...]:
    """Return (first, last, rows) of at most N_INTERVALS intervals of equal width, the last one up to the maximum."""
    top = max(low, int(np.percentile(lengths, 99, method="lower")))
    width = max(1, math.ceil((top - low + 1) / N_INTERVALS))
    starts = list(range(low, top + 1, width))
    ends = [start - 1 for start in starts[1:]] + [high]
    counts = np.bincount(np.searchsorted(starts, lengths, side="right") - 1, minlength=len(starts))
    return tuple((start, end, int(count)) for start, end, count in zip(starts, ends, counts, strict=True))


def find_too_long(table: Table, side: Side, kind: str, lengths: Counts, limit: int) -> Iterator[Finding]:
    """Yield a finding for rows that have more tokens than a limit, the longest ones first."""
    found = np.flatnonzero(lengths > limit)
    return about_rows(
        "too long",
        "warning",
        table,
        side,
        found[np.argsort(-lengths[found], kind="stable")].tolist(),
        f"have a {side} of more than {limit:,} {kind}, the limit data.max_{side}_length; training leaves them out",
        "a higher limit keeps them, and needs more memory; or split these texts in the table",
        f"--set data.max_{side}_length={int(lengths.max())}",
        lambda index: f"{lengths[index]:,} {kind}",
    )


def find_length_ratio(table: Table, source: Counts, target: Counts) -> Iterator[Finding]:
    """Yield a finding for pairs in characters whose target is far longer or shorter than its source lets expect.

    The target has about `ratio` characters for each of the source, with a variance that grows with the length (Gale
    and Church 1993). Ratio and deviation are medians, so that wrong pairs do not change them.
    """
    if len(source) < MIN_ROWS:
        return
    ratio = float(np.median(target / source))
    expected = ratio * source
    deviation = (target - expected) / np.sqrt(expected + 1)
    center = float(np.median(deviation))
    scale = max(0.5, 1.4826 * float(np.median(np.abs(deviation - center))))
    factor = (np.maximum(target, expected) + 1) / (np.minimum(target, expected) + 1)
    distance = np.abs(deviation - center) / scale
    found = np.flatnonzero((distance > FAR_OUT) & (factor > MIN_FACTOR))
    if not len(found):
        return
    yield from about_rows(
        "length ratio",
        "warning",
        table,
        "target",
        found[np.argsort(-distance[found], kind="stable")].tolist(),
        f"have a target whose length does not fit the source (a character of a source has {ratio:.2f} of a target)",
        "read the examples; where source and target are not translations of each other, correct or drop the rows",
        None,
        lambda i: f"{target[i]:,} characters; about {expected[i]:,.0f} are expected for {source[i]:,}",
    )


def find_shift(table: Table, source: Counts, target: Counts) -> Iterator[Finding]:
    """Yield a finding when the lengths of sources correlate better with those of targets a few rows away."""
    shifts: dict[int, list[int]] = {}
    x, y = np.log(source + 1.0), np.log(target + 1.0)
    for start, end in _windows(len(source)):
        own = _correlation(x[start:end], y[start:end])
        others = {k: _shifted(x, y, start, end, k) for k in range(-MAX_SHIFT, MAX_SHIFT + 1) if k}
        best = max(others, key=lambda k: others[k])
        gain = max(MIN_GAIN, 6 / math.sqrt(end - start))  # six standard deviations of a correlation by accident
        if others[best] > MIN_CORRELATION and others[best] > own + gain:
            shifts.setdefault(best, []).append(start)
    if not shifts:
        return
    offset = max(shifts, key=lambda k: len(shifts[k]))
    first = min(min(starts) for starts in shifts.values())
    n_rows = sum(end - start for start, end in _windows(len(source)) if any(start in at for at in shifts.values()))
    distance = f"{counted(abs(offset), 'row')} {'below' if offset > 0 else 'above'}"
    yield Finding(
        "shifted lines",
        "error",
        table.path,
        "target",
        n_rows,
        len(source),
        f"in {fraction_text(n_rows, len(source))}, a source's length fits the target {distance} better than its own, "
        f"from about row {table.rows[first]:,}",
        "one of the columns or files lacks a line there, or has one more: correct it, and compare the numbers of lines",
        None,
        tuple(Example.of(table, index) for index in range(first, min(first + N_EXAMPLES, len(source)))),
    )


def _windows(n_rows: int) -> list[tuple[int, int]]:
    """Return (start, end) of windows over all rows; the last rows belong to the last window."""
    if n_rows < MIN_WINDOW:
        return []
    starts = list(range(0, max(1, n_rows - WINDOW + 1), WINDOW))
    return [*pairwise(starts), (starts[-1], n_rows)]


def _shifted(x: NDArray[np.float64], y: NDArray[np.float64], start: int, end: int, shift: int) -> float:
    low, high = max(start, -shift), min(end, len(y) - shift)
    return _correlation(x[low:high], y[low + shift : high + shift])


def _correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Return Pearson's correlation, 0 where one of the two does not vary."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0
    return float(np.corrcoef(x, y)[0, 1])
