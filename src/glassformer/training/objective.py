"""What training makes small, and how fast: the loss (section 5.4) and the learning rate (section 5.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.corpus import Corpus
from glassformer.model import Transformer
from glassformer.settings import TrainingSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int


CHUNK_ROWS = 256


def teacher_forced(
    model: Transformer, corpus: Corpus, rows: NDArray[np.int64], device: torch.device
) -> tuple[Float[Tensor, "tokens V"], Int[Tensor, " tokens"]]:
    """Logits of every real target token of some rows given those before it, and the tokens themselves.

    The decoder reads `<bos> y` and is asked for `y <eos>`. Padding gets neither logits nor loss.
    """
    source, source_visible = corpus.source.padded(rows, 0)
    target, target_visible = corpus.target.padded(rows, 0)
    real = torch.from_numpy(np.flatnonzero(target_visible[:, 1:])).to(device)
    visible = torch.from_numpy(source_visible).to(device)
    ids = torch.from_numpy(target).to(device)
    memory = model.encode(torch.from_numpy(source).to(device), visible)
    hidden = model.decode(ids[:, :-1], memory, visible).flatten(0, 1)
    return model.project(hidden[real]), ids[:, 1:].flatten()[real]


def cross_entropy(
    logits: Float[Tensor, "rows V"], target: Int[Tensor, " rows"], label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The label-smoothed loss and the plain one (for the perplexity), both summed over rows, in nats.

    Smoothing spreads its mass evenly over the whole vocabulary, the target included (Szegedy et al. 2016).
    """
    smoothed, plain = _CrossEntropy.apply(logits, target, label_smoothing)  # type: ignore[no-untyped-call]
    return smoothed, plain.detach()


class _CrossEntropy(torch.autograd.Function):
    """Loss and gradient in one pass over a few rows at a time, so that float32 logits never exist all at once.

    With p the softmax of the logits, the gradient of a row is p - (1 - ε) · [right token] - ε / V.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        vocabulary = logits.shape[1]
        gradient = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        plain, spread = logits.new_zeros(2, dtype=torch.float32).unbind()
        for start in range(0, len(logits), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            x, right = logits[rows].float(), target[rows, None]
            total = x.logsumexp(dim=1, keepdim=True)
            plain = plain + (total - x.gather(1, right)).sum()
            spread = spread + (total - x.mean(dim=1, keepdim=True)).sum()
            if gradient is not None:
                chunk = (x - total).exp_().sub_(smoothing / vocabulary)
                gradient[rows] = chunk.scatter_add_(1, right, chunk.new_full(right.shape, smoothing - 1))
        ctx.save_for_backward(gradient)
        ctx.mark_non_differentiable(plain)
        return (1 - smoothing) * plain + smoothing * spread, plain

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(outward[0]), None, None  # in place: a graph is gone through once, and this is large


def learning_rate(step: int, training: TrainingSettings, d_model: int) -> float:
    """The rate of update `step`, counted from 1. After `steps` a cosine stays at zero.

    noam: rate · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), equation 3 of the paper. The others rise in a
    straight line to `learning_rate` at `warmup_steps`, then fall with step^-0.5, with a half cosine to 0, or not.
    """
    warmup = max(1, training.warmup_steps)
    rise = min(1.0, step / warmup)
    if training.schedule == "noam":
        return float(training.learning_rate * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    if training.schedule == "inverse_sqrt":
        return float(training.learning_rate * min(rise, (warmup / step) ** 0.5))
    if training.schedule == "cosine":
        progress = min(1.0, max(0.0, (step - warmup) / max(1, training.steps - warmup)))
        return float(training.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * progress)))
    return training.learning_rate * rise
