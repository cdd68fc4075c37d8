"""How losses and gradients of a training are computed: in plain PyTorch, or by `glassformer.fast`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.paper.model import Transformer
from glassformer.settings import Settings
from glassformer.training.objective import TeacherForced, summed_losses

Rows = NDArray[np.int64]


class Computation:
    """The losses of some rows and their gradients, by the paper's model as it is."""

    batch_parts: int | None = None
    """The number of parts of a batch that are computed at the same time in a new run; None where it has no parts."""

    def __init__(self, model: Transformer, settings: Settings, device: torch.device) -> None:
        self.model, self.settings, self.device = model, settings, device

    def threads(self) -> AbstractContextManager[object]:
        """Return the context in which an update is computed."""
        return nullcontext()

    def summed_losses(self, rows: TeacherForced, label_smoothing: float) -> tuple[Tensor, Tensor]:
        """Return what `objective.summed_losses` does."""
        return summed_losses(self.model, rows, label_smoothing)

    def add_gradient(
        self,
        losses: Callable[[Rows], tuple[Tensor, Tensor]],
        rows: Rows,
        n_parts: int,  # noqa: ARG002
    ) -> Tensor:
        """Add the gradient of some rows to the parameters, and return their sums. `losses` returns loss and sums."""
        loss, sums = losses(rows)
        loss.backward()  # type: ignore[no-untyped-call]
        return sums
