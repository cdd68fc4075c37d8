"""The Transformer of Vaswani et al. 2017 in NumPy float64, one function per equation, in the paper's order.

    3.2.1  softmax, attention              softmax(Q Kᵀ / sqrt(d_k)) V
    3.2.2  linear, multi_head_attention    Concat(head_1, …, head_h) W_O
    3.3    activate, feed_forward          max(0, x W_1 + b_1) W_2 + b_2
    3.1    layer_norm, add_and_norm        LayerNorm(x + Sublayer(x))
    3.1    encoder_layer, decoder_layer
    3.5    sinusoids, positions
    3.4    embed, encode, decode, project
    5.4    log_softmax, cross_entropy

It computes the same as `model.py` for one sentence and without dropout, simple and slow: `model.py` and search
are tested against it, and the glass box records its quantities. `weights` are the tensors of a model file, with the
names and shapes of `modelfile.tensor_shapes`; a prefix such as "encoder.0.self_attention" selects a module.

`note(name, value, *made_of)` is called for each quantity that has a name in the paper, with the inputs that it was
computed from; a string in `made_of` names weights. The computation continues with the value that it returns: by default
the same one, in the glass box perhaps an edited one.

Axes: S source positions · T target positions · H heads · V vocabulary · D d_model. `memory` is the encoder's output.
A mask is `*_visible`: True means "may attend".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import TextError
from glassformer.settings import ModelSettings

if TYPE_CHECKING:  # shapes are checked in the tests; at run time they cost nothing
    from jaxtyping import Bool, Float, Int

Array = NDArray[Any]
Weights = Mapping[str, Array]
Value = TypeVar("Value", Array, np.float64)
Copies = tuple[Array, Array]
"""The keys [S D] and target ids [S] of the source tokens that can be copied."""


class Note(Protocol):
    """A function that is called with each quantity and returns the value to continue with."""

    def __call__(self, name: str, value: Value, /, *made_of: Array | np.float64 | str | None) -> Value: ...


def unnoted(name: str, value: Value, /, *made_of: Array | np.float64 | str | None) -> Value:  # noqa: ARG001
    """Return the value; record nothing."""
    return value


def under(note: Note, prefix: str) -> Note:
    """Return `note` with `prefix` before its names: "scores" becomes "encoder.0.self_attention.scores"."""

    def noted(name: str, value: Value, /, *made_of: Array | np.float64 | str | None) -> Value:
        return note(f"{prefix}.{name}", value, *made_of)

    return noted


def softmax(scores: Float[Array, "*H T S"], visible: Bool[Array, "#T S"] | None = None) -> Float[Array, "*H T S"]:
    """Return exp(score) over the sum of its row, for the visible scores; hidden ones are 0.

    A row without a visible score is all zeros.
    """
    seen = np.ones(scores.shape, dtype=bool) if visible is None else np.broadcast_to(visible, scores.shape)
    largest = np.max(scores, axis=-1, keepdims=True, where=seen, initial=-np.inf)
    shifted = np.where(seen, scores - np.where(np.isfinite(largest), largest, 0.0), -np.inf)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=-1, keepdims=True)
    return exponentials / np.where(total > 0, total, 1.0)


class Attention(NamedTuple):
    """The output `[*H T d_v]` of attention, and its weights `[*H T S]`."""

    output: Array
    weights: Array


def attention(
    query: Float[Array, "*H T d_k"],
    key: Float[Array, "*H S d_k"],
    value: Float[Array, "*H S d_v"],
    visible: Bool[Array, "#T S"] | None = None,
    note: Note = unnoted,
) -> Attention:
    """Section 3.2.1, equation 1, for one head or for several."""
    scale = note("scale", np.sqrt(np.float64(query.shape[-1])))  # sqrt(d_k) of the head
    scores = note("scores", query @ np.swapaxes(key, -2, -1), query, key)
    scaled = note("scaled", scores / scale, scores, scale)
    weights = note("weights", softmax(scaled, visible), scaled, visible)
    output = note("heads", weights @ value, weights, value)
    return Attention(output, weights)


def linear(weights: Weights, name: str, x: Float[Array, "*rows width_in"]) -> Float[Array, "*rows width_out"]:
    """x Wᵀ, plus a bias if the model has one."""
    product = x @ weights[f"{name}.weight"].T
    bias = weights.get(f"{name}.bias")
    return product if bias is None else product + bias


def split_heads(x: Float[Array, "T H_d"], n_heads: int) -> Float[Array, "H T d"]:
    """Split the projections of all heads, computed as one matrix, into heads."""
    return np.stack(np.split(x, n_heads, axis=1))


def multi_head_attention(
    weights: Weights,
    prefix: str,
    x: Float[Array, "T D"],
    memory: Float[Array, "S D"],
    visible: Bool[Array, "#T S"] | None,
    model: ModelSettings,
    note: Note = unnoted,
) -> Float[Array, "T D"]:
    """Section 3.2.2: queries from x, keys and values from `memory`; every head reads all of both."""
    w_q, w_k, w_v, w_o = (f"{prefix}.w_{letter}" for letter in "qkvo")
    queries = note("queries", split_heads(linear(weights, w_q, x), model.n_heads), x, w_q)
    keys = note("keys", split_heads(linear(weights, w_k, memory), model.n_heads), memory, w_k)
    values = note("values", split_heads(linear(weights, w_v, memory), model.n_heads), memory, w_v)
    heads = attention(queries, keys, values, visible, note).output
    concatenated = note("concatenated", np.concatenate(list(heads), axis=1), heads)  # [H T d_v] -> [T H·d_v]
    return note("output", linear(weights, w_o, concatenated), concatenated, w_o)


def activate(x: Float[Array, "*rows"], activation: Literal["relu", "gelu", "swish"]) -> Float[Array, "*rows"]:
    """max(0, x); Departure: x Φ(x) with the normal distribution function Φ, or x σ(x) with the logistic function σ.

    These are the GELU (Hendrycks and Gimpel 2016) and swish, or SiLU (Ramachandran et al. 2017).
    """
    if activation == "relu":
        return np.maximum(x, 0.0)
    if activation == "swish":
        swished: Array = x * (1 + np.tanh(x / 2)) / 2  # σ(x) without an overflow
        return swished
    erf = np.vectorize(math.erf, otypes=[np.float64])
    below: Array = (1 + erf(x / math.sqrt(2))) / 2
    return x * below


def feed_forward(
    weights: Weights, prefix: str, x: Float[Array, "T D"], model: ModelSettings, note: Note = unnoted
) -> Float[Array, "T D"]:
    """Section 3.3, equation 2, at each position by itself."""
    w_1, w_2 = f"{prefix}.w_1", f"{prefix}.w_2"
    hidden = note("hidden", linear(weights, w_1, x), x, w_1)
    activated = note("activated", activate(hidden, model.activation), hidden)
    return note("output", linear(weights, w_2, activated), activated, w_2)


def layer_norm(
    x: Float[Array, "T D"],
    gain: Float[Array, " D"],
    bias: Float[Array, " D"],
    eps: float,
    note: Note = unnoted,
) -> Float[Array, "T D"]:
    """Ba et al. 2016, over the features of one position; the variance divides by D, and `eps` is inside the root."""
    mean = note("mean", x.mean(axis=1, keepdims=True), x)
    centered = x - mean
    variance = note("variance", (centered**2).mean(axis=1, keepdims=True), x)
    normed = centered / np.sqrt(variance + eps)
    return note("output", normed * gain + bias, x, mean, variance, gain, bias)


def norm(
    weights: Weights, name: str, x: Float[Array, "T D"], model: ModelSettings, note: Note = unnoted
) -> Float[Array, "T D"]:
    """The layer norm called `name`, with its own gain and bias."""
    gain, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    return layer_norm(x, gain, bias, model.norm_eps, under(note, name))


def add_and_norm(
    weights: Weights,
    prefix: str,
    x: Float[Array, "T D"],
    sublayer: Callable[[Array], Array],
    model: ModelSettings,
    note: Note = unnoted,
) -> Float[Array, "T D"]:
    """Section 3.1: the residual stream around the sublayer called `prefix`."""
    if model.norm == "pre":  # Departure: the norm is before the sublayer, and the stream itself is not normalized
        change = sublayer(norm(weights, f"{prefix}_norm", x, model, note))
        return note(f"{prefix}.residual", x + change, x, change)
    change = sublayer(x)
    total = note(f"{prefix}.residual", x + change, x, change)
    return norm(weights, f"{prefix}_norm", total, model, note)


def encoder_layer(
    weights: Weights,
    prefix: str,
    x: Float[Array, "S D"],
    visible: Bool[Array, "1 S"] | None,
    model: ModelSettings,
    note: Note = unnoted,
) -> Float[Array, "S D"]:
    """Section 3.1: self-attention, feed-forward."""
    self_attention, feeding = f"{prefix}.self_attention", f"{prefix}.feed_forward"

    def attend(y: Array) -> Array:
        return multi_head_attention(weights, self_attention, y, y, visible, model, under(note, self_attention))

    def feed(y: Array) -> Array:
        return feed_forward(weights, feeding, y, model, under(note, feeding))

    x = add_and_norm(weights, self_attention, x, attend, model, note)
    return add_and_norm(weights, feeding, x, feed, model, note)


def decoder_layer(
    weights: Weights,
    prefix: str,
    x: Float[Array, "T D"],
    memory: Float[Array, "S D"],
    past_visible: Bool[Array, "T T"],
    memory_visible: Bool[Array, "1 S"] | None,
    model: ModelSettings,
    note: Note = unnoted,
) -> Float[Array, "T D"]:
    """Section 3.1: self-attention in which position t sees positions up to t, cross-attention, feed-forward."""
    self_attention, cross_attention, feeding = (
        f"{prefix}.{sublayer}" for sublayer in ("self_attention", "cross_attention", "feed_forward")
    )

    def attend(y: Array) -> Array:
        return multi_head_attention(weights, self_attention, y, y, past_visible, model, under(note, self_attention))

    def attend_memory(y: Array) -> Array:
        recorded = under(note, cross_attention)
        return multi_head_attention(weights, cross_attention, y, memory, memory_visible, model, recorded)

    def feed(y: Array) -> Array:
        return feed_forward(weights, feeding, y, model, under(note, feeding))

    x = add_and_norm(weights, self_attention, x, attend, model, note)
    x = add_and_norm(weights, cross_attention, x, attend_memory, model, note)
    return add_and_norm(weights, feeding, x, feed, model, note)


def sinusoids(length: int, d_model: int, base: float = 10_000.0) -> Float[Array, "length d_model"]:
    """Section 3.5: column 2i of row p is sin(p / base^(2i/d_model)), and column 2i+1 its cosine."""
    position = np.arange(length)[:, None]
    column = np.arange(d_model)[None, :]
    pair = column // 2
    angle = position / base ** (2 * pair / d_model)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


def positions(
    weights: Weights,
    side: Literal["source", "target"],
    length: int,
    model: ModelSettings,
    note: Note = unnoted,
) -> Float[Array, "length D"]:
    """Return the position encodings that are added to the first `length` embeddings.

    Raises TextError past the last learned position.
    """
    numbers = note("numbers", np.arange(length))
    if model.positions == "sinusoidal":
        return note("positions", sinusoids(length, model.d_model, model.position_base), numbers)
    if length > model.max_length:
        raise TextError(
            f"a sequence of {length} tokens is longer than the {model.max_length} learned positions",
            hint="train with a larger model.max_length, or with sinusoidal positions",
        )
    table = weights[f"{side}_positions.table"]
    return note("positions", table[:length].astype(np.float64), numbers, table)


def embed(
    weights: Weights,
    side: Literal["source", "target"],
    ids: Int[Array, " T"],
    model: ModelSettings,
    note: Note = unnoted,
) -> Float[Array, "T D"]:
    """Sections 3.4 and 3.5: rows of the embedding, times sqrt(d_model), plus positions."""
    note = under(note, side)
    table = weights[f"{'source' if model.tied_embeddings == 'all' else side}_embedding.weight"]
    ids = note("ids", ids)
    x = note("embedded", table[ids].astype(np.float64), ids, table)
    if model.scale_embeddings:
        scale = note("scale", np.sqrt(np.float64(model.d_model)))
        x = note("scaled", x * scale, x, scale)
    where = positions(weights, side, len(ids), model, note)
    return note("input", x + where, x, where)


def encode(
    weights: Weights,
    model: ModelSettings,
    ids: Int[Array, " S"],
    visible: Bool[Array, " S"] | None = None,
    note: Note = unnoted,
) -> Float[Array, "S D"]:
    """Return the memory of framed source ids."""
    row = None if visible is None else note("encoder.self_mask", visible[None, :])
    x = embed(weights, "source", ids, model, note)
    for i in range(model.n_encoder_layers):
        x = encoder_layer(weights, f"encoder.{i}", x, row, model, note)
    return norm(weights, "encoder_norm", x, model, note) if model.norm == "pre" else x


def decode(
    weights: Weights,
    model: ModelSettings,
    ids: Int[Array, " T"],
    memory: Float[Array, "S D"],
    memory_visible: Bool[Array, " S"] | None = None,
    note: Note = unnoted,
) -> Float[Array, "T D"]:
    """Return the hidden states of all target positions; position t sees the ids up to t."""
    row = None if memory_visible is None else note("decoder.cross_mask", memory_visible[None, :])
    past = note("decoder.self_mask", np.tri(len(ids), dtype=bool))
    x = embed(weights, "target", ids, model, note)
    for i in range(model.n_decoder_layers):
        x = decoder_layer(weights, f"decoder.{i}", x, memory, past, row, model, note)
    return norm(weights, "decoder_norm", x, model, note) if model.norm == "pre" else x


def copies(
    weights: Weights,
    model: ModelSettings,
    ids: Int[Array, " S"],
    memory: Float[Array, "S D"],
    visible: Bool[Array, " S"] | None = None,
    note: Note = unnoted,
) -> Copies | None:
    """Return the keys of copying each source token, and its target id, -1 for none; None without a copy mechanism."""
    if not model.copy_mechanism:
        return None
    copied = note("copied_tokens", weights["copy_mechanism.target_ids"][ids], ids, weights["copy_mechanism.target_ids"])
    if visible is not None and (copied[~visible] >= 0).any():  # a trace hides padding alone, and keeps its array
        copied = np.where(visible, copied, -1)
    matrix = weights["copy_mechanism.w_k.weight"]
    return note("copy_keys", memory @ matrix.T, memory, matrix), copied


def add_copies(
    logits: Float[Array, "*N T V"], scores: Float[Array, "*N T S"], copied: Float[Array, "*N S"]
) -> Float[Array, "*N T V"]:
    """Departure (Gu et al. 2016): log(exp(logit) + Σ exp(score)) over the source positions that have the token."""
    with_copies, places = logits.copy(), (copied >= 0).nonzero()
    tokens = *places[:-1], copied[places].astype(int)
    np.logaddexp.at(with_copies.swapaxes(-1, -2), tokens, scores.swapaxes(-1, -2)[places])
    return with_copies


def project(
    weights: Weights,
    model: ModelSettings,
    hidden: Float[Array, "T D"],
    note: Note = unnoted,
    copies: Copies | None = None,
) -> Float[Array, "T V"]:
    """Section 3.4: logits of the next token, by the matrix that `tied_embeddings` selects, plus a bias if set."""
    names = {"none": "output_projection", "target": "target_embedding", "all": "source_embedding"}
    matrix, name = weights[f"{names[model.tied_embeddings]}.weight"], "logits" if copies is None else "own_logits"
    bias = [weights["output_projection.bias"]] if model.output_bias else []  # Departure
    logits = note(name, sum(bias, hidden @ matrix.T), hidden, matrix, *bias)
    if copies is None:
        return logits
    keys, copied = copies
    scale = note("copy_scale", np.sqrt(np.float64(model.d_model)))
    products = note("copy_products", hidden @ keys.T, hidden, keys)
    scores = note("copy_scores", products / scale, products, scale)
    return note("logits", add_copies(logits, scores, copied), logits, scores, copied)


def log_softmax(logits: Float[Array, "T V"], note: Note = unnoted) -> Float[Array, "T V"]:
    """Return log-probabilities (natural logarithm) of logits."""
    shifted: Array = logits - logits.max(axis=1, keepdims=True)
    normalizer: Array = np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return note("log_probs", shifted - normalizer, logits)


def cross_entropy(
    logits: Float[Array, "T V"], target: Int[Array, " T"], label_smoothing: float = 0.0, note: Note = unnoted
) -> Float[Array, " T"]:
    """Return the loss of each position in nats: the cross-entropy with the smoothed target distribution.

    It has probability 1 - `label_smoothing` at the target token, and spreads the rest evenly over the whole vocabulary,
    the target included (Szegedy et al. 2016).
    """
    vocabulary = logits.shape[1]
    one_hot = np.arange(vocabulary) == target[:, None]
    distribution = (1 - label_smoothing) * one_hot + label_smoothing / vocabulary
    distribution = note("smoothed_targets", distribution, target, logits)
    log_probs = log_softmax(logits, note)
    return note("losses", -(distribution * log_probs).sum(axis=1), distribution, log_probs)
