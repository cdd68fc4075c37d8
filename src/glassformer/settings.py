"""Every choice that a run makes, as small frozen settings; recipes are the same settings as TOML.

    Settings
    ├── data      DataSettings       which cells are the pairs, which rows are held out
    ├── tokens    TokenSettings      how text becomes tokens, one SideSettings for each side
    ├── model     ModelSettings      the Transformer; the defaults are the paper's base model
    ├── training  TrainingSettings   batches, rate, stopping, what is kept
    └── decoding  DecodingSettings   the search

A field is one line and one sentence. An unknown name or a wrong value is a `SettingsError` that names the nearest
valid one. Departures from Vaswani et al. 2017 are tagged `Departure:` where they are made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from glassformer.errors import SettingsError, nearest

Positive = Annotated[int, Field(ge=1)]
NotNegative = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]

TokenKind = Literal["characters", "words", "subwords", "bytes"]
Normalization = Literal["none", "NFC", "NFD", "NFKC"]
Metric = Literal["exact_match", "token_error_rate", "bleu", "chrf", "loss"]
Precision = Literal["auto", "float32", "bfloat16"]


class _Frozen(BaseModel):
    """What all settings share: frozen, no unknown names, errors in our own words."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
    section: ClassVar[str] = ""

    def __init__(self, **values: Any) -> None:
        for name in values:
            if name not in type(self).model_fields:
                raise SettingsError(
                    f"there is no setting {self._full(name)!r}", hint=nearest(name, type(self).model_fields)
                )
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._explain(error) from None

    @classmethod
    def _full(cls, name: str) -> str:
        return f"{cls.section}.{name}" if cls.section else name

    @classmethod
    def _explain(cls, error: ValidationError) -> SettingsError:
        first = error.errors()[0]
        location = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        if not location:
            return SettingsError(f"these settings do not fit together: {message}", where=cls.section or None)
        field = cls.model_fields.get(str(first["loc"][0]))
        choices = get_args(field.annotation) if field and first["type"] == "literal_error" else ()
        return SettingsError(
            f"the setting {cls._full(location)!r} cannot take this value",
            got=repr(first["input"]),
            expected=message[:1].lower() + message[1:],
            hint=nearest(str(first["input"]), [str(choice) for choice in choices]) if choices else None,
        )


class DataSettings(_Frozen):
    """Which cells of the table are the pairs, and which rows are held out."""

    section: ClassVar[str] = "data"

    source: str | int | None = Field(None, description="column of the source, by name or position from 0")
    target: str | int | None = Field(None, description="column of the target; both unset: the first two")
    header: Literal["auto", "yes", "no"] = Field("auto", description="whether the first row names the columns")
    bad_rows: Literal["stop", "skip"] = Field("stop", description="what a damaged row does")
    max_source_length: Positive = Field(512, description="longest source in tokens; a longer row is not kept")
    max_target_length: Positive = Field(512, description="longest target in tokens; a longer row is not kept")
    valid_share: Share = Field(0.1, description="share of the rows that is held out for validation")
    max_valid_rows: Positive = Field(1000, description="most rows that are held out for validation")


class SideSettings(_Frozen):
    """How the text of one side becomes tokens."""

    section: ClassVar[str] = "tokens"

    kind: TokenKind = Field("subwords", description="what a token is")
    preset: Literal["none", "ascii68"] = Field("none", description="a fixed character vocabulary")
    algorithm: Literal["bpe", "unigram"] = Field("bpe", description="how subwords are learned")
    vocabulary_size: Positive = Field(37_000, description="most tokens of a subword or word vocabulary")
    min_count: Positive = Field(1, description="a rarer character or word is unknown")
    unknown: bool = Field(True, description="whether there is an <unk>; without it an unknown token is an error")
    normalization: Normalization = Field("NFC", description="Unicode normal form of the text")
    lowercase: bool = Field(False, description="whether the text is lower-cased")


class TokenSettings(_Frozen):
    """How text becomes tokens."""

    section: ClassVar[str] = "tokens"

    source: SideSettings = Field(default_factory=SideSettings, description="the source side")
    target: SideSettings = Field(default_factory=SideSettings, description="the target side")
    shared: bool = Field(True, description="whether both sides share one vocabulary")

    @model_validator(mode="after")
    def _sides_agree(self) -> Self:
        if self.shared and self.source != self.target:
            raise ValueError("tokens.shared needs the same settings for tokens.source and tokens.target")
        return self


