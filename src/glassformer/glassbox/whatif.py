"""Edits of a model or a text: parsed, written, checked and applied. FORMS has an example of each.

`parse_edit` reads one edit and `str(edit)` writes it. `Edits` are several, applied to source ids, weights and the
quantities that the reference notes. Heads, layers, rows and positions count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import TextError, UsageError, nearest, quoted
from glassformer.glassbox.catalogue import GOLD, trace_name
from glassformer.settings import ModelSettings
from glassformer.text import Tokenizer

Array = NDArray[Any]
Weights = Mapping[str, Array]

LARGEST_WEIGHT = 1000  # of an edited attention row


@dataclass(frozen=True)
class Edit:
    """A change; `str(edit)` is how it is written: as its `form`."""

    form: ClassVar[str]

    def __str__(self) -> str:
        return self.form.format(**vars(self))

    def check(self, model: ModelSettings) -> None:
        """Raise UsageError if it does not fit the model. Whether it fits a text is found when it is applied."""


@dataclass(frozen=True)
class SetText(Edit):
    """Another text."""

    text: str
    form = "text {text}"


@dataclass(frozen=True)
class SetToken(Edit):
    """Another source token at a position of the framed source; `text` is one token of the source vocabulary."""

    position: int
    text: str
    form = "token {position}={text}"


@dataclass(frozen=True)
class ForcePrefix(Edit):
    """A prefix that the answer must have."""

    text: str
    form = "prefix {text}"


@dataclass(frozen=True)
class HeadOff(Edit):
    """One head of an attention such as "encoder.0.self"."""

    part: str
    head: int
    form = "head {part} {head} off"

    def check(self, model: ModelSettings) -> None:
        _check_part(self.part, self.head, model)


@dataclass(frozen=True)
class PartOff(Edit):
    """The sublayers of a part: an "attention", the "feed-forward" of a layer, or all of a "layer"."""

    kind: str
    part: str
    form = "{kind} {part} off"

    def check(self, model: ModelSettings) -> None:
        _check_part(self.part, 0 if self.kind == "attention" else None, model)


@dataclass(frozen=True)
class SwitchOff(Edit):
    """What every model has: "positions", "causal" or "scale"."""

    what: str
    form = "{what} off"


@dataclass(frozen=True)
class SetRow(Edit):
    """The attention weights of one head and row; a row of the decoder's self-attention ends at itself."""

    part: str
    head: int
    row: int
    weights: tuple[float, ...]
    form = "attention {part} head {head} row {row} = {weights}"

    def __str__(self) -> str:
        numbers = ",".join(repr(weight).removesuffix(".0") for weight in self.weights)
        return self.form.format(**vars(self) | {"weights": numbers})

    def check(self, model: ModelSettings) -> None:
        _check_part(self.part, self.head, model)
        if not all(abs(weight) <= LARGEST_WEIGHT for weight in self.weights):
            limits = f"numbers between -{LARGEST_WEIGHT} and {LARGEST_WEIGHT}"
            raise UsageError("an attention weight is too large or too small", got=str(self)[:100], expected=limits)


@dataclass(frozen=True)
class Patch(Edit):
    """What the text after its edits has at one position, for the text before them: a head's output, or a layer's."""

    part: str
    head: int | None
    row: int
    form = "patch {part} {head}row {row}"

    def __str__(self) -> str:
        return self.form.format(**vars(self) | {"head": "" if self.head is None else f"head {self.head} "})

    def check(self, model: ModelSettings) -> None:
        _check_part(self.part, self.head, model)

    @property
    def quantity(self) -> str:
        """The name of what is patched; after the residual of a layer comes at most a norm of each row."""
        return f"{self.part}.feed_forward.residual" if self.head is None else f"{self.part}.heads"


def attentions(model: ModelSettings) -> list[str]:
    """The names of all attentions of a model."""
    kinds = {"encoder": ("self",), "decoder": ("self", "cross")}
    return [f"{layer}.{kind}" for layer in layers(model) for kind in kinds[layer.partition(".")[0]]]


def layers(model: ModelSettings) -> list[str]:
    """The names of all layers of a model."""
    encoder = [f"encoder.{i}" for i in range(model.n_encoder_layers)]
    return encoder + [f"decoder.{i}" for i in range(model.n_decoder_layers)]


def _check_part(name: str, head: int | None, model: ModelSettings) -> None:
    """Raise UsageError if there is no such layer, or no such attention where a head is given."""
    kind, valid = ("layer", layers(model)) if head is None else ("attention", attentions(model))
    if name not in valid:
        raise UsageError(f"there is no {kind} {name!r} to edit", hint=nearest(name, valid))
    if head is not None and head >= model.n_heads:
        raise UsageError(f"there is no head {head}", expected=f"0 to {model.n_heads - 1}")


_INDEX = r"\d{1,6}"
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e-?[0-9]+)?")  # one way to read each text: no backtracking


