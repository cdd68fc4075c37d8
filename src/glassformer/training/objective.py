"""The objective of training: the loss of some rows (sections 3.1 and 5.4), and the learning rate (section 5.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.corpus import Corpus
from glassformer.paper.kernels.cross_entropy import cross_entropy
from glassformer.paper.kernels.packing import Layout
from glassformer.paper.model import Transformer
from glassformer.paper.settings import TrainingSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int


def summed_losses(
    model: Transformer, corpus: Corpus, rows: NDArray[Any], device: torch.device, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed loss and the plain one of some rows: sums over their target tokens, in nats.

    `cross_entropy` is one pass over output layer, loss and both gradients, a few tokens at a time.
    """
    hidden, targets = teacher_forced(model, corpus, rows, device)
    return cross_entropy(*output_layer(model, hidden), targets, label_smoothing)


def teacher_forced(
    model: Transformer, corpus: Corpus, rows: NDArray[Any], device: torch.device
) -> tuple[Float[Tensor, "tokens D"], Int[Tensor, " tokens"]]:
    """Return the decoder's hidden state for each target token of some rows, and the ids of the targets.

    The decoder reads `<bos> y`; its targets are `y <eos>`. Padding has neither logits nor loss.
    """
    source, target = corpus.source.packed(rows), corpus.target.packed(rows)
    source_layout = Layout.of(torch.from_numpy(corpus.source.lengths[rows].astype(np.int64)), device=device)
    target_lengths = torch.from_numpy(corpus.target.lengths[rows].astype(np.int64))
    ends = target_lengths.cumsum(0) - 1  # <eos> is never an input, <bos> never a target
    is_input, is_target = torch.ones(2, len(target), dtype=torch.bool).unbind()
    is_input[ends], is_target[ends - target_lengths + 1] = False, False
    target_layout = Layout.of(target_lengths - 1, device=device)
    ids = torch.from_numpy(target)
    source_ids = torch.from_numpy(source).to(device)
    hidden = model.forward_packed(source_ids, source_layout, ids[is_input].to(device), target_layout)
    return hidden, ids[is_target].to(device)


def output_layer(
    model: Transformer, hidden: Float[Tensor, "rows D"]
) -> tuple[Float[Tensor, "rows D2"], Float[Tensor, "V D2"]]:
    """Return hidden states and output matrix whose products are the logits; a bias is a column, its feature is 1."""
    output = model.output_projection
    if not model.settings.output_bias:
        return hidden, output.weight
    ones = hidden.new_ones((len(hidden), 1))
    return torch.cat((hidden, ones), dim=1), torch.cat((output.weight, output.bias[:, None]), dim=1)


def learning_rate(step: float, training: TrainingSettings, d_model: int, seconds: float = 0.0) -> float:
    """Return the rate of update `step`, counted from 1, after `seconds` of training.

    noam: rate · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), equation 3 of the paper. The others rise in a
    straight line to `learning_rate` at `warmup_steps`, then fall with step^-0.5, with a half cosine to 0, or stay
    constant. A cosine reaches 0 after `steps` or, where that is sooner, after `max_minutes`: its progress is the larger
    of the two fractions that are done, so that a run which ends by time does not end at a high rate.
    """
    warmup = max(1, training.warmup_steps)
    if training.schedule == "cosine" and training.max_minutes:
        step = max(step, training.steps * seconds / (60 * training.max_minutes))
    rise = min(1.0, step / warmup)
    if training.schedule == "noam":
        return float(training.learning_rate * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    if training.schedule == "inverse_sqrt":
        return float(training.learning_rate * min(rise, (warmup / step) ** 0.5))
    if training.schedule == "cosine":
        progress = min(1.0, max(0.0, (step - warmup) / max(1, training.steps - warmup)))
        return float(training.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * progress)))
    return training.learning_rate * rise
