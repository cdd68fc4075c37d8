"""The tensors of a trace: for each its op, axes, title, meaning, formula and section of the paper.

catalogue.toml has the entries. A name is that of `reference.note`, with "self" for "self_attention" and "cross" for
"cross_attention": `encoder.0.self.scores`, `decoder.2.cross_norm.output`, `target.embedded`, `logits`. The prefix
"gold." marks tensors of the gold target. `describe` returns the entry of a name.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from glassformer.glassbox.formulas import mathml
from glassformer.glassbox.schema import Op
from glassformer.settings import ModelSettings

GOLD = "gold."


@dataclass(frozen=True)
class Entry:
    """One tensor. `op` is None if it is given, not computed; `formula` is MathML."""

    axes: tuple[str, ...]
    title: str
    words: str
    section: str
    op: Op | None = None
    formula: str = ""


_KINDS = {
    r"(?P<name>(encoder|decoder)\.(self|cross)_mask)": "mask",
    r"(source|target)\.(?P<name>\w+)": "embedding",
    r".+\.(?P<name>residual)": "sublayer",
    r"(encoder|decoder)\.\d+\.(self|cross)\.(?P<name>\w+)": "attention",
    r"(encoder|decoder)\.\d+\.feed_forward\.(?P<name>\w+)": "feed_forward",
    r".+_norm\.(?P<name>\w+)": "norm",
    r"edit\.(?P<name>\w+)": "edit",
    r"(decoder\.\d+\.lens\.)?(?P<name>\w+)": "output",
}
"""The form of a tensor's name -> its kind in catalogue.toml; the first that fits."""


class _Catalogue(NamedTuple):
    """The entries by kind and name. Formulas have the same names, and names of departures."""

    entries: dict[str, Entry]
    formulas: dict[str, str]
    axes: dict[str, str]
    weight_axes: dict[str, tuple[str, ...]]


@cache
def _catalogue() -> _Catalogue:
    kinds = tomllib.loads(Path(__file__).with_name("catalogue.toml").read_text("utf-8"))
    formulas = {name: mathml(formula) for name, formula in kinds.pop("formulas").items()}
    axes, weight_axes = kinds.pop("axes"), {name: tuple(axes) for name, axes in kinds.pop("weight_axes").items()}
    entries = {
        f"{kind}.{name}": Entry(**fields | {"axes": tuple(fields["axes"])})
        for kind, entries_of_kind in kinds.items()
        for name, fields in entries_of_kind.items()
    }
    return _Catalogue(entries, formulas, axes, weight_axes)


def trace_name(name: str) -> str:
    """The name in a trace of a quantity of the reference: "self" and "cross" without "_attention"."""
    return name.replace("_attention", "")


def describe(name: str, model: ModelSettings) -> Entry:
    """The entry of the tensor `name`, with the axes that it has in a trace. Raises KeyError for an unknown name."""
    gold, plain = ("gold_", name.removeprefix(GOLD)) if name.startswith(GOLD) else ("", name)
    entry = _entry(plain, model)
    side = "source" if plain.startswith(("source", "encoder")) else "target"
    key_side = "source" if ".cross." in plain else side
    vocabulary = vocabulary_axis("target", model)
    positions = {"rows": side, "keys": f"{key_side}_key", "vocabulary": vocabulary}
    axes = (positions.get(axis, axis) for axis in entry.axes)
    return replace(entry, axes=tuple(gold + axis if axis in ("target", "target_key") else axis for axis in axes))


def _entry(name: str, model: ModelSettings) -> Entry:
    for form, kind in _KINDS.items():
        if match := re.fullmatch(form, name):
            key = f"{kind}.{match['name']}"
            own_key = _departures(model).get(key, key)
            entries = _catalogue().entries
            return replace(entries.get(own_key) or entries[key], formula=_catalogue().formulas.get(own_key, ""))
    raise KeyError(name)


def _departures(model: ModelSettings) -> dict[str, str]:
    """The entries of this model in the place of others, or their formulas alone."""
    departures = {"feed_forward.activated": f"feed_forward.{model.activation}"}
    if model.positions == "learned":
        departures["embedding.positions"] = "embedding.learned_positions"
    if model.norm == "pre":
        departures["sublayer.residual"] = "sublayer.residual_pre"
    if model.output_bias:
        departures["output.logits"] = departures["output.own_logits"] = "output.logits_with_bias"
    if model.copy_mechanism:
        departures["output.logits"] = "output.logits_with_copies"
    return departures


def vocabulary_axis(side: str, model: ModelSettings) -> str:
    """The axis of the vocabulary of a side."""
    return "vocabulary" if model.tied_embeddings == "all" else f"{side}_vocabulary"


def weight_axes(name: str, model: ModelSettings) -> tuple[str, ...]:
    """The axes of the weights called `name` (a matrix maps rows: y = x Wᵀ)."""
    if name.startswith("copy_mechanism"):
        return ("d_model", "d_model") if name.endswith("weight") else (vocabulary_axis("source", model),)
    *_, module, kind = name.split(".")
    if module.endswith("_norm"):
        return ("d_model",)
    if module in ("source_embedding", "target_embedding", "output_projection"):
        axes = (vocabulary_axis("source" if module == "source_embedding" else "target", model), "d_model")
    else:
        return _catalogue().weight_axes[module][: 1 if kind == "bias" else None]
    return axes[:1] if kind == "bias" else axes


def meaning_of(axis: str) -> str:
    """What the positions of an axis are; "gold_target" and "gold_target_key" belong to the gold target."""
    return _catalogue().axes[axis.removeprefix("gold_")]
