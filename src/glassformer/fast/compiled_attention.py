"""Attention (section 3.2.1) of packed sentences in training on a CPU, compiled: `training.c`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from glassformer.fast.dropout import draw_seed, rounded
from glassformer.fast.library import library
from glassformer.fast.packing import TokenLayout
from glassformer.runtime.compiled import Number, Pointer

if TYPE_CHECKING:
    from jaxtyping import Float

LANES = 8  # of vectors.h
MAX_BFLOAT16 = 64  # keys; where more are computed in bfloat16, matrix products of that precision are used


class _Task(ctypes.Structure):
    _fields_ = (
        *((name, Pointer) for name in ("query", "key", "value", "weights", "room", "queries", "keys")),
        *((name, Number) for name in ("query_width", "key_width", "n_sentences", "n_heads", "d_k", "d_v")),
        *((name, Number) for name in ("causal", "dropped", "seed")),
    )


@dataclass(frozen=True)
class CompiledAttention:
    """Attention of the sentences of one layout to those of another, which may be the same one."""

    layout: TokenLayout
    memory_layout: TokenLayout
    n_heads: int
    d_k: int
    d_v: int
    causal: bool = False
    dropout: float = 0.0

    def serves(self, x: Tensor) -> bool:
        """Whether this computes the attention of x: elsewhere it is computed with padding."""
        return (
            x.device.type == "cpu"
            and x.dtype == torch.float32
            and torch.get_num_threads() == 1  # as each thread of an update has
            and self.d_k % LANES == self.d_v % LANES == 0
            and (not torch.is_autocast_enabled("cpu") or self.memory_layout.length <= MAX_BFLOAT16)
            and library() is not None
        )

    def __call__(self, own: Float[Tensor, "P W"], memory: Float[Tensor, "M X"] | None = None) -> Float[Tensor, "P Y"]:
        """All heads: `own` are the queries, `memory` keys and values; without it `own` are all three."""
        dropped, _ = rounded(self.dropout, torch.float32)
        seed = draw_seed() if dropped else 0
        own, memory = own.float().contiguous(), None if memory is None else memory.float().contiguous()
        assert self.layout.n_sentences == self.memory_layout.n_sentences
        return _Attention.apply(own, memory, self, (dropped, seed))  # type: ignore[no-any-return, no-untyped-call]

    def addresses(self, own: Tensor, memory: Tensor | None) -> tuple[int, int, int]:
        """Where queries, keys and values are in their rows."""
        size = own.element_size() * self.n_heads * self.d_k
        keys = own.data_ptr() + size if memory is None else memory.data_ptr()
        return own.data_ptr(), keys, keys + size

    def compute(self, function: str, drop: tuple[int, int], saved: Sequence[Any], *results: int) -> None:
        """Call a function of training.c, which writes to the addresses of `results`."""
        (own, memory, weights), queries, keys = saved, self.layout, self.memory_layout
        n_keys = -(-keys.length // LANES) * LANES
        room = own.new_empty(n_keys * (max(self.d_k, self.d_v) + 2 * queries.length))
        addresses = (each.data_ptr() for each in (weights, room, queries.starts, keys.starts))
        widths = own.shape[1], (own if memory is None else memory).shape[1]
        shape = queries.n_sentences, self.n_heads, self.d_k, self.d_v, self.causal
        task = _Task(*self.addresses(own, memory), *addresses, *widths, *shape, *drop)
        getattr(library(), f"glassformer_{function}")(ctypes.addressof(task), *results)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, memory: Tensor | None, call: CompiledAttention, drop: tuple[int, int]) -> Tensor:
        keys = -(-call.memory_layout.starts.diff() // LANES) * LANES
        weights = own.new_empty(call.n_heads * int((call.layout.starts.diff() * keys).sum()))
        ctx.call, ctx.drop = call, drop
        ctx.save_for_backward(own, memory, weights)
        output = _empty_rows(own, call.layout, call.n_heads * call.d_v)
        call.compute("attention", drop, (own, memory, weights), output.data_ptr())
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outward: Tensor) -> tuple[Tensor | None, ...]:
        call, saved, outward = ctx.call, ctx.saved_tensors, outward.contiguous()
        own, memory, _ = saved
        for_own = _empty_rows(own, call.layout, own.shape[1])
        for_memory = None if memory is None else _empty_rows(memory, call.memory_layout, memory.shape[1])
        addresses = outward.data_ptr(), *call.addresses(for_own, for_memory)
        call.compute("attention_gradient", ctx.drop, saved, *addresses)
        return for_own, for_memory, None, None


def _empty_rows(like: Tensor, layout: TokenLayout, width: int) -> Tensor:
    """Return rows to be written; those after the tokens of a layout are zero."""
    rows = like.new_empty((len(like), width))
    rows[layout.n_tokens :] = 0
    return rows
