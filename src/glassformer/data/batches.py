"""The batches of an epoch: a pure function of the lengths of rows, budget, seed and epoch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.corpus import Corpus
from glassformer.paper.settings import TrainingSettings

Lengths = NDArray[np.integer[Any]]


def batches_of_epoch(corpus: Corpus, training: TrainingSettings, epoch: int) -> list[NDArray[np.int64]]:
    """Return the rows of each batch of an epoch."""
    return plan_batches(corpus.source.lengths, corpus.target.lengths, training.batch_tokens, training.seed, epoch)


def plan_batches(
    source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[Any]]:
    """Return the rows of each batch: every row once, rows of similar length together, in a new order each epoch.

    A batch has at most `batch_tokens` tokens on either side, padding included. A longer row is a batch of its own.
    Lengths are in tokens, with those that `Tokenizer.frame` adds. They may be in a file: a row takes about 16 bytes of
    memory while batches are planned, and four in the result.
    """
    generator = np.random.default_rng([seed, epoch])
    order = np.arange(len(source_lengths), dtype=np.int32)
    generator.shuffle(order)
    for lengths in (source_lengths, target_lengths):  # stable sorts: rows of equal length stay in random order
        order = order[np.argsort(lengths[order], kind="stable")]
    starts = _starts(order, source_lengths, target_lengths, batch_tokens)
    batches = [order[start:stop] for start, stop in pairwise([*starts, len(order)])]
    return [batches[i] for i in generator.permutation(len(batches))]


def _starts(order: NDArray[np.int32], source: Lengths, target: Lengths, batch_tokens: int) -> list[int]:
    """Return the position in `order` at which each batch begins."""
    longer = np.maximum(source[order], target[order])
    ends = np.append(np.flatnonzero(np.diff(longer)) + 1, len(longer))  # of rows of equal length
    starts: list[int] = []
    position = longest = 0
    for length, end in zip(longer[ends - 1].tolist() if len(longer) else [], ends.tolist(), strict=False):
        while position < end:
            padded = max(longest, length)
            room = batch_tokens // max(1, padded) - (position - starts[-1]) if starts else 0
            if room > 0:
                position, longest = min(end, position + room), padded
            else:
                starts.append(position)
                position, longest = position + 1, length
    return starts
