"""Departure: tokens of the source can be copied into the answer, by a copy mechanism after Gu et al. 2016 (CopyNet).

The softmax is over the vocabulary and the positions of the source together (their equation 4), and the probability of a
token is the sum over all its places. The score of a position is the scaled product of the decoder's hidden state and a
key of the position: keys are linear, and there is no selective read. Axes as in `model`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from glassformer.settings import ModelSettings

if TYPE_CHECKING:
    from jaxtyping import Float, Int

Copies = tuple[Tensor, Tensor]
"""Score and target id of each source position, `[*tokens S]` both; the token of a negative id cannot be copied."""


class CopyMechanism(nn.Module):
    """The scores of copying. `target_ids` are the ids, in the target vocabulary, of all tokens of the source."""

    target_ids: Tensor

    def __init__(self, settings: ModelSettings, target_ids: Sequence[int]) -> None:
        super().__init__()
        self.w_k = nn.Linear(settings.d_model, settings.d_model, bias=False)
        self.register_buffer("target_ids", torch.tensor(target_ids, dtype=torch.float32))  # as in a model file

    def forward(
        self,
        hidden: Float[Tensor, "B T D"],
        memory: Float[Tensor, "B S D"],
        source: Int[Tensor, "B S"],
        seen: Any,
    ) -> Copies:
        """Return score and target id of each source position, for each hidden state. `seen` is a `Padded`."""
        keys, ids = self.w_k(memory), self.target_ids[source]
        scores = (hidden @ keys.transpose(1, 2)).float() / math.sqrt(hidden.shape[2])
        return scores, ids[:, None].masked_fill(~seen.visible, -1).expand_as(scores)


def add_copies(
    logits: Float[Tensor, "*rows V"], scores: Float[Tensor, "*rows S"], target_ids: Float[Tensor, "*rows S"]
) -> Float[Tensor, "*rows V"]:
    """Return the logits with copying: log(exp(logit) + Σ exp(score)), over the positions that have the token."""
    tokens, logits = target_ids.long().clamp(min=0), logits.to(scores.dtype)
    scores = scores.masked_fill(target_ids < 0, -torch.inf)
    highest = logits.detach().scatter_reduce(-1, tokens, scores.detach(), "amax").clamp(torch.finfo(scores.dtype).min)
    powers = (scores - highest.gather(-1, tokens)).exp()  # relative to the highest of the token: one is 1
    return (logits - highest).exp().scatter_add(-1, tokens, powers).log() + highest
