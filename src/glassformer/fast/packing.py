"""Tokens of a batch packed one after the other, so that almost no padding is computed.

Axes: B sentences · L their padded length · P tokens of all of them, rounded up (`round_up`) · W any width.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


@dataclass(frozen=True)
class TokenLayout:
    """The positions of the tokens of B sentences, packed sentence after sentence; `length` is that of the longest.

    `n_tokens` of the P rows are tokens. The rows after them fill P up to a round number and have no effect: for each
    new P a CPU prepares its matrix products again, which took a third of a small step.

    `pack_from` [P] is the padded position, of B·length, that each packed row is taken from; `pad_from` [B·length] the
    row that each padded position is taken from, and `padding` the positions without a token; None without padding.
    `positions` [P] are the tokens' positions in their sentences. `starts` [B + 1], on the CPU: of these, and the end.
    """

    n_sentences: int
    length: int
    n_tokens: int
    starts: Tensor
    positions: Tensor
    pack_from: Tensor | None = None
    pad_from: Tensor | None = None
    padding: Tensor | None = None

    @classmethod
    def of(
        cls, lengths: Int[Tensor, " B"], length: int | None = None, device: torch.device | None = None
    ) -> TokenLayout:
        """Create the layout of sentences of `lengths` (on the CPU), padded to the longest or to `length`."""
        length = length or int(lengths.max())
        real = torch.arange(length) < lengths[:, None]
        pack_from = real.flatten().nonzero()[:, 0]
        n_tokens, starts = len(pack_from), F.pad(real.sum(dim=1).cumsum(0), (1, 0))
        if n_tokens == real.numel() == round_up(n_tokens):
            return cls(len(lengths), length, n_tokens, starts, (pack_from % length).to(device))
        first = int(pack_from[0]) if n_tokens else 0
        pack_from = F.pad(pack_from, (0, round_up(n_tokens) - n_tokens), value=first)
        pad_from = (real.flatten().cumsum(0) - 1).clamp_(min=0)
        padding = (~real).flatten().nonzero()[:, 0]
        indices = pack_from % length, pack_from, pad_from, padding
        return cls(len(lengths), length, n_tokens, starts, *(index.to(device) for index in indices))

    @property
    def visible(self) -> Bool[Tensor, "B S"] | None:
        """Which padded positions are tokens; None where all are."""
        if self.pack_from is None or self.n_tokens == self.n_sentences * self.length:
            return None
        visible = torch.zeros(self.n_sentences * self.length, dtype=torch.bool, device=self.pack_from.device)
        return visible.index_fill_(0, self.pack_from, 1).view(self.n_sentences, self.length)

    def fill(self, ids: Int[Tensor, " n_tokens"]) -> Int[Tensor, " P"]:
        """Return the ids of the tokens, with zeros up to P."""
        return F.pad(ids, (0, len(self.positions) - self.n_tokens))

    def pad(self, x: Float[Tensor, "P W"]) -> Float[Tensor, "B L W"]:
        """Return packed rows at their padded positions, with zeros as padding."""
        if self.pack_from is not None:
            x = _Pad.apply(x, self.pack_from, self.pad_from, self.padding, self.n_tokens)  # type: ignore[no-untyped-call]
        return x.view(self.n_sentences, self.length, -1)

    def pack(self, x: Float[Tensor, "B L W"]) -> Float[Tensor, "P W"]:
        """Return padded rows without their padding."""
        x = x.flatten(0, 1)
        if self.pack_from is not None:
            x = _Pack.apply(x, self.pack_from, self.pad_from, self.padding)  # type: ignore[no-untyped-call]
        return x


def round_up(n: int) -> int:
    """Return the smallest number >= n that has only zeros after its first five binary digits."""
    step = 1 << max(0, n.bit_length() - 5)
    return -(-n // step) * step


def _padded(x: Tensor, pad_from: Tensor, padding: Tensor) -> Tensor:
    return x.index_select(0, pad_from).index_fill_(0, padding, 0)


class _Pad(torch.autograd.Function):
    """Forward and backward are look-ups; autograd would add up rows one by one instead."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, pack_from: Tensor, pad_from: Tensor, padding: Tensor, n_tokens: int) -> Tensor:
        ctx.pack_from, ctx.n_tokens = pack_from, n_tokens
        return _padded(x, pad_from, padding)

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None, None, None]:
        gradient = outward[0].index_select(0, ctx.pack_from)
        gradient[ctx.n_tokens :] = 0
        return gradient, None, None, None, None


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pack_from: Tensor, pad_from: Tensor, padding: Tensor) -> Tensor:
        ctx.indices = pad_from, padding
        return x.index_select(0, pack_from)

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None, None]:
        return _padded(outward[0], *ctx.indices), None, None, None
