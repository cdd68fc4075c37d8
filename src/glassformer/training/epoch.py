"""The batches of one epoch, also after training.batch_tokens has changed in the middle of it; the event Started."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import padding_fraction, plan_batches
from glassformer.data.corpus import Corpus
from glassformer.inference.engines.torch import resolve_precision
from glassformer.paper.settings import TrainingSettings
from glassformer.ship.storage.modelfile import count_parameters
from glassformer.training.checkpoints import Position
from glassformer.training.events import Change, Started
from glassformer.training.prepare import Prepared


def batches_of_epoch(
    corpus: Corpus, training: TrainingSettings, epoch: int, parts: Sequence[tuple[int, int]] = ()
) -> list[NDArray[np.int64]]:
    """Return the rows of each batch of an epoch, or of the rest of it after its `parts`.

    A part is a number of tokens that was `batch_tokens` before, and how many batches of that size were done. The rows
    of the others are divided again, so that every row of the epoch is in exactly one batch that is trained on.
    """
    if not parts:
        lengths = corpus.source.lengths, corpus.target.lengths
        return plan_batches(*lengths, training.batch_tokens, training.seed, epoch)
    rows = np.arange(len(corpus))
    for tokens_before, n_done in parts:
        rows = np.sort(np.concatenate(_batches(corpus, rows, tokens_before, training.seed, epoch)[n_done:]))
    return _batches(corpus, rows, training.batch_tokens, training.seed, epoch)


def _batches(
    corpus: Corpus, rows: NDArray[np.int64], batch_tokens: int, seed: int, epoch: int
) -> list[NDArray[np.int64]]:
    lengths = corpus.source.lengths[rows], corpus.target.lengths[rows]
    return [rows[batch] for batch in plan_batches(*lengths, batch_tokens, seed, epoch)]


def started_event(
    prepared: Prepared, position: Position, device: torch.device, *, resumed: bool, changes: tuple[Change, ...] = ()
) -> Started:
    """Return the first event of a run, which continues at `position` with `changes` when it is resumed."""
    corpus, training = prepared.train, prepared.settings.training
    batches = batches_of_epoch(corpus, training, 0)
    sizes = len(prepared.source_tokenizer), len(prepared.target_tokenizer)
    return Started(
        position.step,
        position.seconds,
        train_rows=len(corpus),
        valid_rows=len(prepared.valid_pairs),
        n_parameters=count_parameters(prepared.settings.model, *sizes),
        steps=training.steps,
        steps_per_epoch=math.ceil(len(batches) / training.accumulate),
        padding_fraction=padding_fraction((corpus.source.lengths, corpus.target.lengths), batches),
        device=str(device),
        precision=resolve_precision(device, training.precision),
        resumed=resumed,
        changes=changes,
    )
