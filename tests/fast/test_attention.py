"""Attention by matrix products against PyTorch's fused kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from glassformer.fast.attention import fastest_attention


def draw(seed: int, *size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found.detach(), expected.detach(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("masked", ["open", "causal", "padded", "one row blind"])
@pytest.mark.parametrize("length", [1, 4, 5, 8, 11, 17])
def test_attention_by_products_equals_the_fused_kernel_and_so_do_its_gradients(masked: str, length: int) -> None:
    q, k, v = (draw(i, 2, 3, length, width).requires_grad_() for i, width in enumerate((4, 4, 6)))
    visible = torch.ones(2, 1, 1, length, dtype=torch.bool)
    if masked == "padded":
        visible[0, :, :, (length + 1) // 2 :] = False
    if masked == "one row blind":
        visible[1] = False
    mask = visible if masked in ("padded", "one row blind") else None
    by_products = fastest_attention(q, k, v, mask, masked == "causal", nn.Identity())
    fused = F.scaled_dot_product_attention(q, k, v, mask, is_causal=masked == "causal")
    close(by_products, fused, 1e-6)
    towards = draw(3, *fused.shape)
    found, expected = (torch.autograd.grad(output, (q, k, v), towards) for output in (by_products, fused))
    for gradient, right in zip(found, expected, strict=True):
        close(gradient, right, 1e-5)
