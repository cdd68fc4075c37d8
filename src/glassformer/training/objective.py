"""The objective of training: the loss of some rows (sections 3.1 and 5.4), and the learning rate (section 5.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.corpus import Corpus
from glassformer.paper.kernels.packing import Layout
from glassformer.paper.model import Transformer
from glassformer.paper.settings import TrainingSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int

CHUNK_NUMBERS = 2**22  # maximum number of logits in memory at once, for the cache of a CPU


def summed_losses(
    model: Transformer, corpus: Corpus, rows: NDArray[Any], device: torch.device, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed loss and the plain one of some rows: sums over their target tokens, in nats."""
    hidden, copies, targets = teacher_forced(model, corpus, rows, device)
    if copies is None:
        return cross_entropy(*output_layer(model, hidden), targets, label_smoothing)
    log_probs = model.project(hidden, copies).log_softmax(dim=1)
    plain = -log_probs.gather(1, targets[:, None]).sum()
    return (1 - label_smoothing) * plain - label_smoothing * log_probs.mean(dim=1).sum(), plain.detach()


def teacher_forced(
    model: Transformer, corpus: Corpus, rows: NDArray[Any], device: torch.device
) -> tuple[Float[Tensor, "tokens D"], tuple[Tensor, Tensor] | None, Int[Tensor, " tokens"]]:
    """Return the decoder's hidden state and the copies for each target token of some rows, and the ids of the targets.

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
    hidden, copies = model.forward_packed(source_ids, source_layout, ids[is_input].to(device), target_layout)
    return hidden, copies, ids[is_target].to(device)


def output_layer(
    model: Transformer, hidden: Float[Tensor, "rows D"]
) -> tuple[Float[Tensor, "rows D2"], Float[Tensor, "V D2"]]:
    """Return hidden states and output matrix whose products are the logits; a bias is a column, its feature is 1."""
    output = model.output_projection
    if not model.settings.output_bias:
        return hidden, output.weight
    ones = hidden.new_ones((len(hidden), 1))
    return torch.cat((hidden, ones), dim=1), torch.cat((output.weight, output.bias[:, None]), dim=1)


def cross_entropy(
    hidden: Float[Tensor, "rows D"],
    projection: Float[Tensor, "V D"],
    target: Int[Tensor, " rows"],
    label_smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed loss and the plain one (for the perplexity) of logits `hidden · projectionᵀ`.

    Both are sums over rows, in nats and at least float32; the products are in the precision of autocast. Smoothing
    spreads its probability evenly over the whole vocabulary, the target included (Szegedy et al. 2016).
    """
    device = hidden.device.type
    precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    inputs = hidden.to(precision), projection.to(precision)
    if not torch.is_grad_enabled():
        inputs = inputs[0].detach(), inputs[1].detach()
    smoothed, plain = _CrossEntropy.apply(*inputs, target, label_smoothing)  # type: ignore[no-untyped-call]
    return smoothed, plain.detach()


class _CrossEntropy(torch.autograd.Function):
    """Output layer, loss and both gradients in one pass over a few rows at a time.

    The logits of a batch are never in memory at once. With p the softmax of a row's logits x = W h, the loss is
    (1 - ε) (log Σ exp x - x_target) + ε (log Σ exp x - mean x), and its gradient with respect to x is
    p - (1 - ε) · [target] - ε / V. The term of smoothing is the same for all tokens and needs no pass over the logits:
    mean x = h · mean(W).
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        vocabulary, needs_gradient = len(weight), any(ctx.needs_input_grad)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        mean_weight = weight.mean(dim=0, dtype=wide)
        plain, spread = hidden.new_zeros(2, dtype=wide).unbind()
        for_hidden = torch.empty_like(hidden) if needs_gradient else hidden
        for_weight = torch.zeros_like(weight, dtype=wide) if needs_gradient else weight
        n_rows = max(1, CHUNK_NUMBERS * (1 if hidden.device.type == "cpu" else 16) // vocabulary)
        with torch.autocast(hidden.device.type, enabled=False):
            for h, y, into in zip(*(whole.split(n_rows) for whole in (hidden, target, for_hidden)), strict=True):  # type: ignore[no-untyped-call]
                logits = h @ weight.t()
                y = y[:, None]
                largest = logits.amax(dim=1, keepdim=True).to(wide)
                logits_of_targets = logits.gather(1, y).to(wide)
                p = logits.to(wide).softmax(dim=1)
                log_sum = -p.amax(dim=1, keepdim=True).log()  # of the powers relative to the largest
                plain = plain + ((largest - logits_of_targets) + log_sum).sum()
                spread = spread + ((largest + log_sum)[:, 0] - h.to(wide) @ mean_weight).sum()
                if needs_gradient:
                    p.scatter_add_(1, y, p.new_full(y.shape, smoothing - 1))
                    gradient = p.to(h.dtype)
                    into.copy_((gradient @ weight).to(wide).sub_(smoothing * mean_weight))
                    for_weight += gradient.t() @ h
            if needs_gradient:
                for_weight -= hidden.sum(dim=0, dtype=wide) * (smoothing / vocabulary)
        ctx.save_for_backward(for_hidden, for_weight)
        ctx.mark_non_differentiable(plain)
        return (1 - smoothing) * plain + smoothing * spread, plain

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, Tensor, None, None]:
        for_hidden, for_weight = ctx.saved_tensors
        return for_hidden * outward[0], for_weight * outward[0], None, None


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
