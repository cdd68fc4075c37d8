"""Attention (section 3.2.1, equation 1) by the fastest kernel for a device, a precision and a length."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

from glassformer.paper.kernels.dropout import drop

CAUSAL_BLOCK = 512  # queries
SHORT_ROW = 16  # scores; the softmax of shorter rows, less than a vector of a CPU, is ten times slower
MIN_BFLOAT16 = 4_000_000  # products; for fewer, preparing bfloat16 for a new shape on a CPU takes longer than it saves


def fastest_attention(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """softmax(Q Kᵀ / sqrt(d_k)) V; the arguments are those of `model.attention`.

    It is PyTorch's fused kernel, except in training on a CPU, where the backward pass of that kernel was measured to be
    two to eight times slower than matrix products. Short sentences are computed in float32 there.
    """
    if query.device.type == "cpu" and query.requires_grad:
        if torch.is_autocast_enabled("cpu") and query.numel() * key.shape[2] < MIN_BFLOAT16:
            with torch.autocast("cpu", enabled=False):
                return attention_by_products(query.float(), key.float(), value.float(), visible, causal, dropout)
        return attention_by_products(query, key, value, visible, causal, dropout)
    return F.scaled_dot_product_attention(query, key, value, visible, dropout, is_causal=causal)


def attention_by_products(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """Compute attention as two matrix products and a softmax.

    With `causal`, `visible` is ignored, and the queries are computed in blocks, each without the keys after it.
    """
    if not causal:
        return _attend(query, key, value, visible, dropout)
    outputs: list[Tensor] = []
    for block in query.split(CAUSAL_BLOCK, dim=2):  # type: ignore[no-untyped-call]
        start = len(outputs) * CAUSAL_BLOCK
        seen = start + block.shape[2]
        visible = torch.ones(block.shape[2], seen, dtype=torch.bool, device=query.device).tril(start)
        outputs.append(_attend(block, key[:, :, :seen], value[:, :, :seen], visible, dropout))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)


def _attend(query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, dropout: float) -> Tensor:
    scores = (query / math.sqrt(query.shape[3])) @ key.transpose(2, 3)
    if visible is not None:  # adding is several times faster than filling, and e^-1e30 is 0
        scores += torch.where(visible, 0.0, -1e30)
    output = drop(_softmax(scores), dropout) @ value
    return output if visible is None or visible.dim() == 2 else output * visible.any(dim=3, keepdim=True)


def _softmax(scores: Tensor) -> Tensor:
    missing = SHORT_ROW - scores.shape[3]
    if missing <= 0 or scores.device.type != "cpu":
        return scores.softmax(dim=3)
    return F.pad(scores, (0, missing), value=-math.inf).softmax(dim=3)[..., :-missing]
