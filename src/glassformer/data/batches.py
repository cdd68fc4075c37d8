"""The assignment of rows to batches: a pure function of lengths, budget, seed and epoch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def plan_batches(
    source_lengths: NDArray[np.int64],
    target_lengths: NDArray[np.int64],
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[NDArray[np.int64]]:
    """Return the rows of each batch: every row once, rows of similar length together, in a new order each epoch.

    A batch has at most `batch_tokens` tokens on either side, padding included. A longer row is a batch of its own.
    Lengths are in tokens, with those that `Tokenizer.frame` adds.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(source_lengths))
    # A stable sort: rows of equal length stay in random order.
    order = order[np.lexsort((source_lengths[order], target_lengths[order]))]
    longer = np.maximum(source_lengths, target_lengths)[order]
    starts: list[int] = []
    longest = 0
    for position, length in enumerate(longer.tolist()):
        longest = max(longest, length)
        if not starts or longest * (position + 1 - starts[-1]) > batch_tokens:
            starts.append(position)
            longest = length
    batches = [order[start:stop] for start, stop in pairwise([*starts, len(order)])]
    return [batches[i] for i in generator.permutation(len(batches))]


def padding_fraction(sides: Sequence[NDArray[np.int64]], batches: list[NDArray[np.int64]]) -> float:
    """Fraction of padded positions without a token, 0 to 1. Only attention computes them."""
    n_positions = sum(int(lengths[batch].max()) * len(batch) for lengths in sides for batch in batches)
    n_tokens = sum(int(lengths[batch].sum()) for lengths in sides for batch in batches)
    return 1 - n_tokens / n_positions if n_positions else 0.0
