"""One update of the weights: forward, loss, gradient, optimizer (section 5.3 of the paper)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.data.corpus import Corpus
from glassformer.engines.torch import autocast
from glassformer.errors import RunError
from glassformer.kernels.cross_entropy import cross_entropy
from glassformer.model import Transformer
from glassformer.settings import Settings
from glassformer.training.objective import learning_rate, output_layer, teacher_forced


class Sums(NamedTuple):
    """Sums over the target tokens of one update (nats), the norm of the gradient before clipping, the token count."""

    smoothed: Tensor
    plain: Tensor
    norm: Tensor
    n_tokens: int


class Updater:
    """Updates the weights of a model, from rows of one corpus."""

    def __init__(self, model: Transformer, corpus: Corpus, settings: Settings, device: torch.device) -> None:
        self.model, self.corpus, self.settings, self.device = model, corpus, settings, device
        training = settings.training
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=0.0,
            betas=(training.beta_1, training.beta_2),
            eps=training.epsilon,
            weight_decay=training.weight_decay,
            fused=device.type in ("cpu", "cuda"),
        )
        self._fitting = 0  # tokens of the largest batch so far

    @property
    def learning_rate(self) -> float:
        """The rate of the last update."""
        return float(self.optimizer.param_groups[0]["lr"])

    def update(self, batches: Sequence[NDArray[np.int64]], step: int, seconds: float = 0.0) -> Sums:
        """Make update `step` (from 1), after `seconds` of training, with the mean gradient over all its tokens.

        Raises RunError when a batch does not fit into memory; the weights are then those before the update.
        """
        training = self.settings.training
        self.model.train()
        n_tokens = sum(int((self.corpus.target.lengths[rows] - 1).sum()) for rows in batches)
        try:
            losses = [self._forward_backward(rows, n_tokens) for rows in batches]
        except RuntimeError as error:  # of which PyTorch's OutOfMemoryError is one
            if isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error):
                raise self._too_large(step) from error
            raise
        self._fitting = max(self._fitting, *map(self._tokens_of, batches))
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip_norm or math.inf)
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(step, training, self.settings.model.d_model, seconds)
        self.optimizer.step()
        self.optimizer.zero_grad()
        smoothed, plain = (torch.stack(column).sum() for column in zip(*losses, strict=True))
        return Sums(smoothed, plain, norm, n_tokens)

    def _forward_backward(self, rows: NDArray[np.int64], n_tokens: int) -> tuple[Tensor, Tensor]:
        """Add the gradient of one batch, of the mean over all `n_tokens` of the update; return its summed losses."""
        training = self.settings.training
        with autocast(self.device, training.precision):
            hidden, targets = teacher_forced(self.model, self.corpus, rows, self.device)
            smoothed, plain = cross_entropy(*output_layer(self.model, hidden), targets, training.label_smoothing)
        (smoothed / n_tokens).backward()  # type: ignore[no-untyped-call]
        return smoothed.detach(), plain

    def _tokens_of(self, rows: NDArray[np.int64]) -> int:
        """Return the padded tokens of the longer side of a batch, which training.batch_tokens limits."""
        source, target = self.corpus.source.lengths[rows], self.corpus.target.lengths[rows]
        return len(rows) * int(max(source.max(), target.max()))

    def _too_large(self, step: int) -> RunError:
        """Return the error of a batch that does not fit into memory; its hint is a size that fitted, or half of it."""
        training = self.settings.training
        fits = self._fitting or training.batch_tokens // 2
        parts = math.ceil(training.batch_tokens / fits)
        return RunError(
            f"not enough memory on {self.device} for a batch of {training.batch_tokens:,} tokens",
            where=f"step {step:,}",
            hint=f"{'a batch that fitted' if self._fitting else 'try half of it'}: --set training.batch_tokens={fits} "
            f"--set training.accumulate={parts * training.accumulate} (the same update in smaller parts), "
            "or --set training.recompute=true",
        )
