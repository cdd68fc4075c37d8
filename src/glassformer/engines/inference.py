"""The Transformer for search: the numbers of model.py, laid out for speed.

    weights      copied once: projections of the same input side by side, all layers' keys and values of the memory too
    cache        a target token's keys and values are written where they stay; memory's are computed once a sentence
    padding      the encoder works on tokens without it; only attention looks at padded sentences
    products     on a CPU through oneDNN, their weights laid out beforehand: in float32 twice as fast as torch's own on
                 many processors; in bfloat16 the products with weights alone are, all else stays float32

Axes: N sentences · K hypotheses of a sentence · R = N·K rows · S source positions · t target positions so far ·
H heads · V vocabulary · D d_model.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from glassformer.engines.processor import has_prepared_products
from glassformer.model import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention, Transformer
from glassformer.packing import Layout

if TYPE_CHECKING:
    from jaxtyping import Float, Int

CACHE_STEPS = 16  # the cache grows by so many positions at a time
PACKED_ROWS = 3  # from so many rows on, oneDNN's products are the faster ones


class _Linear:
    """x W^T + b, with the weight laid out for the processor. Several layers become one, side by side."""

    def __init__(self, dtype: torch.dtype, *layers: nn.Linear, scale: float = 1.0) -> None:
        """`scale` multiplies the first layer's weight and bias."""
        factors = [scale, *[1.0] * (len(layers) - 1)]
        self.weight = torch.cat([x.weight.detach() * by for x, by in zip(layers, factors, strict=True)]).to(dtype)
        biases = [x.bias.detach() * by for x, by in zip(layers, factors, strict=True) if x.bias is not None]
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


class _FeedForward:
    def __init__(self, layer: FeedForward, dtype: torch.dtype) -> None:
        self.w_1, self.w_2 = _Linear(dtype, layer.w_1), _Linear(dtype, layer.w_2)
        self.activation = layer.activation

    def __call__(self, x: Tensor) -> Tensor:
        if self.activation is F.relu:
            return self.w_2(self.w_1.product(x, "relu"))
        return self.w_2(self.activation(self.w_1(x)))


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """`model.attention` of queries that are scaled already; `mask` is added to the scores."""
    return F.scaled_dot_product_attention(query, key, value, mask, scale=1.0)


class _Norm:
    def __init__(self, norm: nn.Module) -> None:
        assert isinstance(norm, nn.LayerNorm)
        self.weight, self.bias = norm.weight.detach().clone(), norm.bias.detach().clone()
        self.shape, self.eps = tuple(norm.normalized_shape), norm.eps

    def __call__(self, x: Tensor) -> Tensor:
        return torch.layer_norm(x, self.shape, self.weight, self.bias, self.eps)