def _numbers(text: str) -> tuple[float, ...]:
    """Numbers between commas, each after at most one space. Raises UsageError for the first that is not a number."""
    numbers = [part.removeprefix(" ") for part in text.split(",")]
    for number in numbers:
        if not _NUMBER.fullmatch(number):
            limits = "numbers between commas, as in 0,0.5,1e-3"
            raise UsageError("cannot read a weight of an edit", got=repr(number[:80]), expected=limits)
    return tuple(map(float, numbers))


_FORMS: tuple[tuple[str, type[Edit]], ...] = (
    (r"text (.+)", SetText),
    (rf"patch (\S+) ()row ({_INDEX})", Patch),
    (rf"patch (\S+) head ({_INDEX}) row ({_INDEX})", Patch),
    (rf"token ({_INDEX}) ?=(.+)", SetToken),
    (r"prefix (.+)", ForcePrefix),
    (rf"head (\S+) ({_INDEX}) off", HeadOff),
    (r"(attention|feed-forward|layer) (\S+) off", PartOff),
    (r"(positions|causal|scale) off", SwitchOff),
    (rf"attention (\S+) head ({_INDEX}) row ({_INDEX}) ?=(.+)", SetRow),
)
_READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("position", "row"), int),
    "head": lambda number: int(number) if number else None,
    "part": trace_name,
    "weights": _numbers,
}
"""How the parts of a form are read; all others are texts."""
FORMS = (
    "text x",  # another text
    "token 3=x",  # another source token at position 3 (0 is <bos>)
    "prefix x",  # the answer has to start with this
    "head encoder.0.self 2 off",  # the head's columns of W_O become 0
    "attention decoder.1.cross off",  # the output of the sublayer is 0; residual and norm stay
    "feed-forward decoder.1 off",  # the same
    "layer encoder.2 off",  # all sublayers of the layer
    "positions off",  # nothing is added to the embeddings
    "causal off",  # a decoder row attends to later rows too
    "scale off",  # scores are not divided by √d_k
    "patch decoder.0.cross head 1 row 2",  # with "text" or "token": only this head's output is that of the other text
    "patch encoder.0 row 2",  # the same for the output of a layer
    "attention decoder.0.cross head 1 row 2 = 0,1,0",  # these weights instead of those computed
)
"""An example of each form of an edit."""


def parse_edit(text: str) -> Edit:
    """Parse an edit. Raises UsageError with the nearest form."""
    for pattern, make in _FORMS:
        if match := re.fullmatch(pattern, text.lstrip(), flags=re.DOTALL):
            parts = zip((field.name for field in fields(make)), match.groups(), strict=True)
            return make(*(_READ.get(name, str)(part) for name, part in parts))
    raise UsageError(f"cannot read the edit {text[:80]!r}", hint=nearest(text, FORMS))


