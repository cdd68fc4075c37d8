"""Layers whose activations are not kept: the backward pass computes them again, which needs less memory."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from glassformer.paper.model import DecoderLayer, EncoderLayer


class RecomputedEncoderLayer(EncoderLayer):
    def forward(self, *inputs: Any) -> Tensor:
        return _recomputed(super().forward, *inputs)


class RecomputedDecoderLayer(DecoderLayer):
    def forward(self, *inputs: Any) -> Tensor:
        return _recomputed(super().forward, *inputs)


def _recomputed(forward: Any, *inputs: Any) -> Tensor:
    if not torch.is_grad_enabled():
        return forward(*inputs)  # type: ignore[no-any-return]
    return checkpoint(forward, *inputs, use_reentrant=False)  # type: ignore[no-any-return]
