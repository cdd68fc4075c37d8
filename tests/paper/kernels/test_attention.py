"""Attention by matrix products against PyTorch's fused kernel."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from glassformer.paper.kernels import attention
from glassformer.paper.kernels.attention import attention_by_products, fastest_attention


def draw(seed: int, *size: int) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).float()


def close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(found.detach(), expected.detach(), atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("masked", ["open", "causal", "padded", "one row blind"])
@pytest.mark.parametrize("length", [1, 4, 5, 8, 11, 17])
def test_attention_by_products_equals_the_fused_kernel_and_so_do_its_gradients(
    masked: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "CAUSAL_BLOCK", 4)
    q, k, v = (draw(i, 2, 3, length, width).requires_grad_() for i, width in enumerate((4, 4, 6)))
    visible = torch.ones(2, 1, 1, length, dtype=torch.bool)
    if masked == "padded":
        visible[0, :, :, (length + 1) // 2 :] = False
    if masked == "one row blind":
        visible[1] = False
    mask = visible if masked in ("padded", "one row blind") else None
    by_products = attention_by_products(q, k, v, mask, masked == "causal", dropout=0.0)
    fused = F.scaled_dot_product_attention(q, k, v, mask, is_causal=masked == "causal")
    close(by_products, fused, 1e-6)
    towards = draw(3, *fused.shape)
    found, expected = (torch.autograd.grad(output, (q, k, v), towards) for output in (by_products, fused))
    for gradient, right in zip(found, expected, strict=True):
        close(gradient, right, 1e-5)


def test_short_attention_keeps_float32_in_a_step_in_bfloat16() -> None:
    query, key, value = (torch.randn(2, 2, 5, 8, generator=torch.Generator().manual_seed(i)) for i in range(3))
    half = [each.bfloat16().requires_grad_() for each in (query, key, value)]
    with torch.autocast("cpu", torch.bfloat16):
        found = fastest_attention(*half, None, False, 0.0)
    assert found.dtype == torch.float32
    in_float32 = fastest_attention(*(each.float() for each in half), None, False, 0.0)
    torch.testing.assert_close(found, in_float32, atol=1e-6, rtol=1e-6)