@dataclass(frozen=True)
class Edits:
    """Several edits at once."""

    edits: tuple[Edit, ...] = ()

    @classmethod
    def of(cls, edits: Sequence[Edit | str]) -> Edits:
        """Return edits; texts are parsed. Raises UsageError for text that is not an edit."""
        if isinstance(edits, str):
            raise UsageError("the edits are not a list", got=quoted(edits), hint="edits=[edit]")
        return cls(tuple(parse_edit(edit) if isinstance(edit, str) else edit for edit in edits))

    def check(self, model: ModelSettings) -> None:
        """Raise UsageError for the first edit that does not fit the model."""
        for edit in self.edits:
            edit.check(model)

    @property
    def prefix(self) -> str:
        """The forced prefix of the answer; the last one wins."""
        return next((edit.text for edit in reversed(self.edits) if isinstance(edit, ForcePrefix)), "")

    @property
    def text(self) -> str | None:
        """The text that replaces the given one; the last one wins."""
        return next((edit.text for edit in reversed(self.edits) if isinstance(edit, SetText)), None)

    @property
    def supported_by_pytorch(self) -> bool:
        """Whether the edits change only text and weights, so that the PyTorch model supports them."""
        return not any(isinstance(edit, SwitchOff | SetRow | Patch) for edit in self.edits)

    @property
    def without_patches(self) -> Edits:
        """The edits that make the text and the model that patches are from."""
        return Edits(tuple(edit for edit in self.edits if not isinstance(edit, Patch)))

    def source_ids(self, ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
        """Framed source ids with the edited tokens. Raises UsageError for a position or token that does not exist."""
        edited = list(ids)
        for edit in self.edits:
            if isinstance(edit, SetToken):
                first = tokenizer.settings.n_frame_tokens - 1
                if not first <= edit.position < len(ids) - 1:
                    valid = f"{first} to {len(ids) - 2}; {'<bos> and ' if first else ''}<eos> stay"
                    raise UsageError(f"there is no source token {edit.position} to edit", expected=valid)
                edited[edit.position] = _token_id(edit.text, tokenizer)
        return edited

    def weights(self, weights: Weights, model: ModelSettings) -> dict[str, Array]:
        """The weights; a part that is switched off is zero in a copy."""
        edited = dict(weights)
        for edit in self.edits:
            if isinstance(edit, HeadOff):
                name = f"{edit.part}_attention.w_o.weight"
                edited[name] = edited[name].copy()
                edited[name][:, edit.head * model.d_v : (edit.head + 1) * model.d_v] = 0
            elif isinstance(edit, PartOff):
                part = f"{edit.part}.feed_forward." if edit.kind == "feed-forward" else f"{edit.part}."
                for name in weights:
                    if trace_name(name).startswith(part) and re.search(r"\.(w_o|w_2)\.", name):
                        edited[name] = np.zeros_like(weights[name])
        return edited

    def quantity(self, full_name: str, value: Any, other: Mapping[str, Array], positions: Mapping[int, int]) -> Any:
        """The value of a noted quantity after the edits; the same object if no edit concerns it.

        Patches are from `other`, the quantities of the text after its edits. `positions` maps source positions of the
        text before its edits to positions of the text after them.
        """
        name = full_name.removeprefix(GOLD)
        for edit in self.edits:
            if isinstance(edit, Patch) and name == edit.quantity and edit.row < value.shape[-2]:
                row = positions.get(edit.row) if name.startswith("encoder") else edit.row
                if row is None:
                    what = f"source position {edit.row} has no counterpart in the other text"
                    raise UsageError(what, expected=f"one of {', '.join(map(str, positions))}")
                value, head = value.copy(), () if edit.head is None else (edit.head,)
                value[(*head, edit.row)] = other[full_name][(*head, row)]
            elif isinstance(edit, SwitchOff):
                value = _switched_off(edit.what, name, value)
            elif isinstance(edit, SetRow) and name == f"{edit.part}.weights" and edit.row < value.shape[1]:
                value = _with_row(edit, value)
        return value

    def check_rows(self, source_rows: int, target_rows: int) -> None:
        """Raise UsageError for an attention row after the last one."""
        for edit in self.edits:
            if isinstance(edit, SetRow | Patch):
                rows = source_rows if edit.part.startswith("encoder") else target_rows
                if edit.row >= rows:
                    raise UsageError(f"there is no row {edit.row} in {edit.part!r}", expected=f"0 to {rows - 1}")


def counterparts(ids: Sequence[int], other_ids: Sequence[int]) -> dict[int, int]:
    """Map positions of one text to another: the same position, or where lengths differ, counted from both ends.

    From each end this stops at the first difference; positions between have no counterpart.
    """
    if len(ids) == len(other_ids):
        return dict(zip(range(len(ids)), range(len(ids)), strict=True))
    n_shorter, shift = min(len(ids), len(other_ids)), len(other_ids) - len(ids)
    first = next((i for i in range(n_shorter) if ids[i] != other_ids[i]), n_shorter)
    n_rest = n_shorter - first
    last = next((i for i in range(n_rest) if ids[-1 - i] != other_ids[-1 - i]), n_rest)
    return {i: i for i in range(first)} | {i: i + shift for i in range(len(ids) - last, len(ids))}


def _token_id(text: str, tokenizer: Tokenizer) -> int:
    ordinary_id = tokenizer.vocabulary.lookup(text)
    if ordinary_id is not None:
        return ordinary_id
    tokens = tokenizer.vocabulary.input_tokens
    if text in tokens:
        return tokenizer.vocabulary.input_ids[tokens.index(text)]
    try:
        ids = tokenizer.without_inputs().encode(text)
    except TextError:
        ids = []
    if len(ids) != 1 or ids[0] in tokenizer.vocabulary.special_ids:
        hint = nearest(text, tokenizer.vocabulary.ordinary)
        raise UsageError(f"{text!r} is not one token of the source vocabulary", hint=hint)
    return ids[0]


def _switched_off(what: str, name: str, value: Any) -> Any:
    if what == "positions" and name in ("source.positions", "target.positions"):
        return np.zeros_like(value)
    if what == "causal" and name == "decoder.self_mask":
        return np.ones_like(value)
    if what == "scale" and re.fullmatch(r"(encoder|decoder)\.\d+\.(self|cross)\.scale", name):
        return np.float64(1.0)
    return value


def _with_row(edit: SetRow, weights: Array) -> Array:
    """The weights `[H T S]` with one row replaced; in the decoder's self-attention a row ends at itself."""
    is_causal = edit.part.startswith("decoder") and edit.part.endswith("self")
    length = edit.row + 1 if is_causal else weights.shape[2]
    if len(edit.weights) != length:
        raise UsageError(
            f"row {edit.row} of {edit.part!r} has {length} weights", got=f"{len(edit.weights)} in {str(edit)!r}"
        )
    edited = weights.copy()
    edited[edit.head, edit.row] = 0
    edited[edit.head, edit.row, :length] = edit.weights
    return edited
