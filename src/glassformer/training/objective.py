"""The objective of training: the loss of some rows (sections 3.1 and 5.4)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from glassformer.data.batches import Rows
from glassformer.data.corpus import Corpus
from glassformer.paper.model import Transformer, padded
from glassformer.runtime.devices import autocast
from glassformer.settings import Settings

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True)
class TeacherForced:
    """Some rows of a corpus, packed sentence after sentence: the decoder reads `<bos> y`, its targets are `y <eos>`.

    Lengths are on the CPU: those of the sources, and those of the inputs, which are as long as the targets.
    """

    source: Int[Tensor, " source_tokens"]
    source_lengths: Int[Tensor, " B"]
    inputs: Int[Tensor, " tokens"]
    targets: Int[Tensor, " tokens"]
    target_lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, corpus: Corpus, rows: Rows, device: torch.device) -> TeacherForced:
        """Pack these rows of a corpus on a device."""
        source, target = (torch.from_numpy(side.packed(rows)) for side in (corpus.source, corpus.target))
        source_lengths, lengths = (
            torch.from_numpy(side.lengths[rows].astype(np.int64)) for side in (corpus.source, corpus.target)
        )
        ends = lengths.cumsum(0) - 1  # <eos> is never an input, <bos> never a target
        is_input, is_target = torch.ones(2, len(target), dtype=torch.bool).unbind()
        is_input[ends], is_target[ends - lengths + 1] = False, False
        inputs, targets = target[is_input].to(device), target[is_target].to(device)
        return cls(source.to(device), source_lengths, inputs, targets, lengths - 1)


def summed_losses(
    model: Transformer, rows: TeacherForced, label_smoothing: float
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return the label-smoothed loss and the plain one of some rows: sums over their target tokens, in nats.

    Smoothing spreads its probability evenly over the whole vocabulary, the target included (Szegedy et al. 2016).
    """
    source, inputs, targets = (
        pad_sequence(list(ids.split(lengths.tolist())), batch_first=True)  # type: ignore[no-untyped-call]
        for ids, lengths in (
            (rows.source, rows.source_lengths),
            (rows.inputs, rows.target_lengths),
            (rows.targets, rows.target_lengths),
        )
    )
    visible, is_target = (
        (torch.arange(int(lengths.max())) < lengths[:, None]).to(source.device)
        for lengths in (rows.source_lengths, rows.target_lengths)
    )
    logits = model(source, inputs, padded(visible, inputs.shape[1]))
    log_probs = logits[is_target].float().log_softmax(dim=1)
    plain = -log_probs.gather(1, targets[is_target][:, None]).sum()
    return (1 - label_smoothing) * plain - label_smoothing * log_probs.mean(dim=1).sum(), plain.detach()


class Objective:
    """The loss of rows and its gradient, by the paper's model as it is. `FastObjective` computes them in less time."""

    batch_parts: int | None = None
    """The number of parts of a batch that are computed at the same time in a new run; None where it has no parts."""

    def __init__(self, model: Transformer, settings: Settings, device: torch.device) -> None:
        self.model, self.settings, self.device = model, settings, device

    def threads(self) -> AbstractContextManager[object]:
        """Return the context in which an update is computed."""
        return nullcontext()

    def summed_losses(self, rows: TeacherForced, label_smoothing: float) -> tuple[Tensor, Tensor]:
        return summed_losses(self.model, rows, label_smoothing)

    def losses(self, corpus: Corpus, rows: Rows) -> tuple[Tensor, Tensor]:
        """Return `summed_losses` of rows of a corpus, in the precision and with the smoothing of the training."""
        training = self.settings.training
        with autocast(self.device, training.precision):
            return self.summed_losses(TeacherForced.of(corpus, rows, self.device), training.label_smoothing)

    def add_gradient(self, corpus: Corpus, rows: Rows, n_tokens: int, weight: float, _n_parts: int) -> Tensor:
        """Add the gradient of the part of some rows in a mean over `n_tokens`; return their losses, in one tensor.

        `weight` is 0 for rows that do not count.
        """
        loss, losses = self._part_of_mean(corpus, rows, n_tokens, weight)
        loss.backward()  # type: ignore[no-untyped-call]
        return losses

    def _part_of_mean(self, corpus: Corpus, rows: Rows, n_tokens: int, weight: float) -> tuple[Tensor, Tensor]:
        smoothed, plain = self.losses(corpus, rows)
        return smoothed * weight / n_tokens, torch.stack([smoothed.detach(), plain]) * weight
