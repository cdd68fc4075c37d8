"""Batches of texts of similar lengths, and the cores that compute them."""

from __future__ import annotations

import os
from collections.abc import Sequence

BATCH_POSITIONS = 6144  # maximum of source positions times hypotheses in a batch of a search


def padded_length(length: int) -> int:
    """Return `length` rounded up, by at most a sixteenth."""
    multiple = 1 + length // 16
    return -(-length // multiple) * multiple


def plan_equal_lengths(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Return batches of row numbers: rows of one padded length, at most BATCH_POSITIONS of positions times `width`.

    The longest padded length is first; in a batch lengths rise, so that its last row is its longest.
    """
    by_length: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        by_length.setdefault(padded_length(length), []).append(row)
    batches = []
    for padded in sorted(by_length, reverse=True):
        rows = sorted(by_length[padded], key=lambda row: (lengths[row], row))
        size = max(1, BATCH_POSITIONS // (padded * width))
        batches += [rows[start : start + size] for start in range(0, len(rows), size)]
    return batches


def cores() -> int:
    """Return the number of cores to use: `OMP_NUM_THREADS`, at most those that this process may use, by default all."""
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        available = os.cpu_count() or 1
    chosen = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(available, int(chosen)) if chosen.isdecimal() and int(chosen) else available
