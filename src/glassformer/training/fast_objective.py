"""Training by `glassformer.fast`: packed tokens, and on a CPU parts of a batch by threads of their own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from glassformer.data.batches import Rows
from glassformer.data.corpus import Corpus
from glassformer.fast import accelerate
from glassformer.fast.dropout import drawing_from
from glassformer.fast.loss import summed_losses
from glassformer.fast.threads import batch_parts, configure_memory, one_thread, run_apart
from glassformer.paper.model import Transformer
from glassformer.settings import Settings
from glassformer.training.objective import Objective, TeacherForced


class FastObjective(Objective):
    """The same losses and gradients in less time.

    Threads that share each matrix product wait for each other at the end of each, and stand still next to a busy
    program; so each thread computes a part of the batch.
    """

    def __init__(self, model: Transformer, settings: Settings, device: torch.device) -> None:
        configure_memory(settings.training.batch_tokens * settings.model.d_model)
        super().__init__(accelerate(model, recompute=settings.training.recompute), settings, device)
        self.batch_parts, self.n_cores = batch_parts(settings, device), torch.get_num_threads()

    def threads(self) -> AbstractContextManager[object]:
        return one_thread() if self.batch_parts else nullcontext()

    def summed_losses(self, rows: TeacherForced, label_smoothing: float) -> tuple[Tensor, Tensor]:
        packed = rows.source, rows.source_lengths, rows.inputs, rows.targets, rows.target_lengths
        return summed_losses(self.model, *packed, label_smoothing)

    def add_gradient(self, corpus: Corpus, rows: Rows, n_tokens: int, weight: float, n_parts: int) -> Tensor:
        if not 1 < n_parts <= len(rows):
            return super().add_gradient(corpus, rows, n_tokens, weight, n_parts)
        parameters = list(self.model.parameters())
        seeds = torch.randint(2**62, (n_parts,)).tolist()

        def gradient(part: int) -> tuple[tuple[Tensor | None, ...], Tensor]:
            with drawing_from(seeds[part]):
                loss, losses = self._part_of_mean(corpus, rows[part::n_parts], n_tokens, weight)
            return torch.autograd.grad(loss, parameters, allow_unused=True), losses

        parts = run_apart(gradient, n_parts, min(n_parts, self.n_cores))
        for gradients, _ in parts:  # in this order, whichever was ready first
            for parameter, of_part in zip(parameters, gradients, strict=True):
                if of_part is not None:
                    parameter.grad = of_part if parameter.grad is None else parameter.grad.add_(of_part)
        return torch.stack([losses for _, losses in parts]).sum(dim=0)
