"""Attention (section 3.2.1, equation 1) of packed sentences, by the fastest kernel for a device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812  (the name that everybody knows)

from glassformer.fast.compiled_attention import CompiledAttention
from glassformer.fast.packing import TokenLayout
from glassformer.paper.copying import Copies, CopyMechanism
from glassformer.paper.model import MultiHeadAttention, Visibility, split_heads

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

SHORT_ROW = 16  # scores; PyTorch's softmax of shorter rows, less than a vector of a CPU, is ten times slower


@dataclass(frozen=True)
class Packed:
    """Who sees whom among packed sentences: those of `layout` attend to those of `memory_layout`."""

    layout: TokenLayout
    memory_layout: TokenLayout
    causal: bool = False

    @property
    def length(self) -> int:
        return self.memory_layout.length

    def attend(
        self,
        query: Float[Tensor, "P Hd_k"],
        key: Float[Tensor, "M Hd_k"],
        value: Float[Tensor, "M Hd_v"],
        n_heads: int,
        dropout: nn.Dropout,
    ) -> Float[Tensor, "P Hd_v"]:
        """Compute attention as matrix products of padded sentences."""
        q = split_heads(self.layout.pad(query), n_heads)
        k, v = (split_heads(self.memory_layout.pad(x), n_heads) for x in (key, value))
        visible = None if self.causal else self.memory_layout.visible
        if visible is not None:
            visible = visible[:, None, None]  # [B S] -> [B 1 1 S]
        return self.layout.pack(fastest_attention(q, k, v, visible, self.causal, dropout).transpose(1, 2).flatten(2))

    def rows(self, table: Float[Tensor, "length D"]) -> Float[Tensor, "P D"]:
        return table[self.layout.positions]


def fastest_attention(
    query: Float[Tensor, "B H T d_k"],
    key: Float[Tensor, "B H S d_k"],
    value: Float[Tensor, "B H S d_v"],
    visible: Bool[Tensor, "B #H #T S"] | None,
    causal: bool,
    dropout: nn.Dropout,
) -> Float[Tensor, "B H T d_v"]:
    """softmax(Q Kᵀ / sqrt(d_k)) V of keys that are `visible`, or, if `causal`, up to the position of the query.

    It is PyTorch's fused kernel, except with gradients on a CPU, where the backward pass of that kernel was measured to
    be two to eight times slower than matrix products.
    """
    if query.device.type != "cpu" or not query.requires_grad:
        rate = probability_of(dropout)
        return F.scaled_dot_product_attention(query, key, value, visible, rate, is_causal=causal)
    if causal:
        visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril()
    scores = (query / math.sqrt(query.shape[3])) @ key.transpose(2, 3)
    if visible is not None:  # adding is several times faster than filling, and e^-1e30 is 0
        scores += torch.where(visible, 0.0, -1e30)
    if (missing := SHORT_ROW - key.shape[2]) > 0:
        scores = F.pad(scores, (0, missing), value=-math.inf)
    output: Tensor = dropout(scores.softmax(dim=3)[..., : key.shape[2]]) @ value
    return output if visible is None or causal else output * visible.any(dim=3, keepdim=True)


def probability_of(dropout: nn.Dropout) -> float:
    """Return the probability with which a module drops now."""
    return dropout.p if dropout.training else 0.0


class FastMultiHeadAttention(MultiHeadAttention):
    """Its queries, keys and values are one matrix product; on a CPU attention of packed sentences is in C."""

    def forward(
        self, x: Float[Tensor, "*tokens D"], memory: Float[Tensor, "*memory_tokens D"], seen: Visibility
    ) -> Float[Tensor, "*tokens D"]:
        if not isinstance(seen, Packed):
            return super().forward(x, memory, seen)
        projections = [self.w_q, self.w_k, self.w_v]
        groups = [(projections, x)] if x is memory else [(projections[:1], x), (projections[1:], memory)]
        joined = [side_by_side(layers, y) for layers, y in groups]
        d_k, d_v = self.w_k.out_features // self.n_heads, self.w_v.out_features // self.n_heads
        layouts = seen.layout, seen.memory_layout
        compiled = CompiledAttention(*layouts, self.n_heads, d_k, d_v, seen.causal, probability_of(self.dropout))
        if compiled.serves(x):
            return self.w_o(compiled(*joined))  # type: ignore[no-any-return]
        query, key, value = (
            part
            for (layers, _), y in zip(groups, joined, strict=True)
            for part in y.split([layer.out_features for layer in layers], dim=1)  # type: ignore[no-untyped-call]
        )
        return self.w_o(seen.attend(query, key, value, self.n_heads, self.dropout))  # type: ignore[no-any-return]


def side_by_side(layers: Sequence[nn.Linear], x: Float[Tensor, "tokens K"]) -> Float[Tensor, "tokens W"]:
    """Return the outputs of all layers for x, concatenated in the last axis, by one matrix product."""
    if len(layers) == 1:
        return layers[0](x)  # type: ignore[no-any-return]
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers]) if layers[0].bias is not None else None
    return F.linear(x, weight, bias)


class FastCopyMechanism(CopyMechanism):
    """The scores of copying, of packed sentences."""

    def forward(
        self,
        hidden: Float[Tensor, "*tokens D"],
        memory: Float[Tensor, "*memory_tokens D"],
        source: Int[Tensor, "*memory_tokens"],
        seen: Packed,
    ) -> Copies:
        keys, ids = seen.memory_layout.pad(self.w_k(memory)), seen.memory_layout.pad(self.target_ids[source][:, None])
        ids = ids.transpose(1, 2)  # [B S 1] -> [B 1 S]
        if (visible := seen.memory_layout.visible) is not None:
            ids = ids.masked_fill(~visible[:, None], -1)
        scores = (seen.layout.pad(hidden) @ keys.transpose(1, 2)).float() / math.sqrt(hidden.shape[1])
        return seen.layout.pack(scores), seen.layout.pack(ids.expand_as(scores))
