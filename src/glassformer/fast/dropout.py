"""Dropout (section 5.4), on a CPU in C: PyTorch takes most of its time to draw random bits, and keeps a mask."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

from glassformer.fast.library import library

if TYPE_CHECKING:
    from jaxtyping import Float

_generator: ContextVar[torch.Generator | None] = ContextVar("_generator", default=None)


@contextlib.contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Draw dropout on a CPU from a generator of this thread alone, so that other threads do not change the numbers."""
    token = _generator.set(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _generator.reset(token)


def drop(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """Dropout (section 5.4): zero each number with this probability, and scale the others so that the mean stays.

    On a CPU the probability is rounded to a multiple of 1 / 65,536; in bfloat16 to the nearest one whose scale is a
    bfloat16 number (0.1 to 0.0986), which keeps the mean exact.
    """
    if probability == 0 or x.device.type != "cpu":
        return F.dropout(x, probability)
    rate = rounded(probability, x.dtype)
    if x.dtype in (torch.float32, torch.bfloat16) and library() is not None:
        return _Drop.apply(x, rate, draw_seed())  # type: ignore[no-any-return, no-untyped-call]
    return x * _survivors(x, *rate)


class FastDropout(nn.Dropout):
    """`drop` in training; the identity in evaluation."""

    def forward(self, input: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:  # noqa: A002  (torch's name)
        return drop(input, self.p) if self.training else input


@cache
def rounded(probability: float, dtype: torch.dtype) -> tuple[int, float]:
    """How many of 65,536 numbers are dropped, and the scale of the others."""
    scale = torch.tensor(1 / (1 - probability), dtype=dtype).item()
    dropped = min(65_535, round((1 - 1 / scale) * 65_536))
    return dropped, scale if dtype == torch.bfloat16 else 65_536 / (65_536 - dropped)


def draw_seed() -> int:
    """Draw a random seed from torch's global generator; within `drawing_from`, from that one."""
    return int(torch.randint(2**62, (), generator=_generator.get()))


def _survivors(x: Tensor, dropped: int, scale: float) -> Tensor:
    """Draw the factors 0 and `scale`, without the compiled function: one draw of 64 bits is used for four numbers."""
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None, generator=_generator.get())
    return draws.view(torch.int16)[: x.numel()].ge_(dropped - 32_768).view(x.shape).to(x.dtype).mul_(scale)


def _dropped(x: Tensor, rate: tuple[int, float], seed: int) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    function = library().glassformer_drop if x.dtype == torch.float32 else library().glassformer_drop_bfloat16
    function(x.data_ptr(), y.data_ptr(), x.numel(), *rate, seed)
    return y


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: tuple[int, float], seed: int) -> Tensor:
        ctx.chance = rate, seed
        return _dropped(x, rate, seed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None, None]:
        return _dropped(outward[0], *ctx.chance), None, None
