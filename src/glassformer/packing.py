"""Tokens of a batch packed one after the other, so that no work is done on padding.

Axes: B sentences · L their padded length · P tokens of all of them · W any width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class Layout:
    """Where the P tokens of B sentences stand, packed sentence after sentence; `length` is the longest one's.

    `packed` [P] are the places of the tokens among B·length padded ones, `padded` [B·length] is the token at each
    place, and `padding` the places without one; all three are None where no sentence is shorter than another.
    `positions` [P] are the tokens' places in their own sentences.
    """

    n_sentences: int
    length: int
    positions: Tensor
    packed: Tensor | None = None
    padded: Tensor | None = None
    padding: Tensor | None = None

    @classmethod
    def of(cls, lengths: Int[Tensor, " B"], length: int | None = None, device: torch.device | None = None) -> Layout:
        """The layout of sentences of `lengths` (on the CPU), padded to the longest or to `length`."""
        length = length or int(lengths.max())
        real = torch.arange(length) < lengths[:, None]
        places = torch.arange(length).expand(len(lengths), -1)[real].to(device)
        if len(places) == real.numel():
            return cls(len(lengths), length, places)
        padded = (real.flatten().cumsum(0) - 1).clamp_(min=0).to(device)
        where = real.flatten().nonzero()[:, 0].to(device), padded, (~real).flatten().nonzero()[:, 0].to(device)
        return cls(len(lengths), length, places, *where)

    @property
    def visible(self) -> Bool[Tensor, "B S"] | None:
        """Which padded places are tokens; None where all are."""
        if self.packed is None:
            return None
        visible = torch.zeros(self.n_sentences * self.length, dtype=torch.bool, device=self.packed.device)
        return visible.index_fill_(0, self.packed, 1).view(self.n_sentences, self.length)

    def pad(self, x: Float[Tensor, "P W"]) -> Float[Tensor, "B L W"]:
        """Packed rows at their padded places, with zeros between."""
        if self.packed is not None:
            x = _Pad.apply(x, self.packed, self.padded, self.padding)  # type: ignore[no-untyped-call]
        return x.view(self.n_sentences, self.length, -1)

    def pack(self, x: Float[Tensor, "B L W"]) -> Float[Tensor, "P W"]:
        """Padded rows without their padding."""
        x = x.flatten(0, 1)
        if self.packed is not None:
            x = _Pack.apply(x, self.packed, self.padded, self.padding)  # type: ignore[no-untyped-call]
        return x


def _padded(x: Tensor, padded: Tensor, padding: Tensor) -> Tensor:
    return x.index_select(0, padded).index_fill_(0, padding, 0)


class _Pad(torch.autograd.Function):
    """Both ways are a look-up, which autograd does not know: it would add up rows one by one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, padded: Tensor, padding: Tensor) -> Tensor:
        ctx.packed = packed
        return _padded(x, padded, padding)

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None, None]:
        return outward[0].index_select(0, ctx.packed), None, None, None


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, packed: Tensor, padded: Tensor, padding: Tensor) -> Tensor:
        ctx.where = padded, padding
        return x.index_select(0, packed)

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None, None]:
        return _padded(outward[0], *ctx.where), None, None, None
