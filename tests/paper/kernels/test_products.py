"""Prepared products against plain ones, in both precisions and with and without oneDNN."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from glassformer.paper.kernels.products import PreparedLinear, affine, has_prepared_products

with_and_without_onednn = pytest.mark.parametrize(
    "prepared",
    [False, pytest.param(True, marks=pytest.mark.skipif(not has_prepared_products(), reason="no such products"))],
)


def drawn(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def layer_of(n_inputs: int, n_outputs: int, *, bias: bool, seed: int = 1) -> nn.Linear:
    layer = nn.Linear(n_inputs, n_outputs, bias=bias)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed + i))
    return layer


@with_and_without_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 17])
def test_layers_side_by_side_are_each_layer_with_its_own_scale(
    n_rows: int, bias: bool, prepared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("glassformer.paper.kernels.products.has_prepared_products", lambda: prepared)
    one, other, x = layer_of(6, 4, bias=bias), layer_of(6, 5, bias=bias, seed=3), drawn(n_rows, 6)
    with torch.inference_mode():
        found = PreparedLinear(torch.float32, affine(one, 0.5), affine(other))(x)
        torch.testing.assert_close(found, torch.cat((0.5 * one(x), other(x)), dim=1), atol=1e-5, rtol=1e-5)


@with_and_without_onednn
@pytest.mark.parametrize("n_rows", [1, 17])
def test_a_product_may_end_in_relu(n_rows: int, prepared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassformer.paper.kernels.products.has_prepared_products", lambda: prepared)
    layer, x = layer_of(6, 4, bias=True), drawn(n_rows, 6)
    with torch.inference_mode():
        found = PreparedLinear(torch.float32, affine(layer)).product(x, "relu")
        torch.testing.assert_close(found, functional.relu(layer(x)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("n_rows", [1, 17])
def test_in_bfloat16_only_the_product_is_rounded(n_rows: int) -> None:
    layer, x = layer_of(64, 4, bias=True), drawn(n_rows, 64)
    with torch.inference_mode():
        found = PreparedLinear(torch.bfloat16, affine(layer))(x)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, layer(x), atol=0.3, rtol=0.02)
