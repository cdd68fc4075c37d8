"""Attention (section 3.2.1, equation 1) of padded sentences, by the fastest kernel for a device."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

from glassformer.paper.kernels.dropout import drop

SHORT_ROW = 16  # scores; PyTorch's softmax of shorter rows, less than a vector of a CPU, is ten times slower


def fastest_attention(
    query: Tensor, key: Tensor, value: Tensor, visible: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """softmax(Q Kᵀ / sqrt(d_k)) V; the arguments are those of `model.attention`.

    It is PyTorch's fused kernel, except with gradients on a CPU, where the backward pass of that kernel was measured to
    be two to eight times slower than matrix products.
    """
    if query.device.type != "cpu" or not query.requires_grad:
        return F.scaled_dot_product_attention(query, key, value, visible, dropout, is_causal=causal)
    if causal:
        visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
    scores = (query / math.sqrt(query.shape[3])) @ key.transpose(2, 3)
    if visible is not None:  # adding is several times faster than filling, and e^-1e30 is 0
        scores += torch.where(visible, 0.0, -1e30)
    if (missing := SHORT_ROW - key.shape[2]) > 0:
        scores = F.pad(scores, (0, missing), value=-math.inf)
    output = drop(scores.softmax(dim=3)[..., : key.shape[2]], dropout) @ value
    return output if visible is None or causal else output * visible.any(dim=3, keepdim=True)
