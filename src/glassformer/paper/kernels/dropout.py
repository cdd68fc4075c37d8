"""Dropout (section 5.4) with few random bits, because drawing them takes most of the time on a CPU."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

if TYPE_CHECKING:
    from jaxtyping import Float

DRAWN_TOGETHER = 2**17

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

    On a CPU one draw of 64 bits is used for four numbers. The probability is rounded to a multiple of 1 / 65,536; in
    bfloat16 to the nearest one whose scale is a bfloat16 number (0.1 to 0.0986), which keeps the mean exact.
    """
    if probability == 0 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, probability)
    return x * _survivors(x, *rounded(probability, x.dtype))


class Dropout(nn.Module):
    """`drop` in training; the identity in evaluation."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return drop(x, self.probability) if self.training else x


@cache
def rounded(probability: float, dtype: torch.dtype) -> tuple[int, float]:
    """How many of 65,536 numbers are dropped, and the scale of the others."""
    scale = torch.tensor(1 / (1 - probability), dtype=dtype).item()
    dropped = min(65_535, round((1 - 1 / scale) * 65_536))
    return dropped, scale if dtype == torch.bfloat16 else 65_536 / (65_536 - dropped)


def _survivors(x: Tensor, dropped: int, scale: float) -> Tensor:
    """Draw the factors for dropout of x on a CPU: 0 or the scale."""
    kept = draw(-(-x.numel() // 4)).view(torch.int16)[: x.numel()].ge_(dropped - 32_768).view(x.shape)  # 0 or 1
    if x.dtype == torch.bfloat16:  # as wide as a draw: its bits times 0 or 1
        return kept.mul_(_bits(scale)).view(torch.bfloat16)
    return kept.to(x.dtype).mul_(scale)


@cache
def _bits(number: float) -> int:
    """Return the bits of a number in bfloat16."""
    return int(torch.tensor(number, dtype=torch.bfloat16).view(torch.int16))


def draw(n: int) -> Tensor:
    """Return n times 64 random bits of torch's global generator; large draws are made in parts, on all cores.

    Within `drawing_from` they come from that generator, on the core of the thread.
    """
    draws, own = torch.empty(n, dtype=torch.int64), _generator.get()
    if n <= DRAWN_TOGETHER or own is not None:
        return draws.random_(-(2**63), None, generator=own)
    parts = draws.split(DRAWN_TOGETHER)  # type: ignore[no-untyped-call]
    seeds = torch.randint(2**62, (len(parts),)).tolist()
    list(_cores().map(_fill, parts, seeds))
    return draws


def _fill(part: Tensor, seed: int) -> None:
    part.random_(-(2**63), None, generator=torch.Generator().manual_seed(seed))


@cache
def _cores() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(torch.get_num_threads())


if hasattr(os, "register_at_fork"):  # a forked process has none of the pool's threads
    os.register_at_fork(after_in_child=_cores.cache_clear)


def relu_and_drop(x: Float[Tensor, "*shape"], probability: float) -> Float[Tensor, "*shape"]:
    """Compute Dropout(max(0, x)), in place on a CPU: the backward pass needs the result alone."""
    if probability == 0 or x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(F.relu(x), probability)
    return _ReluAndDrop.apply(x, probability)  # type: ignore[no-any-return, no-untyped-call]


class _ReluAndDrop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, probability: float) -> Tensor:
        dropped, ctx.scale = rounded(probability, x.dtype)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x.relu_().mul_(_survivors(x, dropped, ctx.scale)))
        return x

    @staticmethod
    def backward(ctx: Any, *outward: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch.ops.aten.threshold_backward(outward[0], result, 0).mul_(ctx.scale), None
