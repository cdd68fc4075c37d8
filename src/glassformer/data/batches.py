"""The batches of an epoch: a pure function of the lengths of rows, budget, seed and epoch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.corpus import Corpus
from glassformer.settings import TrainingSettings

Lengths = NDArray[np.integer[Any]]
Rows = NDArray[np.int64]  # indices of rows of a corpus


def batches_of_epoch(corpus: Corpus, training: TrainingSettings, epoch: int) -> list[Rows]:
    """Return the rows of each batch of an epoch."""
    return plan_batches(corpus.source.lengths, corpus.target.lengths, training.batch_tokens, training.seed, epoch)


def plan_batches(
    source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[Any]]:
    """Return the rows of each batch: every row once, rows of similar length together, in a new order each epoch.

    A batch has at most `batch_tokens` tokens on either side, padding included. A longer row is a batch of its own.
    Lengths are in tokens, with those that `Tokenizer.frame` adds.
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
    starts: list[int] = []
    longest = 0
    for position, length in enumerate(np.maximum(source[order], target[order]).tolist()):
        longest = max(longest, length)
        if not starts or (position + 1 - starts[-1]) * longest > batch_tokens:
            starts.append(position)
            longest = length
    return starts
