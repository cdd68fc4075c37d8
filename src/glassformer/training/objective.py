"""What training makes small, and how fast: the loss (section 5.4) and the learning rate (section 5.3)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.corpus import Corpus
from glassformer.model import Transformer
from glassformer.settings import TrainingSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int


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
    log_probs = logits.float().log_softmax(dim=1)
    plain = -log_probs.gather(1, target[:, None]).sum()
    if label_smoothing == 0:
        return plain, plain.detach()
    spread = -log_probs.mean(dim=1).sum()
    return (1 - label_smoothing) * plain + label_smoothing * spread, plain.detach()


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
