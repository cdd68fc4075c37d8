"""Matrix products of several layers at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

if TYPE_CHECKING:
    from jaxtyping import Float


def side_by_side(layers: Sequence[nn.Linear], x: Float[Tensor, "*tokens K"]) -> Float[Tensor, "*tokens W"]:
    """Return the outputs of all layers for x, concatenated in the last axis, by one matrix product."""
    if len(layers) == 1:
        return layers[0](x)  # type: ignore[no-any-return]
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers]) if layers[0].bias is not None else None
    return F.linear(x, weight, bias)
