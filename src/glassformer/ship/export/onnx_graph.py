"""The Transformer as ONNX operators, in the paper's order: one method for each of its parts.

    encoder   source_ids [N S], source_mask [N S]
              -> memory [N S D], and for each decoder layer memory_key [N H d_k S], memory_value [N H S d_v]
    decoder   last_ids [N K], rows [R], source_mask, memory_key, memory_value,
              past_key [P H t d_k], past_value [P H t d_v]
              -> log_probs [R V], present_key [R H t+1 d_k], present_value [R H t+1 d_v]

A call of the decoder feeds the last token of K hypotheses of each of N sentences, R = N·K rows. `rows[r]` is the row of
the cache that hypothesis r extends, so that a search orders the cache without moving it itself. The cache has t
positions; its first call has t = 0. The mask is True for tokens and False for padding.

Between attentions a token is a row: the stream is [tokens D], without the axes of a batch. Axes as in `model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from glassformer.paper.settings import ModelSettings
from glassformer.ship.export.onnx_builder import Graph, Weights
from glassformer.ship.export.onnx_precision import PRECISIONS

Sublayer = Callable[[str], str]


class Activation(Protocol):
    def __call__(self, graph: Graph, x: str) -> str: ...


ACTIVATIONS: dict[str, Activation] = {
    "relu": lambda graph, x: graph.op("Relu", x),
    "gelu": lambda graph, x: graph.op("Gelu", x),  # by erf, the operator's default
    "swish": lambda graph, x: graph.op("Mul", x, graph.op("Sigmoid", x)),
}


def sinusoid_phases(settings: ModelSettings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rate and phase of each dimension i: PE(p, i) = sin(p · rate_i + phase_i). Sine and cosine alternate."""
    i = np.arange(settings.d_model)
    return settings.position_base ** (-(i // 2 * 2) / settings.d_model), (i % 2) * math.pi / 2


@final
class TransformerGraph:
    """The layers of one of the two graphs, with weights in a precision."""

    def __init__(self, graph: Graph, settings: ModelSettings, precision: str) -> None:
        self.graph, self.settings = graph, settings
        self._linear, self._look_up = PRECISIONS[precision]

    def linear(self, x: str, name: str) -> str:
        """X Wᵀ + b, without b where the layer has none. [tokens in] -> [tokens out]."""
        return self._linear(self.graph, x, name)

    def norm(self, x: str, name: str) -> str:
        """LayerNorm of each token."""
        weight, bias = (self.graph.weight(f"{name}.{part}") for part in ("weight", "bias"))
        return self.graph.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=self.settings.norm_eps)

    def embed(self, ids: str, side: str, position: str) -> str:
        """Section 3.4: embeddings · sqrt(d_model) + positions. [N T] -> [N·T D]; `position` is [T]."""
        x = self._look_up(self.graph, ids, f"{side}_embedding")
        if self.settings.scale_embeddings:
            x = self.graph.op("Mul", x, self.graph.number(math.sqrt(self.settings.d_model)))
        x = self.graph.op("Add", x, self.positions(position, side))
        return self.graph.op("Reshape", x, self.graph.integers(-1, self.settings.d_model))

    def positions(self, position: str, side: str) -> str:
        """Section 3.5: the encodings [T D] of positions [T]; sinusoids are computed, in float64, for any position."""
        if self.settings.positions == "learned":
            return self.graph.op("Gather", self.graph.weight(f"{side}_positions.table"), position)
        rates, phases = (self.graph.constant(each) for each in sinusoid_phases(self.settings))
        column = self.graph.op("Unsqueeze", self.graph.cast(position, "float64"), self.graph.integers(1))
        angle = self.graph.op("Add", self.graph.op("Mul", column, rates), phases)
        return self.graph.cast(self.graph.op("Sin", angle), "float32")

    def feed_forward(self, x: str, name: str) -> str:
        """Section 3.3."""
        activation = ACTIVATIONS[self.settings.activation]
        return self.linear(activation(self.graph, self.linear(x, f"{name}.w_1")), f"{name}.w_2")

    def add_and_norm(self, x: str, name: str, sublayer: Sublayer) -> str:
        """Section 3.1: the residual stream around one sublayer."""
        if self.settings.norm == "pre":
            return self.graph.op("Add", x, sublayer(self.norm(x, f"{name}_norm")))
        return self.norm(self.graph.op("Add", x, sublayer(x)), f"{name}_norm")

    def attention(self, query: str, key: str, value: str, padding: str | None = None) -> str:
        """Section 3.2.1, of [… T d_k], [… d_k S] and [… S d_v]; `padding` is added to the scores."""
        scaled = self.graph.op("Mul", query, self.graph.number(self.settings.d_k**-0.5))
        scores = self.graph.op("MatMul", scaled, key)
        if padding is not None:
            scores = self.graph.op("Add", scores, padding)
        return self.graph.op("MatMul", self.graph.op("Softmax", scores, axis=-1), value)

    def padding(self, mask: str) -> str:
        """A mask [N S] as numbers [N 1 1 S] to add: 0 for a token, the lowest number for padding."""
        lowest = self.graph.number(float(np.finfo(np.float32).min))
        mask = self.graph.op("Unsqueeze", mask, self.graph.integers(1, 2))
        return self.graph.op("Where", mask, self.graph.number(0.0), lowest)

    def split_heads(self, x: str, batch: str, width: int, *, transposed: bool = False) -> str:
        """[N·T H·d] -> [N H T d], or [N H d T]; `batch` is [N T] of x."""

        def make_shape() -> str:
            return self.graph.op("Concat", batch, self.graph.integers(self.settings.n_heads, width), axis=0)

        shape = self.graph.once(f"{batch} with heads of {width}", make_shape)
        heads = self.graph.op("Reshape", x, shape)
        return self.graph.op("Transpose", heads, perm=[0, 2, 3, 1] if transposed else [0, 2, 1, 3])

    def join_heads(self, heads: str) -> str:
        """[N H T d_v] -> [N·T H·d_v]."""
        width = self.settings.n_heads * self.settings.d_v
        return self.graph.op(
            "Reshape", self.graph.op("Transpose", heads, perm=[0, 2, 1, 3]), self.graph.integers(-1, width)
        )

    def keys_and_values(self, x: str, name: str, batch: str) -> tuple[str, str]:
        key = self.split_heads(self.linear(x, f"{name}.w_k"), batch, self.settings.d_k, transposed=True)
        return key, self.split_heads(self.linear(x, f"{name}.w_v"), batch, self.settings.d_v)

    def newest(self, x: str, name: str, width: int) -> str:
        """A projection of one token for each row: [R D] -> [R H 1 d]."""
        shape = self.graph.integers(-1, self.settings.n_heads, 1, width)
        return self.graph.op("Reshape", self.linear(x, name), shape)

    def final_norm(self, x: str, name: str) -> str:
        return self.norm(x, name) if self.settings.norm == "pre" else x


def encoder(settings: ModelSettings, weights: Weights, precision: str) -> Any:
    """Return the encoder as an ONNX model, with the keys and values that every decoder layer makes of its memory."""
    graph = Graph("encoder", weights)
    layers = TransformerGraph(graph, settings, precision)
    ids = graph.input("source_ids", "int64", ["N", "S"])
    padding = layers.padding(graph.input("source_mask", "bool", ["N", "S"]))
    batch = graph.op("Shape", ids)
    length = graph.op("Squeeze", graph.size(ids, 1))
    zero, one = (graph.constant(np.array(value, np.int64)) for value in (0, 1))
    x = layers.embed(ids, "source", graph.op("Range", zero, length, one))
    for i in range(settings.n_encoder_layers):
        attend = _self_attention(layers, f"encoder.{i}.self_attention", batch, padding)
        x = layers.add_and_norm(x, f"encoder.{i}.self_attention", attend)
        x = _add_feed_forward(layers, x, f"encoder.{i}")
    memory = layers.final_norm(x, "encoder_norm")
    shape = graph.op("Concat", batch, graph.integers(settings.d_model), axis=0)
    graph.output(graph.op("Reshape", memory, shape), "memory", ["N", "S", settings.d_model])
    for i in range(settings.n_decoder_layers):
        key, value = layers.keys_and_values(memory, f"decoder.{i}.cross_attention", batch)
        graph.output(key, f"memory_key_{i}", ["N", settings.n_heads, settings.d_k, "S"])
        graph.output(value, f"memory_value_{i}", ["N", settings.n_heads, "S", settings.d_v])
    return graph.model()


def decoder(settings: ModelSettings, weights: Weights, precision: str, vocabulary_size: int) -> Any:
    """Return one step of the decoder as an ONNX model, from the last tokens to the log-probabilities of the next."""
    graph = Graph("decoder", weights)
    layers = TransformerGraph(graph, settings, precision)
    ids = graph.input("last_ids", "int64", ["N", "K"])
    rows = graph.input("rows", "int64", ["R"])
    padding = layers.padding(graph.input("source_mask", "bool", ["N", "S"]))
    batch = graph.op("Shape", ids)
    caches = []
    for i in range(settings.n_decoder_layers):
        key = graph.input(f"memory_key_{i}", "float32", ["N", settings.n_heads, settings.d_k, "S"])
        value = graph.input(f"memory_value_{i}", "float32", ["N", settings.n_heads, "S", settings.d_v])
        past_key = graph.input(f"past_key_{i}", "float32", ["P", settings.n_heads, "t", settings.d_k])
        past_value = graph.input(f"past_value_{i}", "float32", ["P", settings.n_heads, "t", settings.d_v])
        caches.append((key, value, past_key, past_value))
    x = layers.embed(ids, "target", graph.size("past_key_0", 2))
    for i, (key, value, *past) in enumerate(caches):
        x = layers.add_and_norm(x, f"decoder.{i}.self_attention", _cached_attention(layers, i, rows, *past))
        attend = _cross_attention(layers, f"decoder.{i}.cross_attention", batch, key, value, padding)
        x = layers.add_and_norm(x, f"decoder.{i}.cross_attention", attend)
        x = _add_feed_forward(layers, x, f"decoder.{i}")
    logits = layers.linear(layers.final_norm(x, "decoder_norm"), "output_projection")
    graph.output(graph.op("LogSoftmax", logits, axis=-1), "log_probs", ["R", vocabulary_size])
    return graph.model()


def _add_feed_forward(layers: TransformerGraph, x: str, layer: str) -> str:
    name = f"{layer}.feed_forward"
    return layers.add_and_norm(x, name, lambda y: layers.feed_forward(y, name))


def _self_attention(layers: TransformerGraph, name: str, batch: str, padding: str) -> Sublayer:
    """The encoder's: every token of a text attends to all of its tokens."""

    def attend(y: str) -> str:
        query = layers.split_heads(layers.linear(y, f"{name}.w_q"), batch, layers.settings.d_k)
        key, value = layers.keys_and_values(y, name, batch)
        return layers.linear(layers.join_heads(layers.attention(query, key, value, padding)), f"{name}.w_o")

    return attend


def _cached_attention(layers: TransformerGraph, i: int, rows: str, past_key: str, past_value: str) -> Sublayer:
    """The decoder's: the newest token attends to all tokens so far, whose keys and values are outputs of the graph."""
    graph, settings, name = layers.graph, layers.settings, f"decoder.{i}.self_attention"

    def extend(past: str, newest: str) -> str:
        return graph.op("Concat", graph.op("Gather", past, rows), newest, axis=2)

    def attend(y: str) -> str:
        query = layers.newest(y, f"{name}.w_q", settings.d_k)
        key = extend(past_key, layers.newest(y, f"{name}.w_k", settings.d_k))
        value = extend(past_value, layers.newest(y, f"{name}.w_v", settings.d_v))
        key = graph.output(key, f"present_key_{i}", ["R", settings.n_heads, "t+1", settings.d_k])
        value = graph.output(value, f"present_value_{i}", ["R", settings.n_heads, "t+1", settings.d_v])
        heads = layers.attention(query, graph.op("Transpose", key, perm=[0, 1, 3, 2]), value)
        joined = graph.op("Reshape", heads, graph.integers(-1, settings.n_heads * settings.d_v))  # of one position
        return layers.linear(joined, f"{name}.w_o")

    return attend


def _cross_attention(layers: TransformerGraph, name: str, batch: str, key: str, value: str, padding: str) -> Sublayer:
    """The K hypotheses of a sentence attend to its memory together, as K queries."""

    def attend(y: str) -> str:
        query = layers.split_heads(layers.linear(y, f"{name}.w_q"), batch, layers.settings.d_k)
        return layers.linear(layers.join_heads(layers.attention(query, key, value, padding)), f"{name}.w_o")

    return attend
