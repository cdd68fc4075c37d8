"""Drop-in replacements of named parts of the paper's model, for speed. Without this room everything works, slower.

Each equals a few lines of `paper/model.py` or PyTorch; a test compares the two.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from glassformer.fast.attention import FastCopyMechanism, FastMultiHeadAttention
from glassformer.fast.dropout import FastDropout
from glassformer.paper.copying import CopyMechanism
from glassformer.paper.model import DecoderLayer, EncoderLayer, MultiHeadAttention, Transformer


class RecomputedEncoderLayer(EncoderLayer):
    """A layer whose activations are not kept: the backward pass computes them again, which needs less memory."""

    def forward(self, *inputs: Any) -> Tensor:
        return _recomputed(super().forward, *inputs)


class RecomputedDecoderLayer(DecoderLayer):
    """The same for a layer of the decoder."""

    def forward(self, *inputs: Any) -> Tensor:
        return _recomputed(super().forward, *inputs)


def _recomputed(forward: Any, *inputs: Any) -> Tensor:
    if not torch.is_grad_enabled():
        return forward(*inputs)  # type: ignore[no-any-return]
    return checkpoint(forward, *inputs, use_reentrant=False)  # type: ignore[no-any-return]


REPLACEMENTS: dict[type[nn.Module], type[nn.Module]] = {
    CopyMechanism: FastCopyMechanism,
    MultiHeadAttention: FastMultiHeadAttention,
    nn.Dropout: FastDropout,
}
RECOMPUTED: dict[type[nn.Module], type[nn.Module]] = {
    DecoderLayer: RecomputedDecoderLayer,
    EncoderLayer: RecomputedEncoderLayer,
}


def accelerate(model: Transformer, *, recompute: bool = False) -> Transformer:
    """Replace the parts of a model, in place, by those that compute the same for packed sentences, faster.

    Parameters, their names and their values stay. With `recompute` the backward pass computes the activations in layers
    again, which needs less memory.
    """
    replacements = REPLACEMENTS | RECOMPUTED if recompute else REPLACEMENTS
    for module in model.modules():
        module.__class__ = replacements.get(type(module), type(module))
    return model
