"""The tensors of a trace: for each its op, axes, title, meaning, formula and section of the paper.

A name is that of `reference.note`, with "self" for "self_attention" and "cross" for "cross_attention":
`encoder.0.self.scores`, `decoder.2.cross_norm.output`, `target.embedded`, `logits`. The prefix "gold." marks tensors of
the gold target. `describe` returns the entry of a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NamedTuple

from glassformer.glassbox.formulas import FORMULAS
from glassformer.glassbox.schema import Op
from glassformer.paper.settings import ModelSettings

GOLD = "gold."


@dataclass(frozen=True)
class Entry:
    """One kind of tensor. `op` is None if it is given, not computed.

    The axes "rows" and "keys" are positions of the source or the target, "vocabulary" is that of the target.
    """

    op: Op | None
    axes: tuple[str, ...]
    title: str
    words: str
    section: str
    formula: str = ""


_ROWS, _STREAM = ("rows",), ("rows", "d_model")
_LOGITS = ("rows", "vocabulary")
_CELLS = ("head", "rows", "keys")

EMBEDDING = {
    "ids": Entry(None, _ROWS, "token ids", "The ids of the tokens in the vocabulary.", "3.4"),
    "numbers": Entry(None, _ROWS, "position numbers", "Positions count from 0.", "3.5"),
    "scale": Entry(None, (), "√d_model", "The scale of the embeddings.", "3.4"),
    "embedded": Entry(
        "embed", _STREAM, "embedding", "The row of the embedding matrix for the token id.", "3.4", "embedded"
    ),
    "scaled": Entry("multiply", _STREAM, "scaled embedding", "The embedding times √d_model.", "3.4", "times_root_d"),
    "positions": Entry(
        "sinusoids",
        _STREAM,
        "position encoding",
        "Sine and cosine of the position, at a different frequency for each pair of features.",
        "3.5",
        "sinusoids",
    ),
    "input": Entry(
        "add",
        _STREAM,
        "input of the stack",
        "The embedding of the token plus the encoding of its position.",
        "3.5",
        "input",
    ),
}

ATTENTION = {
    "scale": Entry(None, (), "√d_k", "The square root of the width of one head, not of d_model.", "3.2.1"),
    "queries": Entry(
        "project_heads",
        ("head", "rows", "d_k"),
        "queries",
        "The query of a position is compared with all keys. Every head reads the whole row.",
        "3.2.2",
        "queries",
    ),
    "keys": Entry(
        "project_heads",
        ("head", "keys", "d_k"),
        "keys",
        "The key of a position is compared with the queries. Every head reads the whole row.",
        "3.2.2",
        "keys",
    ),
    "values": Entry(
        "project_heads",
        ("head", "keys", "d_v"),
        "values",
        "The values are averaged with the attention weights. Every head reads the whole row.",
        "3.2.2",
        "values",
    ),
    "scores": Entry(
        "matmul_transposed",
        _CELLS,
        "scores",
        "The dot product of each query with each key.",
        "3.2.1",
        "scores",
    ),
    "scaled": Entry(
        "divide",
        _CELLS,
        "scaled scores",
        "The scores divided by √d_k. Without the division their size would grow with d_k.",
        "3.2.1",
        "scaled",
    ),
    "weights": Entry(
        "softmax",
        _CELLS,
        "attention weights",
        "Softmax over each row: the weights of a row add up to 1, and a masked key has the weight 0.",
        "3.2.1",
        "weights",
    ),
    "heads": Entry(
        "matmul",
        ("head", "rows", "d_v"),
        "heads",
        "The sum of the values, weighted by the attention weights of the row.",
        "3.2.1",
        "heads",
    ),
    "concatenated": Entry(
        "concatenate_heads",
        ("rows", "heads_d_v"),
        "concatenated heads",
        "The outputs of all heads in one row.",
        "3.2.2",
        "concatenated",
    ),
    "output": Entry(
        "linear", _STREAM, "output of attention", "The concatenated heads times W_O.", "3.2.2", "attention_output"
    ),
    "residual": Entry(
        "add",
        _STREAM,
        "residual sum",
        "The residual stream plus the output of the sublayer.",
        "3.1",
        "residual",
    ),
}

FEED_FORWARD = {
    "hidden": Entry(
        "linear",
        ("rows", "d_ff"),
        "hidden, before activation",
        "A linear map to d_ff features, for each position separately.",
        "3.3",
        "hidden",
    ),
    "activated": Entry("relu", ("rows", "d_ff"), "hidden, activated", "Negative numbers become 0.", "3.3", "relu"),
    "output": Entry(
        "linear",
        _STREAM,
        "output of the feed-forward network",
        "A linear map back to d_model features.",
        "3.3",
        "feed_forward_output",
    ),
    "residual": ATTENTION["residual"],
}

NORM = {
    "mean": Entry("mean", _ROWS, "mean of the row", "The mean over the features of one position.", "3.1", "mean"),
    "variance": Entry(
        "variance",
        _ROWS,
        "variance of the row",
        "The sum of squared deviations is divided by d_model, not by d_model − 1.",
        "3.1",
        "variance",
    ),
    "output": Entry(
        "layer_norm",
        _STREAM,
        "layer norm",
        "Each row is normalized to mean 0 and a variance close to 1, then multiplied by γ and shifted by β.",
        "3.1",
        "layer_norm",
    ),
}

OUTPUT = {
    "logits": Entry(
        "linear", _LOGITS, "logits", "One unnormalized score for each token of the vocabulary.", "3.4", "logits"
    ),
    "log_probs": Entry(
        "log_softmax",
        _LOGITS,
        "log-probabilities",
        "The logarithm of the probability of each token: log softmax of the logits.",
        "3.4",
        "log_probs",
    ),
    "smoothed_targets": Entry(
        "smooth_targets",
        _LOGITS,
        "target distribution",
        "Probability 1 − ε for the target token, plus ε spread evenly over the vocabulary (label smoothing).",
        "5.4",
        "smoothed_targets",
    ),
    "losses": Entry(
        "cross_entropy",
        _ROWS,
        "loss",
        "Cross-entropy of the target distribution and the prediction, in nats.",
        "5.4",
        "losses",
    ),
    "target_ids": Entry(None, _ROWS, "target ids", "The target: the decoder input, shifted by one.", "3.1"),
}

MASKS = {
    "encoder.self_mask": Entry(None, ("source", "source_key"), "mask of the encoder", "Padding is masked.", "3.2.3"),
    "decoder.self_mask": Entry(
        None, ("target", "target_key"), "causal mask", "A position attends to itself and to earlier positions.", "3.2.3"
    ),
    "decoder.cross_mask": Entry(
        None, ("target", "source_key"), "mask of the source", "Padding of the source is masked.", "3.2.3"
    ),
}

LEARNED_POSITIONS = Entry(
    "embed", _STREAM, "position embedding", "A learned row for each position.", "3.5", "learned_positions"
)
_DEPARTURES = {
    "gelu": "Each number h times Φ(h), the normal distribution function.",
    "swish": "Each number h times σ(h), the logistic function: h / (1 + e^−h).",
}


class Described(NamedTuple):
    """The entry of a name with the names of its axes, and the MathML of its formula."""

    entry: Entry
    formula: str


def trace_name(name: str) -> str:
    """The name in a trace of a quantity of the reference: "self" and "cross" without "_attention"."""
    return name.replace("_attention", "")


def part_of(name: str) -> str:
    """The part of the model of a tensor: its name without the last component."""
    return name.rpartition(".")[0]


def describe(name: str, model: ModelSettings) -> Described:
    """The entry of the tensor `name`. Raises KeyError for an unknown name."""
    gold, plain = (GOLD[:-1] + "_", name.removeprefix(GOLD)) if name.startswith(GOLD) else ("", name)
    entry = _entry(plain, model)
    part = part_of(plain)
    side = "source" if part.startswith(("source", "encoder")) else "target"
    key_side = "source" if part.endswith(".cross") else side
    vocabulary = "vocabulary" if model.tied_embeddings == "all" else "target_vocabulary"
    positions = {"rows": side, "keys": f"{key_side}_key", "vocabulary": vocabulary}
    named = (positions.get(axis, axis) for axis in entry.axes)
    axes = tuple(gold + axis if axis.startswith("target") and axis != vocabulary else axis for axis in named)
    key = "residual_pre" if entry.formula == "residual" and model.norm == "pre" else entry.formula
    key = "logits_with_bias" if entry.formula == "logits" and model.output_bias else key
    return Described(replace(entry, axes=axes), FORMULAS.get(key, ""))


def _entry(name: str, model: ModelSettings) -> Entry:
    if name in MASKS:
        return MASKS[name]
    part, _, local = name.rpartition(".")
    if local == "positions" and model.positions == "learned":
        return LEARNED_POSITIONS
    if local == "activated" and model.activation != "relu":
        words = _DEPARTURES[model.activation]
        return replace(FEED_FORWARD[local], op=model.activation, words=words, formula=model.activation)
    for pattern, entries in _ENTRIES.items():
        if re.fullmatch(pattern, part):
            return entries[local]
    raise KeyError(name)


_ENTRIES: dict[str, dict[str, Entry]] = {
    "source|target": EMBEDDING,
    r"encoder\.\d+\.self|decoder\.\d+\.(self|cross)": ATTENTION,
    r"(encoder|decoder)\.\d+\.feed_forward": FEED_FORWARD,
    r"(encoder|decoder)(\.\d+\.(self|cross|feed_forward))?_norm|decoder\.\d+\.lens\.decoder_norm": NORM,
    r"|decoder\.\d+\.lens": OUTPUT,
}


def weight_axes(name: str, model: ModelSettings) -> tuple[str, ...]:
    """The axes of the weights called `name` (a matrix maps rows: y = x Wᵀ)."""
    part, _, kind = name.rpartition(".")
    last = part.rpartition(".")[2]
    if last == "source_embedding":
        return ("vocabulary" if model.tied_embeddings == "all" else "source_vocabulary", "d_model")
    if last in ("target_embedding", "output_projection"):
        vocabulary = "vocabulary" if model.tied_embeddings == "all" else "target_vocabulary"
        return (vocabulary,) if kind == "bias" else (vocabulary, "d_model")
    if last.endswith("_positions"):
        return ("max_length", "d_model")
    if last.endswith("_norm"):
        return ("d_model",)
    out, inner = {
        "w_q": ("heads_d_k", "d_model"),
        "w_k": ("heads_d_k", "d_model"),
        "w_v": ("heads_d_v", "d_model"),
        "w_o": ("d_model", "heads_d_v"),
        "w_1": ("d_ff", "d_model"),
        "w_2": ("d_model", "d_ff"),
    }[last]
    return (out,) if kind == "bias" else (out, inner)


AXES = {
    "source": "source position",
    "source_key": "source position, as key",
    "target": "decoder row: input token, target token",
    "target_key": "decoder row, as key",
    "head": "head",
    "d_model": "feature of the model",
    "d_k": "feature of a query or key",
    "d_v": "feature of a value",
    "heads_d_k": "features of all heads' queries or keys",
    "heads_d_v": "features of all heads' values",
    "d_ff": "hidden feature",
    "max_length": "position",
    "vocabulary": "token",
    "source_vocabulary": "source token",
    "target_vocabulary": "target token",
}
"""Name of an axis -> its meaning; "gold_target" and "gold_target_key" are those of the gold target."""