class ModelSettings(_Frozen):
    """The Transformer. `ModelSettings()` is the base model of the paper (table 3)."""

    section: ClassVar[str] = "model"

    d_model: Positive = Field(512, description="width of every layer's output")
    d_ff: Positive = Field(2048, description="inner width of the feed-forward network")
    n_heads: Positive = Field(8, description="attention heads")
    d_k: Positive = Field(
        default_factory=lambda data: max(1, data.get("d_model", 512) // data.get("n_heads", 8)),
        description="width of a query and key of one head; unset: d_model / n_heads",
    )
    d_v: Positive = Field(
        default_factory=lambda data: max(1, data.get("d_model", 512) // data.get("n_heads", 8)),
        description="width of a value of one head; unset: d_model / n_heads",
    )
    n_encoder_layers: Positive = Field(6, description="depth of the encoder")
    n_decoder_layers: Positive = Field(6, description="depth of the decoder")
    dropout: Share = Field(0.1, description="on embeddings + positions and on every sublayer's output")
    attention_dropout: Share = Field(0.0, description="on attention weights (Departure: the paper has none)")
    feed_forward_dropout: Share = Field(0.0, description="inside the feed-forward (Departure: the paper has none)")
    activation: Literal["relu", "gelu"] = Field("relu", description="of the feed-forward")
    norm: Literal["post", "pre"] = Field("post", description="LayerNorm after the residual, or before the sublayer")
    norm_eps: float = Field(1e-5, gt=0, description="added to the variance, inside the root")
    positions: Literal["sinusoidal", "learned"] = Field("sinusoidal", description="kind of position encoding")
    position_base: float = Field(10_000.0, gt=1, description="base n of the sinusoids")
    max_length: Positive = Field(512, description="longest sequence of learned positions")
    scale_embeddings: bool = Field(True, description="embeddings times sqrt(d_model)")
    tied_embeddings: Literal["none", "target", "all"] = Field(
        "all", description="which share one matrix: none, target in/out, or source too"
    )
    attention_bias: bool = Field(False, description="a bias in the four projections of attention")

    @model_validator(mode="after")
    def _sinusoids_fit(self) -> Self:
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoidal positions come in pairs, so d_model must be even, not {self.d_model}")
        return self


class TrainingSettings(_Frozen):
    """Batches, rate, stopping, and what is kept."""

    section: ClassVar[str] = "training"

    seed: NotNegative = Field(1, description="of the split, the weights, the dropout and the order of batches")
    steps: Positive = Field(100_000, description="most updates of the weights")
    max_minutes: float | None = Field(None, gt=0, description="most minutes of training, on the clock")
    batch_tokens: Positive = Field(25_000, description="most tokens of a batch on either side, padding counted")
    accumulate: Positive = Field(1, description="batches added up before an update")
    schedule: Literal["noam", "inverse_sqrt", "cosine", "constant"] = Field("noam", description="of the rate")
    learning_rate: float = Field(
        1.0, gt=0, description="highest rate; with noam the factor before d_model^-0.5 · min(s^-0.5, s·w^-1.5)"
    )
    warmup_steps: NotNegative = Field(4000, description="updates until the highest rate")
    beta_1: Share = Field(0.9, description="Adam: memory of the gradient")
    beta_2: Share = Field(0.98, description="Adam: memory of its square")
    epsilon: float = Field(1e-9, gt=0, description="Adam: added to the root")
    weight_decay: float = Field(0.0, ge=0, description="decoupled (Departure: the paper has none)")
    label_smoothing: Share = Field(0.1, description="mass spread evenly over the whole vocabulary")
    clip_norm: float = Field(0.0, ge=0, description="largest norm of the gradient, 0: no limit")
    precision: Precision = Field("auto", description="of the matrix products; weights stay float32")
    validate_every: Positive = Field(1000, description="updates between two validations")
    validate_beams: Positive = Field(1, description="beam width of the search in validation")
    validate_rows: Positive = Field(500, description="most held-out rows that a validation translates")
    metric: Metric = Field("exact_match", description="what chooses the best weights and stops early")
    patience: NotNegative = Field(0, description="validations without a better metric before stopping, 0: never")
    average_last: NotNegative = Field(5, description="last validated weights whose mean is tried, 0: none")


class DecodingSettings(_Frozen):
    """The search for the best target."""

    section: ClassVar[str] = "decoding"

    num_beams: Positive = Field(5, description="beam width, 1: greedy search (Departure: the paper has 4)")
    num_return_sequences: Positive = Field(1, description="answers for each text (n-best)")
    length_alpha: float = Field(0.6, ge=0, description="length penalty ((5 + length) / 6)^alpha (Wu et al. 2016)")
    max_new_tokens: Positive | None = Field(None, description="longest answer; unset: from the training lengths")
    do_sample: bool = Field(False, description="draw tokens by chance instead of searching")
    temperature: float = Field(1.0, gt=0, description="sampling: below 1 sharpens, above 1 flattens")
    top_k: NotNegative = Field(0, description="sampling: only the k likeliest tokens, 0: all")
    top_p: float = Field(1.0, gt=0, le=1, description="sampling: only the likeliest tokens of this mass")
    seed: NotNegative = Field(1, description="sampling: where chance starts")

    @model_validator(mode="after")
    def _answers_fit(self) -> Self:
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"a beam of {self.num_beams} cannot return {self.num_return_sequences} answers: "
                "num_beams must be at least num_return_sequences"
            )
        return self


class Settings(_Frozen):
    """All of them; what a recipe holds."""

    data: DataSettings = Field(default_factory=DataSettings)
    tokens: TokenSettings = Field(default_factory=TokenSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    decoding: DecodingSettings = Field(default_factory=DecodingSettings)

    @model_validator(mode="after")
    def _tying_fits(self) -> Self:
        if self.model.tied_embeddings == "all" and not self.tokens.shared:
            raise ValueError('model.tied_embeddings="all" needs one vocabulary: set tokens.shared=true, or "target"')
        return self

    def to_toml(self) -> str:
        """The complete recipe. A setting that is unset (None) is left out, since TOML has no word for it."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))


# --- Nested dicts: recipes, --set, advice -------------------------------------------------------------------------


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Nested dicts laid over each other; a later one wins."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            old = merged.get(key)
            merged[key] = merge(old if isinstance(old, dict) else {}, value) if isinstance(value, Mapping) else value
    return merged


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """`["training.steps=500"]` as `{"training": {"steps": 500}}`; values are TOML, or plain text.

    Raises SettingsError for text without `=` and for a name that no section has.
    """
    parsed: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        if not equals:
            raise SettingsError(f"cannot read the setting {assignment!r}", expected="section.name=value")
        keys = path.strip().split(".")
        _check_path(keys)
        branch: Any = _toml_value(text.strip())
        for key in reversed(keys):
            branch = {key: branch}
        parsed = merge(parsed, branch)
    return parsed


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _check_path(keys: Sequence[str]) -> None:
    """Raise SettingsError unless the keys lead from Settings to a single field."""
    room: type[BaseModel] = Settings
    for depth, key in enumerate(keys):
        field = room.model_fields.get(key)
        path = ".".join(keys[: depth + 1])
        if field is None:
            everywhere = [full for full in all_settings() if full.rsplit(".", 1)[-1] == keys[-1]]
            names = everywhere or [".".join([*keys[:depth], name]) for name in room.model_fields]
            raise SettingsError(f"there is no setting {'.'.join(keys)!r}", hint=nearest(path, names))
        inner = field.annotation
        is_room = isinstance(inner, type) and issubclass(inner, BaseModel)
        if is_room == (depth == len(keys) - 1):
            names = [full for full in all_settings() if full.startswith(path if is_room else path.rsplit(".", 1)[0])]
            raise SettingsError(f"{'.'.join(keys)!r} is not a single setting", hint=nearest(path, names))
        if is_room:
            room = inner  # type: ignore[assignment]


def all_settings(room: type[BaseModel] = Settings, prefix: str = "") -> dict[str, str]:
    """Full name -> description of every single setting, in order."""
    found: dict[str, str] = {}
    for name, field in room.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found |= all_settings(inner, f"{prefix}{name}.")
        else:
            found[prefix + name] = field.description or ""
    return found


def read_recipe(path: Path) -> dict[str, Any]:
    """A recipe file as a nested dict (it may be partial).

    Raises SettingsError when it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError("cannot read the recipe", where=str(path), got=str(error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("the recipe is not valid TOML", where=str(path), got=str(error)) from None


# --- The paper's models (table 3) ---------------------------------------------------------------------------------


def paper_base() -> ModelSettings:
    """The base model."""
    return ModelSettings()


def paper_big() -> ModelSettings:
    """The big model."""
    return ModelSettings(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)