class _Heads:
    """Self-attention: one product for queries, keys and values."""

    def __init__(self, layer: MultiHeadAttention, dtype: torch.dtype) -> None:
        self.n_heads = layer.n_heads
        self.d_k, self.d_v = (each.out_features // layer.n_heads for each in (layer.w_k, layer.w_v))
        self.project = _Linear(dtype, layer.w_q, layer.w_k, layer.w_v, scale=self.d_k**-0.5)
        self.w_o = _Linear(dtype, layer.w_o)

    def split(self, x: Float[Tensor, "*rows W"]) -> list[Tensor]:
        """Queries, keys, values: each [*rows H d]."""
        widths = [self.n_heads * self.d_k, self.n_heads * self.d_k, self.n_heads * self.d_v]
        return [part.unflatten(-1, (self.n_heads, -1)) for part in x.split(widths, dim=-1)]  # type: ignore[no-untyped-call]


class _Layer:
    """One layer of either stack; the decoder's has cross-attention, whose keys and values are made elsewhere."""

    def __init__(self, layer: EncoderLayer | DecoderLayer, dtype: torch.dtype) -> None:
        self.norm_first = layer.norm_first
        self.itself = _Heads(layer.self_attention, dtype)
        self.itself_norm = _Norm(layer.self_attention_norm)
        self.feed_forward = _FeedForward(layer.feed_forward, dtype)
        self.feed_forward_norm = _Norm(layer.feed_forward_norm)
        if isinstance(layer, DecoderLayer):
            self.query = _Linear(dtype, layer.cross_attention.w_q, scale=self.itself.d_k**-0.5)
            self.cross_out = _Linear(dtype, layer.cross_attention.w_o)
            self.cross_norm = _Norm(layer.cross_attention_norm)

    def add_and_norm(self, norm: _Norm, x: Tensor, sublayer: Any, *inputs: Any) -> Tensor:
        if self.norm_first:
            return sublayer(norm(x), *inputs).add_(x)  # type: ignore[no-any-return]
        return norm(sublayer(x, *inputs).add_(x))

    def encode(self, x: Tensor, layout: Layout, mask: Tensor | None) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            query, key, value = (part.transpose(1, 2) for part in self.itself.split(layout.pad(self.itself.project(y))))
            return self.itself.w_o(layout.pack(_attention(query, key, value, mask).transpose(1, 2).flatten(2)))

        x = self.add_and_norm(self.itself_norm, x, attend)
        return self.add_and_norm(self.feed_forward_norm, x, self.feed_forward)

    def step(self, x: Tensor, i: int, cache: Cache) -> Tensor:
        """x [R D], the newest token's stream, through decoder layer i."""

        def attend(y: Tensor) -> Tensor:
            query, key, value = self.itself.split(self.itself.project(y))
            keys, values = cache.write(i, key, value)
            return self.itself.w_o(_attention(query.unsqueeze(2), keys, values).flatten(1))

        def attend_memory(y: Tensor) -> Tensor:
            keys, values = cache.memory[i]
            query = self.query(y).view(len(keys), -1, keys.shape[1], keys.shape[3])  # [N K H d_k]
            heads = _attention(query.transpose(1, 2), keys, values, cache.memory_mask)
            return self.cross_out(heads.transpose(1, 2).reshape(len(y), -1))

        x = self.add_and_norm(self.itself_norm, x, attend)
        x = self.add_and_norm(self.cross_norm, x, attend_memory)
        return self.add_and_norm(self.feed_forward_norm, x, self.feed_forward)


@dataclass
class Cache:
    """What the decoder remembers of K hypotheses of each of N sentences. It is changed in place.

    `memory`: for each layer, keys and values of the memory, [N H S d] each; `memory_mask` is added to their scores,
    None where all are visible. `past`: keys and values of the target so far, of all layers,
    [R layers H T d_k + d_v], T >= t. `length` is t.
    """

    memory: list[tuple[Tensor, Tensor]]
    memory_mask: Float[Tensor, "N 1 1 S"] | None
    past: Tensor
    d_k: int
    length: int = 0

    def write(self, i: int, key: Float[Tensor, "R H d_k"], value: Float[Tensor, "R H d_v"]) -> tuple[Tensor, Tensor]:
        """Keep layer i's newest key and value; all its keys and values so far, [R H t d] each."""
        past = self.past[:, i]
        past[:, :, self.length, : self.d_k] = key
        past[:, :, self.length, self.d_k :] = value
        so_far = past[:, :, : self.length + 1]
        return so_far[..., : self.d_k], so_far[..., self.d_k :]

    def make_room(self) -> None:
        if self.length == self.past.shape[3]:
            self.past = F.pad(self.past, (0, 0, 0, CACHE_STEPS))

    def select(self, rows: Int[Tensor, "N2 K2"]) -> Cache:
        """Keep the hypotheses `rows`, numbered 0 … R-1; each line of `rows` stays within one sentence."""
        n_sentences = len(self.memory[0][0])
        flat = rows.flatten()
        if len(rows) < n_sentences:
            sentences = rows[:, 0] // (len(self.past) // n_sentences)
            self.memory = [
                (keys.index_select(0, sentences), values.index_select(0, sentences)) for keys, values in self.memory
            ]
            if self.memory_mask is not None:
                self.memory_mask = self.memory_mask.index_select(0, sentences)
        if len(flat) != len(self.past):
            self.past = self.past.index_select(0, flat)
        else:  # as a rule only some have changed places
            changed = (flat != torch.arange(len(flat), device=flat.device)).nonzero()[:, 0]
            if len(changed):
                self.past.index_copy_(0, changed, self.past.index_select(0, flat[changed]))
        return self


class Inference:
    """A trained Transformer, prepared for search in one precision. Later changes of the model do not reach it."""

    def __init__(self, model: Transformer, dtype: torch.dtype = torch.float32) -> None:
        self.settings = model.settings
        both = copy.deepcopy((model.source_positions, model.target_positions))
        self.positions = [positions.requires_grad_(False) for positions in both]
        scale = math.sqrt(self.settings.d_model) if self.settings.scale_embeddings else 1.0
        self.source_embedding = model.source_embedding.weight.detach() * scale
        self.target_embedding = model.target_embedding.weight.detach() * scale
        decoder = cast("list[DecoderLayer]", list(model.decoder))
        self.encoder = [_Layer(cast("EncoderLayer", layer), dtype) for layer in model.encoder]
        self.decoder = [_Layer(layer, dtype) for layer in decoder]
        final_norm = self.settings.norm == "pre"
        self.encoder_norm = _Norm(model.encoder_norm) if final_norm else None
        self.decoder_norm = _Norm(model.decoder_norm) if final_norm else None
        of_memory = [each for layer in decoder for each in (layer.cross_attention.w_k, layer.cross_attention.w_v)]
        self.keys_values = _Linear(dtype, *of_memory)
        self.output = _Linear(dtype, model.output_projection)

    def start(self, sources: Sequence[Sequence[int]], length: int) -> Cache:
        """Encode framed sources, once, padded to `length` for attention; the cache before the first step."""
        device = self.source_embedding.device
        layout = Layout.of(torch.tensor([len(source) for source in sources]), length, device)
        ids = torch.tensor([token for source in sources for token in source], device=device)
        visible, mask = layout.visible, None
        if visible is not None:
            mask = torch.zeros(visible.shape, device=device).masked_fill_(~visible, -torch.inf)[:, None, None, :]
        x = self.source_embedding[layout.fill(ids)] + self.positions[0](length)[layout.positions]
        for layer in self.encoder:
            x = layer.encode(x, layout, mask)
        memory = x if self.encoder_norm is None else self.encoder_norm(x)

        heads = self.decoder[0].itself
        widths = [heads.n_heads * heads.d_k, heads.n_heads * heads.d_v] * len(self.decoder)
        parts = layout.pad(self.keys_values(memory)).split(widths, dim=2)  # type: ignore[no-untyped-call]
        split = [part.unflatten(2, (heads.n_heads, -1)).transpose(1, 2).contiguous() for part in parts]
        shape = len(sources), len(self.decoder), heads.n_heads, CACHE_STEPS, heads.d_k + heads.d_v
        past = torch.empty(shape, device=device)
        return Cache(list(zip(split[::2], split[1::2], strict=True)), mask, past, heads.d_k)

    def step(self, last: Int[Tensor, "N K"], cache: Cache) -> Float[Tensor, "N K V"]:
        """Feed the last token of every hypothesis; the logits of the next one. The cache moves on."""
        cache.make_room()
        position = self.positions[1](cache.length + 1)[-1]
        x = self.target_embedding[last.flatten()] + position
        for i, layer in enumerate(self.decoder):
            x = layer.step(x, i, cache)
        cache.length += 1
        x = x if self.decoder_norm is None else self.decoder_norm(x)
        return self.output(x).view(*last.shape, -1)
