"""Matrix products: of several layers at once, and, for search, with prepared weights."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

if TYPE_CHECKING:
    from jaxtyping import Float

REORDERED_ROWS = 3  # from this number of rows on, oneDNN's products with reordered weights are faster


def side_by_side(layers: Sequence[nn.Linear], x: Float[Tensor, "*tokens K"]) -> Float[Tensor, "*tokens W"]:
    """Return the outputs of all layers for x, concatenated in the last axis, by one matrix product."""
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers]) if layers[0].bias is not None else None
    return F.linear(x, weight, bias)


@cache
def has_prepared_products() -> bool:
    """Whether this PyTorch has oneDNN's products with prepared weights, which are for x86-64."""
    has_library = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return has_library and platform.machine() in ("x86_64", "AMD64") and hasattr(torch.ops.mkldnn, "_linear_pointwise")


Affine = tuple[Tensor, Tensor | None]
"""Weight [out in] and bias [out] of a layer."""


def affine(layer: nn.Linear, scale: float = 1.0) -> Affine:
    return layer.weight.detach() * scale, None if layer.bias is None else layer.bias.detach() * scale


class PreparedLinear:
    """x Wᵀ + b, with the weight prepared for the CPU. The outputs of several layers are concatenated."""

    def __init__(self, dtype: torch.dtype, *layers: Affine) -> None:
        biases = [bias for _, bias in layers if bias is not None]
        self.weight = torch.cat([weight for weight, _ in layers]).to(dtype)
        self.bias = torch.cat(biases).to(dtype) if biases else None
        self.reordered = _reorder(self.weight)

    def __call__(self, x: Float[Tensor, "rows K"]) -> Float[Tensor, "rows W"]:
        return self.product(x).float()

    def product(self, x: Tensor, activation: str = "none") -> Tensor:
        """The same in the precision of the weights."""
        x = x.to(self.weight.dtype)
        if self.reordered is not None and len(x) >= REORDERED_ROWS:
            return cast("Tensor", torch.ops.mkldnn._linear_pointwise(x, self.reordered, self.bias, activation, [], ""))
        y = F.linear(x, self.weight, self.bias)
        return F.relu_(y) if activation == "relu" else y


def _reorder(weight: Tensor) -> Tensor | None:
    """The weight in the order of oneDNN; None where oneDNN is not available, or not in this precision."""
    if weight.device.type != "cpu" or not has_prepared_products():
        return None
    if weight.dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return None
    return cast("Tensor", torch.ops.mkldnn._reorder_linear_weight(weight))
