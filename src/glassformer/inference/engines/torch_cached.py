"""The Transformer for search: it computes the same as model.py, in less time.

    weights      copied once; the projections of self-attention are concatenated
    cache        the keys and values of a target token are written once and not moved; those of the memory are computed
                 once for each sentence
    padding      the encoder computes tokens without padding; only attention reads padded sentences
    precision    in bfloat16 only products with weights are in bfloat16, the rest is in float32

It is for a GPU. On a CPU the compiled search is faster.

Axes: N sentences · K hypotheses of a sentence · R = N·K rows · S source positions · t target positions so far ·
H heads · V vocabulary · D d_model.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from glassformer.fast.packing import TokenLayout
from glassformer.paper.copying import add_copies
from glassformer.paper.model import DecoderLayer, Transformer

if TYPE_CHECKING:
    from jaxtyping import Float, Int

CACHE_STEPS = 32  # positions by which the cache grows at a time


class _Product:
    """x Wᵀ + b in one precision; the outputs of several layers, each times its scale, are concatenated."""

    def __init__(self, dtype: torch.dtype, *layers: nn.Linear, scales: Sequence[float] = (1, 1, 1)) -> None:
        scaled = list(zip(layers, scales, strict=False))
        biases = [layer.bias.detach() * scale for layer, scale in scaled if layer.bias is not None]
        self.weight = torch.cat([layer.weight.detach() * scale for layer, scale in scaled]).to(dtype)
        self.bias = torch.cat(biases).to(dtype) if biases else None

    def __call__(self, x: Float[Tensor, "rows K"]) -> Float[Tensor, "rows W"]:
        return F.linear(x.to(self.weight.dtype), self.weight, self.bias).float()


def _attention(
    query: Float[Tensor, "N T H d_k"],
    key: Float[Tensor, "N S H d_k"],
    value: Float[Tensor, "N S H d_v"],
    mask: Float[Tensor, "N S"] | None = None,
) -> Float[Tensor, "N T C"]:
    """`model.attention` of scaled queries, with concatenated heads: C = H·d_v; `mask` is added to the scores."""
    mask = None if mask is None else mask[:, None, None]
    query, key, value = (x.transpose(1, 2) for x in (query, key, value))
    heads = F.scaled_dot_product_attention(query, key, value, mask, scale=1.0)
    return heads.transpose(1, 2).flatten(2)


def _copied(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).requires_grad_(False)


class _Layer:
    """One layer of either stack; a decoder layer has cross-attention, whose keys and values are computed first."""

    def __init__(self, layer: Any, dtype: torch.dtype) -> None:
        attention, feed = layer.self_attention, layer.feed_forward
        scale = (attention.w_k.out_features // attention.n_heads) ** -0.5
        self.norm_first, self.n_heads = layer.norm_first, attention.n_heads
        projections = (attention.w_q, attention.w_k, attention.w_v)
        self.widths = [w.out_features for w in projections]
        self.project = _Product(dtype, *projections, scales=(scale, 1, 1))
        self.w_o = _Product(dtype, attention.w_o)
        self.self_attention_norm = _copied(layer.self_attention_norm)
        self.w_1, self.w_2, self.activation = _Product(dtype, feed.w_1), _Product(dtype, feed.w_2), feed.activation
        self.feed_forward_norm = _copied(layer.feed_forward_norm)
        if isinstance(layer, DecoderLayer):
            cross = layer.cross_attention
            self.query = _Product(dtype, cross.w_q, scales=[scale])
            self.keys_values = [_Product(dtype, w) for w in (cross.w_k, cross.w_v)]
            self.cross_out = _Product(dtype, cross.w_o)
            self.cross_norm = _copied(layer.cross_attention_norm)

    def add_and_norm(self, norm: nn.Module, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.norm_first:
            return sublayer(norm(x)).add_(x)
        return norm(sublayer(x).add_(x))  # type: ignore[no-any-return]

    def split(self, x: Float[Tensor, "*rows C"]) -> list[Tensor]:
        """Queries, keys and values, [*rows H d] each."""
        return [part.unflatten(-1, (self.n_heads, -1)) for part in x.split(self.widths, dim=-1)]  # type: ignore[no-untyped-call]

    def feed_forward(self, x: Tensor) -> Tensor:
        return self.w_2(self.activation(self.w_1(x)))

    def encode(self, x: Tensor, layout: TokenLayout, mask: Tensor | None) -> Tensor:
        def attend(y: Tensor) -> Tensor:
            query, key, value = self.split(layout.pad(self.project(y)))
            return self.w_o(layout.pack(_attention(query, key, value, mask)))

        x = self.add_and_norm(self.self_attention_norm, x, attend)
        return self.add_and_norm(self.feed_forward_norm, x, self.feed_forward)

    def read_memory(self, memory: Float[Tensor, "P D"], layout: TokenLayout) -> list[Tensor]:
        """Keys and values of the memory for cross-attention, padded: [N S H d] each."""
        read = (layout.pad(product(memory)) for product in self.keys_values)
        return [x.view(*x.shape[:2], self.n_heads, -1) for x in read]

    def step(self, x: Tensor, i: int, cache: TorchCache) -> Tensor:
        """Compute decoder layer i for the newest token of each row: x [R D] is its residual stream."""

        def attend(y: Tensor) -> Tensor:
            query, key, value = self.split(self.project(y))
            return self.w_o(_attention(query[:, None], *cache.write(i, key, value))[:, 0])

        def attend_memory(y: Tensor) -> Tensor:
            key, value = cache.memory[i]
            query = self.query(y).view(len(key), -1, *key.shape[2:])  # [N K H d_k]
            return self.cross_out(_attention(query, key, value, cache.memory_mask).flatten(0, 1))

        x = self.add_and_norm(self.self_attention_norm, x, attend)
        x = self.add_and_norm(self.cross_norm, x, attend_memory)
        return self.add_and_norm(self.feed_forward_norm, x, self.feed_forward)


@dataclass
class TorchCache:
    """The keys and values of K hypotheses of each of N sentences. It is changed in place.

    `memory` has, for each layer, the keys and values of the memory, [N S H d] each, and after the last one the keys
    [N S D] and ids [N S] of a copy mechanism. `memory_mask` is added to their
    scores; None: all positions are visible. `past` has the keys and values of the target so far, [T layers R H d] each,
    T >= t. `length` is t.
    """

    memory: list[list[Tensor]]
    memory_mask: Float[Tensor, "N S"] | None
    past: list[Tensor]
    length: int = 0

    def write(self, i: int, *newest: Tensor) -> list[Tensor]:
        """Write the newest keys and values of layer i, [R H d] each; return all of them so far, [R t H d] each."""
        for past, new in zip(self.past, newest, strict=True):
            past[self.length, i] = new
        return [past[: self.length + 1, i].transpose(0, 1) for past in self.past]

    def grow(self) -> None:
        """Add CACHE_STEPS positions if all positions are in use."""
        if self.length == len(self.past[0]):
            self.past = [torch.cat((past, past.new_empty((CACHE_STEPS, *past.shape[1:])))) for past in self.past]

    def select(self, rows: Int[NDArray[Any], "N2 K2"]) -> TorchCache:
        """Keep the hypotheses `rows`, numbered 0 … R-1; each line of `rows` belongs to one sentence."""
        device, n_rows, n_sentences = self.past[0].device, self.past[0].shape[2], len(self.memory[0][0])
        hypotheses, sentences = rows.flatten(), rows[:, 0] // (n_rows // n_sentences)
        if not np.array_equal(hypotheses, np.arange(n_rows)):
            rows_of_past = torch.from_numpy(hypotheses).to(device)
            self.past = [past.index_select(2, rows_of_past) for past in self.past]
        if not np.array_equal(sentences, np.arange(n_sentences)):
            lines = torch.from_numpy(sentences).to(device)
            self.memory = [[x.index_select(0, lines) for x in layer] for layer in self.memory]
            self.memory_mask = None if self.memory_mask is None else self.memory_mask.index_select(0, lines)
        return self


class TorchInference:
    """A trained Transformer, prepared for search in one precision. Later changes of the model do not change it."""

    def __init__(self, model: Transformer, dtype: torch.dtype = torch.float32) -> None:
        self.settings = model.settings
        self.positions = [_copied(positions) for positions in (model.source_positions, model.target_positions)]
        scale = math.sqrt(self.settings.d_model) if self.settings.scale_embeddings else 1.0
        self.source_embedding = model.source_embedding.weight.detach() * scale
        self.target_embedding = self.source_embedding  # one array where both sides share one matrix
        if model.target_embedding is not model.source_embedding:
            self.target_embedding = model.target_embedding.weight.detach() * scale
        self.encoder = [_Layer(layer, dtype) for layer in model.encoder]
        self.decoder = [_Layer(layer, dtype) for layer in model.decoder]
        self.encoder_norm, self.decoder_norm = _copied(model.encoder_norm), _copied(model.decoder_norm)
        self.output = _Product(dtype, model.output_projection)
        self.copy_keys: _Product | None = None
        if model.copy_mechanism is not None:
            self.copy_keys = _Product(dtype, model.copy_mechanism.w_k, scales=[self.settings.d_model**-0.5])
            self.copied_ids = model.copy_mechanism.target_ids.clone()

    def start(self, sources: Sequence[Sequence[int]], length: int) -> TorchCache:
        """Encode framed sources, padded to `length` for attention; return the cache before the first step."""
        device = self.source_embedding.device
        layout = TokenLayout.of(torch.tensor([len(source) for source in sources]), length, device)
        ids = torch.tensor([token for source in sources for token in source], device=device)
        visible, mask = layout.visible, None
        if visible is not None:
            mask = torch.zeros(visible.shape, device=device).masked_fill_(~visible, -torch.inf)
        x = self.source_embedding[layout.fill(ids)] + self.positions[0](length)[layout.positions]
        for layer in self.encoder:
            x = layer.encode(x, layout, mask)
        memory = self.encoder_norm(x)

        read = [layer.read_memory(memory, layout) for layer in self.decoder]
        if self.copy_keys is not None:
            copied = layout.pad(self.copied_ids[layout.fill(ids)][:, None])[:, :, 0]
            copied = copied if visible is None else copied.masked_fill(~visible, -1)
            read.append([layout.pad(self.copy_keys(memory)), copied])
        shape = CACHE_STEPS, len(self.decoder), len(sources)
        past = [torch.empty((*shape, *x.shape[2:]), device=device) for x in read[0]]
        return TorchCache(read, mask, past)

    def step(self, last: Int[Tensor, "N K"], cache: TorchCache) -> Float[Tensor, "N K V"]:
        """Feed the last token of every hypothesis and return the logits of the next one; the cache grows by it."""
        cache.grow()
        position = self.positions[1](cache.length + 1)[-1]
        x = self.target_embedding[last.flatten()] + position
        for i, layer in enumerate(self.decoder):
            x = layer.step(x, i, cache)
        cache.length += 1
        x = self.decoder_norm(x)
        logits = self.output(x).view(*last.shape, -1)
        if self.copy_keys is None:
            return logits
        keys, copied = cache.memory[-1]
        scores = x.view(*last.shape, -1) @ keys.transpose(1, 2)
        return add_copies(logits, scores, copied[:, None].expand_as(scores))
