"""The Transformer as ONNX operators, in the paper's order: one method for each of its parts.

    encoder   source_ids [N S], source_mask [N S]
              -> for each decoder layer memory_key [N H d_k S], memory_value [N H S d_v];
                 with a copy mechanism copied_tokens [N S], and copy_key [N S D] of each model, which the decoder reads
    decoder   last_ids [N K], rows [R], source_mask, memory_key, memory_value,
              past_key [P H t d_k], past_value [P H t d_v]
              -> log_probs [R V], present_key [R H t+1 d_k], present_value [R H t+1 d_v]

A call of the decoder feeds the last token of K hypotheses of each of N sentences, R = N·K rows. `rows[r]` is the row of
the cache that hypothesis r extends, so that a search orders the cache without moving it itself. The cache has t
positions; its first call has t = 0. The mask is True for tokens and False for padding. The layers of several models
have one running index, and log_probs is the log of the mean of their probabilities.

Between attentions a token is a row: the stream is [tokens D], without the axes of a batch. Axes as in `model`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from glassformer.export.onnx_builder import Graph, Weights, linear, look_up
from glassformer.settings import ModelSettings

Sublayer = Callable[[str, str], str]
"""Input and name of the sublayer -> its output."""

ACTIVATIONS: dict[str, Callable[[Graph, str], str]] = {
    "relu": lambda graph, x: graph.op("Relu", x),
    "gelu": lambda graph, x: graph.op("Gelu", x),  # by erf, the operator's default
    "swish": lambda graph, x: graph.op("Mul", x, graph.op("Sigmoid", x)),
}


def sinusoid_phases(settings: ModelSettings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rate and phase of each dimension i: PE(p, i) = sin(p · rate_i + phase_i). Sine and cosine alternate."""
    i = np.arange(settings.d_model)
    return settings.position_base ** (-(i // 2 * 2) / settings.d_model), (i % 2) * math.pi / 2


@final
class Layers:
    """The layers of one of the two graphs, with weights in a precision."""

    def __init__(self, graph: Graph, settings: ModelSettings, precision: str) -> None:
        self.graph, self.op, self.settings = graph, graph.op, settings
        self.linear: Sublayer = partial(linear, graph, precision)
        self.look_up = partial(look_up, graph, precision)

    def norm(self, x: str, name: str) -> str:
        """LayerNorm of each token."""
        weight, bias = (self.graph.weight(f"{name}.{part}") for part in ("weight", "bias"))
        return self.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=self.settings.norm_eps)

    def embed(self, ids: str, side: str, position: str) -> str:
        """Section 3.4: embeddings · sqrt(d_model) + positions. [N T] -> [N·T D]; `position` is [T]."""
        x = self.look_up(ids, f"{side}_embedding")
        if self.settings.scale_embeddings:
            x = self.op("Mul", x, self.graph.number(math.sqrt(self.settings.d_model)))
        x = self.op("Add", x, self.positions(position, side))
        return self.op("Reshape", x, self.graph.integers(-1, self.settings.d_model))

    def positions(self, position: str, side: str) -> str:
        """Section 3.5: the encodings [T D] of positions [T]; sinusoids are computed, in float64, for any position."""
        if self.settings.positions == "learned":
            return self.op("Gather", self.graph.weight(f"{side}_positions.table"), position)
        rates, phases = map(self.graph.constant, sinusoid_phases(self.settings))
        column = self.op("Unsqueeze", self.graph.cast(position, "float64"), self.graph.integers(1))
        angle = self.op("Add", self.op("Mul", column, rates), phases)
        return self.graph.cast(self.op("Sin", angle), "float32")

    def feed_forward(self, x: str, name: str) -> str:
        """Section 3.3."""
        activation = ACTIVATIONS[self.settings.activation]
        return self.linear(activation(self.graph, self.linear(x, f"{name}.w_1")), f"{name}.w_2")

    def add_and_norm(self, x: str, name: str, sublayer: Sublayer) -> str:
        """Section 3.1: the residual stream around one sublayer."""
        if self.settings.norm == "pre":
            return self.op("Add", x, sublayer(self.norm(x, f"{name}_norm"), name))
        return self.norm(self.op("Add", x, sublayer(x, name)), f"{name}_norm")

    def final_norm(self, x: str, name: str) -> str:
        return self.norm(x, name) if self.settings.norm == "pre" else x

    def attention(self, query: str, key: str, value: str, padding: str | None = None) -> str:
        """Section 3.2.1, of [… T d_k], [… d_k S] and [… S d_v]; `padding` is added to the scores."""
        scaled = self.op("Mul", query, self.graph.number(self.settings.d_k**-0.5))
        scores = self.op("MatMul", scaled, key)
        if padding is not None:
            scores = self.op("Add", scores, padding)
        return self.op("MatMul", self.op("Softmax", scores, axis=-1), value)

    def padding(self, mask: str) -> str:
        """A mask [N S] as numbers [N 1 1 S] to add: 0 for a token, the lowest number for padding."""
        lowest = self.graph.number(float(np.finfo(np.float32).min))
        mask = self.op("Unsqueeze", mask, self.graph.integers(1, 2))
        return self.op("Where", mask, self.graph.number(0.0), lowest)

    def multi_head(self, x: str, name: str, *, batch: str, padding: str, memory: tuple[str, str] | None = None) -> str:
        """Section 3.2.2: every token of x attends to all of x, or to the memory; `batch` is [N T] of x.

        The K hypotheses of a sentence attend to its memory together, as K queries.
        """
        query = self.split_heads(self.linear(x, f"{name}.w_q"), batch, self.settings.d_k)
        key, value = memory or self.keys_and_values(x, name, batch)
        heads = self.op("Transpose", self.attention(query, key, value, padding), perm=[0, 2, 1, 3])
        return self.join_heads(heads, name)

    def split_heads(self, x: str, batch: str, width: int, **transpose: Any) -> str:
        """[N·T H·d] -> [N H T d], or as `transpose` says; `batch` is [N T] of x."""
        shape = self.op("Concat", batch, self.graph.integers(self.settings.n_heads, width), axis=0)
        return self.op("Transpose", self.op("Reshape", x, shape), **({"perm": [0, 2, 1, 3]} | transpose))

    def join_heads(self, heads: str, name: str) -> str:
        """Section 3.2.2: [N T H d_v], or [R H 1 d_v], -> [tokens D]."""
        width = self.graph.integers(-1, self.settings.n_heads * self.settings.d_v)
        return self.linear(self.op("Reshape", heads, width), f"{name}.w_o")

    def keys_and_values(self, x: str, name: str, batch: str, layer: int | None = None) -> tuple[str, str]:
        """Keys [N H d_k T] and values [N H T d_v]; with `layer` under the names of the memory of that layer."""
        key, value = (None, None) if layer is None else (f"memory_key_{layer}", f"memory_value_{layer}")
        d_k, d_v = self.settings.d_k, self.settings.d_v
        return (
            self.split_heads(self.linear(x, f"{name}.w_k"), batch, d_k, perm=[0, 2, 3, 1], output=key),
            self.split_heads(self.linear(x, f"{name}.w_v"), batch, d_v, output=value),
        )

    def cached_attention(self, x: str, name: str, *, rows: str, layer: int) -> str:
        """The decoder's: the newest token attends to all tokens so far, whose keys and values are outputs."""
        d_k, d_v = self.settings.d_k, self.settings.d_v

        def newest(part: str, width: int) -> str:
            """A projection of one token for each row: [R D] -> [R H 1 d]."""
            shape = self.graph.integers(-1, self.settings.n_heads, 1, width)
            return self.op("Reshape", self.linear(x, f"{name}.w_{part}"), shape)

        def extend(part: str, width: int) -> str:
            past, present = f"past_{part}_{layer}", f"present_{part}_{layer}"
            self.graph.input(past, "float32", ["P", self.settings.n_heads, "t", width])
            self.graph.output(present, ["R", self.settings.n_heads, "t+1", width])
            return self.op("Concat", self.op("Gather", past, rows), newest(part[0], width), axis=2, output=present)

        query, key, value = newest("q", d_k), extend("key", d_k), extend("value", d_v)
        return self.join_heads(self.attention(query, self.op("Transpose", key, perm=[0, 1, 3, 2]), value), name)

    def add_copies(self, logits: str, hidden: str, key: str, copied: str, batch: str, vocabulary_size: int) -> str:
        """Departure (Gu et al. 2016): log(exp(logit) + Σ exp(score)) over the source positions of a token, [R V]."""
        op, width = self.op, self.settings.d_model
        query = op("Reshape", hidden, op("Concat", batch, self.graph.integers(width), axis=0))
        scores = op("MatMul", query, op("Transpose", key, perm=[0, 2, 1]))  # [N K S]
        scores = op("Mul", scores, self.graph.number(width**-0.5))
        copied = op("Expand", op("Unsqueeze", copied, self.graph.integers(1)), op("Shape", scores))
        zero, lowest = self.graph.number(0.0), self.graph.number(float(np.finfo(np.float32).min))
        scores = op("Where", op("GreaterOrEqual", copied, zero), scores, lowest)
        tokens = self.graph.cast(op("Max", copied, zero), "int64")
        logits = op("Reshape", logits, op("Concat", batch, self.graph.integers(vocabulary_size), axis=0))
        highest = op("ScatterElements", logits, tokens, scores, axis=2, reduction="max")  # [N K V]
        powers = op("Exp", op("Sub", scores, op("GatherElements", highest, tokens, axis=2)))
        sums = op("ScatterElements", op("Exp", op("Sub", logits, highest)), tokens, powers, axis=2, reduction="add")
        return op("Reshape", op("Add", op("Log", sums), highest), self.graph.integers(-1, vocabulary_size))


def encoder(settings: ModelSettings, members: Sequence[Weights], precision: str) -> Any:
    """Return the encoders as an ONNX model: the keys and values that every decoder layer makes of its memory."""
    graph, number, copies = Graph("encoder"), count(), count()
    layers = Layers(graph, settings, precision)
    ids = graph.input("source_ids", "int64", ["N", "S"])
    mask = graph.input("source_mask", "bool", ["N", "S"])
    padding = layers.padding(mask)
    batch = graph.op("Shape", ids)
    length = graph.op("Squeeze", graph.size(ids, 1))
    zero, one = (graph.constant(np.array(value, np.int64)) for value in (0, 1))
    self_attention = partial(layers.multi_head, batch=batch, padding=padding)
    for graph.weights in members:
        x = layers.embed(ids, "source", graph.op("Range", zero, length, one))
        for i in range(settings.n_encoder_layers):
            x = layers.add_and_norm(x, f"encoder.{i}.self_attention", self_attention)
            x = layers.add_and_norm(x, f"encoder.{i}.feed_forward", layers.feed_forward)
        memory = layers.final_norm(x, "encoder_norm")
        for i in range(settings.n_decoder_layers):
            layer = next(number)
            layers.keys_and_values(memory, f"decoder.{i}.cross_attention", batch, layer)
            graph.output(f"memory_key_{layer}", ["N", settings.n_heads, settings.d_k, "S"])
            graph.output(f"memory_value_{layer}", ["N", settings.n_heads, "S", settings.d_v])
        if settings.copy_mechanism:
            key, shape = f"copy_key_{next(copies)}", graph.op("Concat", batch, graph.integers(settings.d_model), axis=0)
            graph.op("Reshape", layers.linear(memory, "copy_mechanism.w_k"), shape, output=key)
            graph.output(key, ["N", "S", settings.d_model])
    if settings.copy_mechanism:  # the same for all models
        target_ids, none = graph.op("Gather", graph.weight("copy_mechanism.target_ids"), ids), graph.number(-1.0)
        graph.op("Where", mask, target_ids, none, output="copied_tokens")
        graph.output("copied_tokens", ["N", "S"])
    return graph.model()


def decoder(settings: ModelSettings, members: Sequence[Weights], precision: str, vocabulary_size: int) -> Any:
    """Return one step of the decoders as an ONNX model, from the last tokens to the log-probabilities of the next."""
    graph, number, copies = Graph("decoder"), count(), count()
    layers = Layers(graph, settings, precision)
    ids = graph.input("last_ids", "int64", ["N", "K"])
    rows = graph.input("rows", "int64", ["R"])
    padding = layers.padding(graph.input("source_mask", "bool", ["N", "S"]))
    batch = graph.op("Shape", ids)
    copied = graph.input("copied_tokens", "float32", ["N", "S"]) if settings.copy_mechanism else None
    logits = []
    for graph.weights in members:
        x = layers.embed(ids, "target", graph.size("past_key_0", 2))
        for i in range(settings.n_decoder_layers):
            layer = next(number)
            memory = (
                graph.input(f"memory_key_{layer}", "float32", ["N", settings.n_heads, settings.d_k, "S"]),
                graph.input(f"memory_value_{layer}", "float32", ["N", settings.n_heads, "S", settings.d_v]),
            )
            cached_attention = partial(layers.cached_attention, rows=rows, layer=layer)
            cross_attention = partial(layers.multi_head, batch=batch, padding=padding, memory=memory)
            x = layers.add_and_norm(x, f"decoder.{i}.self_attention", cached_attention)
            x = layers.add_and_norm(x, f"decoder.{i}.cross_attention", cross_attention)
            x = layers.add_and_norm(x, f"decoder.{i}.feed_forward", layers.feed_forward)
        hidden = layers.final_norm(x, "decoder_norm")
        logits.append(layers.linear(hidden, "output_projection"))
        if copied is not None:
            key = graph.input(f"copy_key_{next(copies)}", "float32", ["N", "S", settings.d_model])
            logits[-1] = layers.add_copies(logits[-1], hidden, key, copied, batch, vocabulary_size)
    _mean_log_probs(graph, logits)
    graph.output("log_probs", ["R", vocabulary_size])
    return graph.model()


def _mean_log_probs(graph: Graph, logits: Sequence[str]) -> None:
    """The log of the mean probability over models; for one model its log-softmax."""
    if len(logits) == 1:
        graph.op("LogSoftmax", *logits, axis=-1, output="log_probs")
        return
    models = graph.integers(0)  # the axis
    stacked = graph.op("Concat", *(graph.op("Unsqueeze", of_model, models) for of_model in logits), axis=0)
    total = graph.op("ReduceLogSumExp", graph.op("LogSoftmax", stacked, axis=-1), models, keepdims=0)
    graph.op("Sub", total, graph.number(math.log(len(logits))), output="log_probs")
