"""The assignment of rows to batches: a pure function of lengths, budget, seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Lengths = NDArray[np.integer[Any]]

_BLOCK = 2**20  # rows that are sorted at once; it limits memory and does not change the result


def plan_batches(
    source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[Any]]:
    """Return the rows of each batch: every row once, rows of similar length together, in a new order each epoch.

    A batch has at most `batch_tokens` tokens on either side, padding included. A longer row is a batch of its own.
    Lengths are in tokens, with those that `Tokenizer.frame` adds. The lengths may be in a file: beside the result, of
    four bytes for each row, one more copy of it is in memory.
    """
    generator = np.random.default_rng([seed, epoch])
    order = np.arange(len(source_lengths), dtype=np.int32)
    generator.shuffle(order)
    # Stable sorts: rows of equal length stay in random order.
    order = _sorted_by(target_lengths, _sorted_by(source_lengths, order))
    starts = _starts(order, source_lengths, target_lengths, batch_tokens)
    batches = [order[start:stop] for start, stop in pairwise([*starts, len(order)])]
    return [batches[i] for i in generator.permutation(len(batches))]


def _blocks(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + _BLOCK) for start in range(0, n_rows, _BLOCK))


def _sorted_by(lengths: Lengths, order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the rows sorted by length, those of equal length in the given order: a counting sort in blocks."""
    if not len(order):
        return order
    counts = sum(np.bincount(lengths[block], minlength=int(lengths.max()) + 1) for block in _blocks(len(order)))
    free = np.concatenate(([0], np.cumsum(counts)[:-1]))  # the next free position of each length
    found = np.empty_like(order)
    for block in _blocks(len(order)):
        rows = order[block]
        keys = lengths[rows]
        positions = np.argsort(keys, kind="stable")
        keys = keys[positions]
        counts = np.bincount(keys, minlength=len(free))
        within = np.arange(len(keys)) - np.concatenate(([0], np.cumsum(counts)[:-1]))[keys]
        found[free[keys] + within] = rows[positions]
        free += counts
    return found


def _starts(order: NDArray[np.int32], source: Lengths, target: Lengths, batch_tokens: int) -> list[int]:
    """Return the position in `order` at which each batch begins."""
    starts: list[int] = []
    position = longest = 0
    for length, n_rows in _runs(order, source, target):
        end = position + n_rows
        while position < end:
            padded = max(longest, length)
            room = batch_tokens // max(1, padded) - (position - starts[-1]) if starts else 0
            if room > 0:
                position, longest = min(end, position + room), padded
            else:
                starts.append(position)
                position, longest = position + 1, length
    return starts


def _runs(order: NDArray[np.int32], source: Lengths, target: Lengths) -> Iterator[tuple[int, int]]:
    """Yield the larger length of consecutive rows of equal length, and their number."""
    for block in _blocks(len(order)):
        rows = order[block]
        longer = np.maximum(source[rows], target[rows])
        bounds = np.concatenate(([0], np.flatnonzero(np.diff(longer)) + 1, [len(longer)]))
        yield from zip(longer[bounds[:-1]].tolist(), np.diff(bounds).tolist(), strict=True)


def padding_fraction(sides: Sequence[Lengths], batches: Sequence[NDArray[Any]]) -> float:
    """Fraction of padded positions without a token, 0 to 1. Only attention computes them."""
    n_positions = sum(int(lengths[batch].max()) * len(batch) for lengths in sides for batch in batches)
    n_tokens = sum(int(lengths[batch].sum(dtype=np.int64)) for lengths in sides for batch in batches)
    return 1 - n_tokens / n_positions if n_positions else 0.0
