"""The batches of one epoch, also after training.batch_tokens has changed in the middle of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassformer.data.batches import plan_batches
from glassformer.data.corpus import Corpus


def batches_of_epoch(
    corpus: Corpus, batch_tokens: int, seed: int, epoch: int, parts: Sequence[tuple[int, int]] = ()
) -> list[NDArray[np.int64]]:
    """Return the rows of each batch of an epoch, or of the rest of it after its `parts`.

    A part is a number of tokens that was `batch_tokens` before, and how many batches of that size were done. The rows of
    the others are divided again, so that every row of the epoch is in exactly one batch that is trained on.
    """
    rows = np.arange(len(corpus))
    for tokens_before, n_done in parts:
        rows = np.sort(np.concatenate(_batches(corpus, rows, tokens_before, seed, epoch)[n_done:]))
    return _batches(corpus, rows, batch_tokens, seed, epoch)


def _batches(
    corpus: Corpus, rows: NDArray[np.int64], batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    lengths = corpus.source.lengths[rows], corpus.target.lengths[rows]
    return [rows[batch] for batch in plan_batches(*lengths, batch_tokens, seed, epoch)]
