"""The Transformer for search, in NumPy, in the precision of the weights.

    weights      prepared once: the gain and bias of a norm are part of the product that reads it (pre-norm), the
                 projections of self-attention are one product, all layers' projections of the memory another
    residual     with pre-norm, all that is added to the residual stream is centered beforehand, so that a norm only
                 divides: LayerNorm does not depend on the mean of its input
    cache        the keys and values of a target token are written once, the memory's are computed once

Axes: N sentences · K hypotheses of a sentence · R = N·K rows · S source positions · T target positions · H heads ·
L decoder layers · V vocabulary · D d_model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import TextError
from glassformer.paper.reference import activate, add_copies, sinusoids
from glassformer.settings import ModelSettings

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int

Array = NDArray[Any]
Weights = Mapping[str, Array]

SIDES = "source", "target"
CACHE_STEPS = 32  # positions by which the cache grows at a time


class Product:
    """x Wᵀ + b of some layers side by side; `norm` names the norm before them, whose gain and bias it includes."""

    def __init__(
        self, weights: Weights, *names: str, norm: str = "", scales: Sequence[float] = (), centered: bool = False
    ) -> None:
        matrices, biases, dtype = [], [], weights[f"{names[0]}.weight"].dtype
        for name, scale in zip(names, scales or [1.0] * len(names), strict=True):
            matrix = weights[f"{name}.weight"]
            bias = weights.get(f"{name}.bias", np.zeros(len(matrix))) * scale
            if scale != 1 or norm or centered:  # all in float64, and rounded once
                matrix = matrix.astype(np.float64) * scale
            if norm:
                bias = bias + matrix @ weights[f"{norm}.bias"]
                matrix = matrix * weights[f"{norm}.weight"]
            matrices.append(matrix - matrix.mean(axis=0) if centered else matrix)
            biases.append(bias - bias.mean() if centered else bias)
        joined = matrices[0] if len(matrices) == 1 else np.concatenate(matrices)
        # The copy makes products of few rows in float32 twice as fast; in float64 it takes longer than a search.
        self.weight = joined.T if dtype == np.float64 else np.ascontiguousarray(joined.T, dtype=dtype)
        bias = np.concatenate(biases).astype(dtype)
        self.bias = bias if bias.any() else None

    def __call__(self, x: Float[Array, "R K"]) -> Float[Array, "R W"]:
        y: Array = x.dot(self.weight)
        if self.bias is not None:
            y += self.bias
        return y


class Norm:
    """LayerNorm; without gain and bias where the product after it includes them, without a mean where it is 0."""

    def __init__(self, settings: ModelSettings, weights: Weights, name: str) -> None:
        self.gain, self.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
        self.per_feature, self.eps = 1 / settings.d_model, settings.norm_eps
        self.centered = settings.norm == "pre"

    def __call__(self, x: Float[Array, "R D"]) -> Float[Array, "R D"]:
        if not self.centered:
            x = x - np.add.reduce(x, axis=1, keepdims=True) * self.per_feature
        if len(x) == 1:  # in a third of the time
            y: Array = x / math.sqrt(x[0].dot(x[0]) * self.per_feature + self.eps)
        else:
            y = x / np.sqrt(np.vecdot(x, x) * self.per_feature + self.eps)[:, None]
        if not self.centered:
            y *= self.gain
            y += self.bias
        return y


def _softmax(scores: Array) -> Array:
    """Replace scores by their softmax over the last axis."""
    scores -= np.maximum.reduce(scores, axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= np.add.reduce(scores, axis=-1, keepdims=True)
    return scores


class Layer:
    """One layer of either stack."""

    def __init__(self, settings: ModelSettings, weights: Weights, prefix: str) -> None:
        self.settings, self.pre = settings, settings.norm == "pre"
        scale, attention = settings.d_k**-0.5, f"{prefix}.self_attention"
        names = [f"{attention}.w_{letter}" for letter in "qkv"]
        self.norm = Norm(settings, weights, f"{attention}_norm")
        self.project = Product(weights, *names, norm=self._before(attention), scales=[scale, 1, 1])
        self.w_o = Product(weights, f"{attention}.w_o", centered=self.pre)
        self.feed_norm = Norm(settings, weights, f"{prefix}.feed_forward_norm")
        self.w_1 = Product(weights, f"{prefix}.feed_forward.w_1", norm=self._before(f"{prefix}.feed_forward"))
        self.w_2 = Product(weights, f"{prefix}.feed_forward.w_2", centered=self.pre)
        cross = f"{prefix}.cross_attention"
        if f"{cross}.w_q.weight" in weights:
            self.cross_norm = Norm(settings, weights, f"{cross}_norm")
            self.query = Product(weights, f"{cross}.w_q", norm=self._before(cross), scales=[scale])
            self.cross_out = Product(weights, f"{cross}.w_o", centered=self.pre)

    def _before(self, sublayer: str) -> str:
        return f"{sublayer}_norm" if self.pre else ""

    def add_and_norm(self, norm: Norm, x: Array, sublayer: Any, *inputs: Any) -> Array:
        if self.pre:
            x += sublayer(norm(x), *inputs)
            return x
        return norm(x + sublayer(x, *inputs))

    def split(self, x: Float[Array, "R W"]) -> list[Array]:
        """Queries, keys and values, [R H d] each."""
        n_heads, keys = self.settings.n_heads, self.settings.n_heads * self.settings.d_k
        parts = x[:, :keys], x[:, keys : 2 * keys], x[:, 2 * keys :]
        return [part.reshape(len(x), n_heads, -1) for part in parts]

    def feed(self, x: Array) -> Array:
        hidden = self.w_1(x)
        return self.w_2(activate(hidden, self.settings.activation).astype(hidden.dtype, copy=False))

    def attend(self, y: Float[Array, "NS D"], mask: Array | None, n: int) -> Array:
        """Self-attention of all positions of N sentences; `mask` is added to the scores [N H S S]."""
        query, key, value = (
            part.reshape(n, -1, *part.shape[1:]).transpose(0, 2, 1, 3) for part in self.split(self.project(y))
        )
        scores = query @ key.swapaxes(2, 3)
        if mask is not None:
            scores += mask
        heads = _softmax(scores) @ value  # [N H S d_v]
        return self.w_o(heads.transpose(0, 2, 1, 3).reshape(len(y), -1))

    def attend_memory(self, y: Float[Array, "NK D"], i: int, cache: NumPyCache) -> Array:
        """Cross-attention of K hypotheses of each of N sentences."""
        keys, values = cache.memory[i]
        query = self.query(y).reshape(len(keys), -1, *keys.shape[1:3])  # [N K H d_k]
        scores = query.transpose(0, 2, 1, 3) @ keys
        if cache.mask is not None:
            scores += cache.mask
        heads = _softmax(scores) @ values  # [N H K d_v]
        return self.cross_out(heads.transpose(0, 2, 1, 3).reshape(len(y), -1))

    def encode(self, x: Float[Array, "NS D"], mask: Array | None, n: int) -> Array:
        x = self.add_and_norm(self.norm, x, self.attend, mask, n)
        return self.add_and_norm(self.feed_norm, x, self.feed)

    def step(self, x: Float[Array, "R D"], i: int, cache: NumPyCache) -> Array:
        """Compute decoder layer i for the newest token of each row."""

        def attend(y: Array) -> Array:
            query, key, value = self.split(self.project(y))
            keys, values = cache.write(i, key, value)
            heads = _softmax(query[:, :, None] @ keys.swapaxes(2, 3)) @ values  # [R H 1 d_v]
            return self.w_o(heads.reshape(len(y), -1))

        x = self.add_and_norm(self.norm, x, attend)
        x = self.add_and_norm(self.cross_norm, x, self.attend_memory, i, cache)
        return self.add_and_norm(self.feed_norm, x, self.feed)


@dataclass
class NumPyCache:
    """The keys and values of K hypotheses of each of N sentences. It is changed in place.

    `memory` has, for each layer, the keys [N H d_k S] and values [N H S d_v] of the memory; `mask` [N 1 1 S] is added
    to their scores, None where all positions are visible. After the layers it has the keys [N S D] of a copy mechanism,
    and the ids [N S] of what is copied. `past` has the keys and values of the target so far,
    [L R H T d] each; the first `length` positions are written.
    """

    memory: list[tuple[Array, Array]]
    mask: Array | None
    past: list[Array]
    length: int = 0

    def write(self, i: int, *newest: Float[Array, "R H _"]) -> list[Array]:
        """Write the newest keys and values of layer i; return all of them so far, [R H t d] each."""
        end = self.length + 1
        for past, new in zip(self.past, newest, strict=True):
            past[i, :, :, self.length] = new
        return [past[i, :, :, :end] for past in self.past]

    def grow(self) -> None:
        """Add CACHE_STEPS positions if all positions are in use."""
        if self.length == self.past[0].shape[3]:
            room = [(0, 0)] * 3 + [(0, CACHE_STEPS), (0, 0)]
            self.past = [np.pad(past, room) for past in self.past]

    def select(self, rows: Int[Array, "N2 K2"]) -> None:
        """Keep the hypotheses `rows`, numbered 0 … R-1; each line of `rows` belongs to one sentence."""
        n, flat = len(self.memory[0][0]), rows.ravel()
        n_rows = self.past[0].shape[1]
        if len(flat) != n_rows or (flat != np.arange(n_rows)).any():
            self.past = [past[:, flat] for past in self.past]
        lines = rows[:, 0] // (n_rows // n)
        if len(lines) != n or (lines != np.arange(n)).any():
            self.memory = [(keys[lines], values[lines]) for keys, values in self.memory]
            self.mask = None if self.mask is None else self.mask[lines]


def _centered(settings: ModelSettings, table: Array, dtype: Any) -> Array:
    """Return what is added to a residual stream, without its mean where norms expect that."""
    if settings.norm == "pre":
        table = table - table.mean(axis=1, keepdims=True)
    return table.astype(dtype, copy=False)


class _Positions:
    """The vectors of positions; sinusoids are computed when they are needed."""

    def __init__(self, settings: ModelSettings, table: Float[Array, "_ D"]) -> None:
        self.settings, self._table = settings, table

    def until(self, stop: int) -> Float[Array, "_ D"]:
        """Return the vectors of at least `stop` positions. Raises TextError past the last learned one."""
        table = self._table  # read once: another thread may replace it
        if stop > len(table):
            if self.settings.positions == "learned":
                raise TextError(
                    f"a sequence of {stop} tokens is longer than the {len(table)} learned positions",
                    hint="train with a larger model.max_length, or with sinusoidal positions",
                )
            table = sinusoids(2 * stop, self.settings.d_model, self.settings.position_base)
            table = self._table = _centered(self.settings, table, self._table.dtype)
        return table


class NumPyInference:
    """A trained Transformer, prepared for search. `weights` are the tensors of a model file."""

    @np.errstate(all="ignore")  # a search finds what is not finite
    def __init__(self, settings: ModelSettings, weights: Weights) -> None:
        self.settings, pre = settings, settings.norm == "pre"
        self.dtype = weights["source_embedding.weight"].dtype
        weights = {"target_embedding.weight": weights["source_embedding.weight"], **weights}  # where they are tied
        weights = {"output_projection.weight": weights["target_embedding.weight"], **weights}
        tables = {side: weights[f"{side}_embedding.weight"] for side in SIDES}
        source = target = self._embeddings(tables["source"])
        if tables["target"] is not tables["source"]:
            target = self._embeddings(tables["target"])
        self.embeddings = {"source": source, "target": target}
        learned = {side: weights.get(f"{side}_positions.table", np.empty((0, settings.d_model))) for side in SIDES}
        self.positions = {
            side: _Positions(settings, _centered(settings, table, self.dtype)) for side, table in learned.items()
        }
        self.encoder = [Layer(settings, weights, f"encoder.{i}") for i in range(settings.n_encoder_layers)]
        self.decoder = [Layer(settings, weights, f"decoder.{i}") for i in range(settings.n_decoder_layers)]
        readers = [f"decoder.{i}.cross_attention.w_{letter}" for letter in "kv" for i in range(len(self.decoder))]
        writers, scales, self.n_words = ["output_projection"], [1.0], len(tables["target"])
        if settings.copy_mechanism:  # its keys, and a column for ids, are read of the memory; queries follow the logits
            query, column = np.eye(settings.d_model, dtype=self.dtype), np.zeros((1, settings.d_model), self.dtype)
            weights = {**weights, "query.weight": query, "copied_id.weight": column}
            readers += ["copy_mechanism.w_k", "copied_id"]
            writers, scales = [*writers, "query"], [1.0, settings.d_model**-0.5]
            self.copied_ids = weights["copy_mechanism.target_ids"].astype(self.dtype)
        self.encoder_norm = Norm(settings, weights, "encoder_norm") if pre else None
        self.read_memory = Product(weights, *readers, norm="encoder_norm" if pre else "")
        self.decoder_norm = Norm(settings, weights, "decoder_norm") if pre else None
        self.output = Product(weights, *writers, norm="decoder_norm" if pre else "", scales=scales)

    def _embeddings(self, table: Array) -> Array:
        scale = math.sqrt(self.settings.d_model) if self.settings.scale_embeddings else 1.0
        return _centered(self.settings, table * scale, self.dtype)

    def embed(self, side: str, ids: Int[Array, "R"], first: int, stop: int) -> Float[Array, "R D"]:
        """Embeddings and positions `first` … `stop` - 1 of each sentence."""
        table = self.positions[side].until(stop)[first:stop]
        x: Array = self.embeddings[side][ids].reshape(-1, *table.shape) + table
        return x.reshape(-1, x.shape[2])

    def start(self, sources: Sequence[Sequence[int]], length: int) -> NumPyCache:
        """Encode framed sources, padded to `length`; return the cache before the first step."""
        ids = np.array([[*source, *[0] * (length - len(source))] for source in sources])
        lengths = np.array([len(source) for source in sources])
        return self.encode(ids, np.arange(length) < lengths[:, None])

    def encode(self, ids: Int[Array, "N S"], visible: Bool[Array, "N S"]) -> NumPyCache:
        """Encode sources; attention sees their visible positions. Return the cache before the first step."""
        (n, length), settings, mask = ids.shape, self.settings, None
        if not visible.all():
            mask = np.where(visible, 0.0, -np.inf).astype(self.dtype)[:, None, None]
        x = self.embed("source", ids.ravel(), 0, length)
        for layer in self.encoder:
            x = layer.encode(x, mask, n)
        read = self.read_memory(x if self.encoder_norm is None else self.encoder_norm(x)).reshape(n, length, -1)
        n_layers, n_heads, d_k, d_v = len(self.decoder), settings.n_heads, settings.d_k, settings.d_v
        key_end, value_end = n_layers * n_heads * d_k, n_layers * n_heads * (d_k + d_v)
        keys = read[:, :, :key_end].reshape(n, length, n_layers, n_heads, d_k)
        values = read[:, :, key_end:value_end].reshape(n, length, n_layers, n_heads, d_v)
        layers = zip(keys.transpose(2, 0, 3, 4, 1), values.transpose(2, 0, 3, 1, 4), strict=True)
        memory = [(np.ascontiguousarray(key), np.ascontiguousarray(value)) for key, value in layers]
        if settings.copy_mechanism:
            memory.append((read[:, :, value_end:-1], np.where(visible, self.copied_ids[ids], -1)))
        past = [np.empty((n_layers, n, n_heads, CACHE_STEPS, d), dtype=self.dtype) for d in (d_k, d_v)]
        return NumPyCache(memory, mask, past)

    def step(self, last: Int[Array, "N K"], cache: NumPyCache) -> Float[Array, "N K V"]:
        """Feed the last token of every hypothesis and return the log-probabilities of the next one."""
        cache.grow()
        x = self.embed("target", last.ravel(), cache.length, cache.length + 1)
        for i, layer in enumerate(self.decoder):
            x = layer.step(x, i, cache)
        cache.length += 1
        logits = self.output(x if self.decoder_norm is None else self.decoder_norm(x))
        if self.settings.copy_mechanism:
            keys, copied = cache.memory[-1]
            logits, query = (x.reshape(*last.shape, -1) for x in np.split(logits, [self.n_words], axis=1))
            logits = add_copies(logits, query @ keys.swapaxes(1, 2), copied).reshape(last.size, -1)
        logits -= np.maximum.reduce(logits, axis=1, keepdims=True)
        logits -= np.log(np.add.reduce(np.exp(logits), axis=1, keepdims=True))
        return logits.reshape(*last.shape, -1)
