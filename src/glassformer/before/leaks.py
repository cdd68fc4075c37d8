"""Two leaks that a loss does not show: a position that sees later ones, and a row that sees padding.

Both compare logits of teacher forcing in float32 and without dropout, through the code of training: packed tokens, with
gradients and one thread, and as validation computes them, because attention may have another implementation for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.corpus import Corpus, Sequences, spread
from glassformer.paper.kernels.cpu import one_thread
from glassformer.paper.model import Transformer
from glassformer.training.objective import teacher_forced

N_ROWS = 8
TOLERANCE = 1e-4
"""Maximum difference, of the largest logit and at least of 1. Rounding is about 1e-6, a visible position above 1e-3."""

Ids = list[list[int]]


def causal_leak(model: Transformer, corpus: Corpus, device: torch.device) -> float:
    """Return the largest change of a logit before a target token when that token and all later ones are changed.

    The change is a fraction of the largest logit, or absolute where all are below 1. It is infinite when the changed
    tokens have no effect at all, not even on later logits: then the comparison shows nothing.
    """
    sources, targets = _sample(corpus)
    size, worst, effect = len(model.target_embedding.weight), 0.0, 0.0
    for first in ([max(1, len(ids) // 2) for ids in targets], [max(1, len(ids) - 2) for ids in targets]):
        changed = [_changed(ids, start, size) for ids, start in zip(targets, first, strict=True)]
        logits = _logits(model, sources, targets, device), _logits(model, sources, changed, device)
        for before, after, start in zip(*logits, first * 2, strict=True):
            worst = max(worst, _difference(before[:start], after[:start]))
            effect = max(effect, _difference(before[start:], after[start:]))
    return worst if effect > TOLERANCE else float("inf")


def padding_leak(model: Transformer, corpus: Corpus, device: torch.device) -> float:
    """Return the largest difference between the logits of a row alone and in a batch with longer and shorter rows."""
    sources, targets = _sample(corpus)
    sources += [_shortened(ids) for ids in sources]
    targets += [_shortened(ids) for ids in targets]
    together = _logits(model, sources, targets, device)
    alone = [_logits(model, [source], [target], device) for source, target in zip(sources, targets, strict=True)]
    flat = [logits for mode in zip(*alone, strict=True) for logits in mode]
    return max(_difference(one, other) for one, other in zip(flat, together, strict=True))


def _sample(corpus: Corpus) -> tuple[Ids, Ids]:
    """Return the framed ids of rows of all lengths, the longest and the shortest included."""
    by_length = np.argsort(corpus.source.lengths + corpus.target.lengths, kind="stable")
    rows = by_length[spread(len(corpus), N_ROWS)]
    return _ids(corpus.source, rows), _ids(corpus.target, rows)


def _ids(sequences: Sequences, rows: NDArray[np.int64]) -> Ids:
    return [sequences.packed(rows[i : i + 1]).tolist() for i in range(len(rows))]


def _changed(ids: Sequence[int], start: int, size: int) -> list[int]:
    """Return target ids with others from index `start` on; the frame stays."""
    return [*ids[:start], *((token + 1) % size for token in ids[start:-1]), ids[-1]]


def _shortened(ids: Sequence[int]) -> list[int]:
    """Return framed ids with the first half of the text, at least one token."""
    n_text = len(ids) - 2
    return [*ids[: 1 + max(1, n_text // 2)], ids[-1]] if n_text > 1 else list(ids)


def _logits(model: Transformer, sources: Ids, targets: Ids, device: torch.device) -> list[Tensor]:
    """Return the logits [T V] of each row of one batch: first all computed for training, then all for validation."""
    corpus = Corpus(Sequences.pack(sources), Sequences.pack(targets))
    was_training, found = model.training, []
    model.eval()
    for with_gradients in (True, False):
        with torch.set_grad_enabled(with_gradients), one_thread() if with_gradients else nullcontext():
            hidden, copies, _ = teacher_forced(model, corpus, np.arange(len(sources)), device)
        with torch.no_grad():
            found += model.project(hidden, copies).split([len(ids) - 1 for ids in targets])  # type: ignore[no-untyped-call]
    model.train(was_training)
    return found


def _difference(one: Tensor, other: Tensor) -> float:
    if not one.numel():
        return 0.0
    scale = max(1.0, float(one.abs().max()))
    difference = float((one - other).abs().max()) / scale
    return difference if np.isfinite(difference) else float("inf")
