"""Matrix products: of several layers at once, and, for search, with weights laid out beforehand."""

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

PACKED_ROWS = 3  # from this number of rows on, oneDNN's products are faster


def side_by_side(layers: Sequence[nn.Linear], x: Float[Tensor, "*tokens K"]) -> Float[Tensor, "*tokens W"]:
    """The outputs of all layers for x, one after the other in the last axis; they are one matrix product."""
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers]) if layers[0].bias is not None else None
    return F.linear(x, weight, bias)


@cache
def has_prepared_products() -> bool:
    """Whether this PyTorch has oneDNN's products with weights laid out beforehand, as on x86-64 it should."""
    has_library = bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]
    return has_library and platform.machine() in ("x86_64", "AMD64") and hasattr(torch.ops.mkldnn, "_linear_pointwise")


Affine = tuple[Tensor, Tensor | None]
"""Weight [out in] and bias [out] of a layer."""


def affine(layer: nn.Linear, scale: float = 1.0) -> Affine:
    return layer.weight.detach() * scale, None if layer.bias is None else layer.bias.detach() * scale


class PreparedLinear:
    """x W^T + b, with the weight laid out for the CPU. Several layers become one, side by side."""

    def __init__(self, dtype: torch.dtype, *layers: Affine) -> None:
        biases = [bias for _, bias in layers if bias is not None]
        self.weight = torch.cat([weight for weight, _ in layers]).to(dtype)
        self.bias = torch.cat(biases).to(dtype) if biases else None
        self.packed: Tensor | None = None
        if self.weight.device.type == "cpu" and has_prepared_products():
            self.packed = torch.ops.mkldnn._reorder_linear_weight(self.weight)

    def __call__(self, x: Float[Tensor, "rows K"]) -> Float[Tensor, "rows W"]:
        return self.product(x).float()

    def product(self, x: Tensor, activation: str = "none") -> Tensor:
        """The same in the precision of the weights."""
        x = x.to(self.weight.dtype)
        if self.packed is not None and len(x) >= PACKED_ROWS:
            return cast("Tensor", torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, activation, [], ""))
        y = F.linear(x, self.weight, self.bias)
        return F.relu_(y) if activation == "relu" else y
