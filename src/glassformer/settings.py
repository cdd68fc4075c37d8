"""The settings of a run, as frozen models; a recipe is the same settings in TOML.

    Settings
    ├── data      DataSettings       columns of the pairs, and rows that are held out
    ├── tokens    TokenSettings      how text becomes tokens, one SideSettings for each side
    ├── model     ModelSettings      the Transformer; the defaults are the paper's base model
    ├── training  TrainingSettings   batches, learning rate, stopping, files
    └── decoding  DecodingSettings   the search

A field is one line with its description. An unknown name or a wrong value is a `SettingsError` that names the
nearest valid one. Departures from Vaswani et al. 2017 are tagged `Departure:` where they are made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from glassformer.errors import SettingsError, nearest, quoted

Positive = Annotated[int, Field(ge=1, lt=2**53)]  # what JSON and every library can count
NotNegative = Annotated[int, Field(ge=0, lt=2**53)]
Fraction = Annotated[float, Field(ge=0, lt=1)]

# Bounds above any real model, for numbers that cost time or memory by themselves; whether memory suffices is checked in
# planning/memory.py and inference/engines/memory.py.
Width = Annotated[int, Field(ge=1, le=2**20)]
Depth = Annotated[int, Field(ge=1, le=1000)]
Beams = Annotated[int, Field(ge=1, le=10_000)]
Column = str | int  # a name, or a position from 0

FRAME_TOKENS = 2  # `<bos>` and `<eos>`, around the tokens of every target, and of sources with `bos`

TokenKind = Literal["characters", "words", "subwords", "bytes", "sentencepiece"]
Normalization = Literal["none", "NFC", "NFD", "NFKC"]
Metric = Literal["exact_match", "token_error_rate", "bleu", "chrf", "loss"]
Precision = Literal["auto", "float32", "bfloat16"]


def _setting(default: Any, description: str, **limits: Any) -> Any:
    """Return a field. Typed as Any, because type checkers know a default only from a plain value or function."""
    return Field(default, description=description, **limits)


class _Frozen(BaseModel):
    """Base of all settings: frozen, no unknown names, finite numbers, SettingsError."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)
    section: ClassVar[str] = ""

    def __init__(self, /, **values: Any) -> None:
        for name in values:
            if name not in type(self).model_fields:
                full = self._full(name)
                valid = [self._full(setting) for setting in type(self).model_fields]
                raise SettingsError(f"there is no setting {quoted(full)}", hint=nearest(full, valid))
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
            got=quoted(first["input"]),
            expected=message[:1].lower() + message[1:],
            hint=nearest(quoted(first["input"]).strip("'"), [str(choice) for choice in choices]) if choices else None,
        )


class DataSettings(_Frozen):
    """The columns of the pairs, what is dropped from the table to train on, and the rows that are held out."""

    section: ClassVar[str] = "data"

    source: Column | tuple[Column, ...] | None = _setting(None, "source column: name or position from 0; or several")
    features: tuple[Column, ...] = _setting((), "further source columns of symbols: a list of COLUMN or NAME=COLUMN")
    target: str | int | None = _setting(
        None, "target column; both unset: by usual names, or the only two columns of text"
    )
    header: Literal["auto", "yes", "no"] = _setting("auto", "whether the first row holds the column names")
    bad_rows: Literal["stop", "skip"] = _setting("stop", "stop at a damaged row, or skip it (recorded in the ledger)")
    max_source_length: Positive = _setting(512, "maximum number of tokens in a source; longer rows are left out")
    max_target_length: Positive = _setting(512, "maximum number of tokens in a target; longer rows are left out")
    strip_controls: bool = _setting(False, "training: whether control and invisible characters are removed")
    drop_contradictions: bool = _setting(False, "training: whether a source keeps its target of highest frequency only")
    drop_duplicates: bool = _setting(False, "training: whether rows that repeat an earlier one are dropped")
    valid_fraction: Fraction = _setting(0.1, "fraction of the rows held out for validation")
    max_valid_rows: Positive = _setting(1000, "maximum number of rows held out for validation")
    split_seed: NotNegative | None = _setting(None, "random seed of the rows held out; unset: training.seed")

    @field_validator("source", "features", "target")
    @classmethod
    def _are_columns(cls, value: Any) -> Any:
        for column in value if isinstance(value, tuple) else (value,):
            if isinstance(column, str) and any("\ud800" <= character <= "\udfff" for character in column):
                raise ValueError("a name that is valid UTF-8, or a position from 0")
            if isinstance(column, int) and column >= 2**53:
                raise ValueError("a position of fewer digits, or a name")
        return value

    @property
    def sources(self) -> tuple[Column, ...]:
        """The source columns that are set."""
        columns = self.source if isinstance(self.source, tuple) else (self.source,)
        return tuple(column for column in columns if column is not None)


class SideSettings(_Frozen):
    """The tokens of one side."""

    section: ClassVar[str] = "tokens.(source|target)"

    kind: TokenKind = _setting("subwords", "kind of token; sentencepiece: of an imported model")
    preset: Literal["none", "ascii68"] = _setting("none", "fixed character vocabulary; ascii68: 65 ASCII characters")
    algorithm: Literal["bpe", "unigram"] = _setting("bpe", "algorithm that learns the subwords")
    vocabulary_size: Positive = _setting(
        37_000, "maximum number of tokens in a subword or word vocabulary", le=10_000_000
    )
    min_count: Positive = _setting(1, "minimum count of a character or word in training; a rarer one is unknown")
    unknown: bool = _setting(True, "whether the vocabulary has <unk>; without it an unknown token is an error")
    normalization: Normalization = _setting("NFC", "Unicode normalization form of the text")
    lowercase: bool = _setting(False, "whether the text is lowercased")
    trim: bool = _setting(False, "whether white space at the ends of a source is removed; a target is kept as it is")
    bos: bool = _setting(True, "whether <bos> is before a text; sources of MarianMT have none (Departure: false)")

    def as_target(self) -> SideSettings:
        """Return the settings of a target with the vocabulary of this source."""
        return self.model_copy(update={"bos": True, "trim": False})

    @property
    def n_frame_tokens(self) -> int:
        """The number of special tokens around a text: `<bos>`, if it has one, and `<eos>`."""
        return FRAME_TOKENS if self.bos else FRAME_TOKENS - 1


class TokenSettings(_Frozen):
    """How text becomes tokens."""

    section: ClassVar[str] = "tokens"

    shared: bool = _setting(True, "whether both sides share one vocabulary")
    source: SideSettings = Field(default_factory=SideSettings, description="the source side")
    target: SideSettings = Field(default_factory=SideSettings, description="the target side")

    @model_validator(mode="after")
    def _sides_agree(self) -> Self:
        if self.target != self.target.as_target():
            raise ValueError("a target starts with <bos>, and is never trimmed: set bos=true and trim=false for it")
        if self.shared and self.source.as_target() != self.target:
            raise ValueError("tokens.shared needs the same settings for tokens.source and tokens.target")
        return self


def _head_width(settings: dict[str, int]) -> int:
    return max(1, settings.get("d_model", 512) // settings.get("n_heads", 8))


class ModelSettings(_Frozen):
    """The Transformer. `ModelSettings()` is the base model of the paper (table 3)."""

    section: ClassVar[str] = "model"

    d_model: Width = _setting(512, "width of the embeddings and of every sublayer's output")
    d_ff: Width = _setting(2048, "inner width of the feed-forward network")
    n_heads: Width = _setting(8, "number of attention heads")
    d_k: Width = Field(
        default_factory=_head_width, description="width of a query and a key in one head; unset: d_model / n_heads"
    )
    d_v: Width = Field(
        default_factory=_head_width, description="width of a value in one head; unset: d_model / n_heads"
    )
    n_encoder_layers: Depth = _setting(6, "number of encoder layers")
    n_decoder_layers: Depth = _setting(6, "number of decoder layers")
    dropout: Fraction = _setting(0.1, "dropout probability on embeddings + positions and on every sublayer's output")
    attention_dropout: Fraction = _setting(0.0, "dropout probability on attention weights (Departure: above 0)")
    feed_forward_dropout: Fraction = _setting(0.0, "dropout probability inside the feed-forward (Departure: above 0)")
    activation: Literal["relu", "gelu", "swish"] = _setting(
        "relu", "activation of the feed-forward network (Departure: gelu, swish)"
    )
    norm: Literal["post", "pre"] = _setting(
        "post", "LayerNorm after the residual connection, or before the sublayer (Departure: pre)"
    )
    norm_eps: float = _setting(1e-5, "LayerNorm ε: added to the variance, inside the square root", gt=0)
    positions: Literal["sinusoidal", "learned"] = _setting("sinusoidal", "position encoding; the paper has both")
    position_base: float = _setting(10_000.0, "base n of the wavelengths of sinusoidal positions", gt=1)
    max_length: Positive = _setting(512, "maximum sequence length with learned positions")
    scale_embeddings: bool = _setting(True, "whether embeddings are multiplied by sqrt(d_model) (Departure: false)")
    tied_embeddings: Literal["none", "target", "all"] = _setting(
        "all",
        "target: target embedding and output layer share one matrix; all: source embedding too (Departure: not all)",
    )
    attention_bias: bool = _setting(False, "whether the four projections of attention have a bias (Departure: true)")
    output_bias: bool = _setting(False, "whether the output projection has a bias (Departure: true)")
    copy_mechanism: bool = _setting(False, "whether source tokens can be copied (Departure: true, Gu et al. 2016)")

    @model_validator(mode="after")
    def _sinusoids_fit(self) -> Self:
        if self.positions == "sinusoidal" and self.d_model % 2:
            raise ValueError(f"sinusoids come in pairs, so d_model must be even, not {self.d_model}")
        return self

    @property
    def n_positions(self) -> int | None:
        """The number of positions where they are learned; None for sinusoids, which have no end."""
        return self.max_length if self.positions == "learned" else None


class TrainingSettings(_Frozen):
    """Batches, learning rate, stopping, and the files that are kept."""

    section: ClassVar[str] = "training"

    seed: NotNegative = _setting(1, "random seed of the split, the weights, the dropout and the order of batches")
    steps: Positive = _setting(100_000, "maximum number of steps (updates of the weights)")
    max_minutes: float | None = _setting(None, "maximum minutes of training; a wsd schedule decays by then", gt=0)
    batch_tokens: Positive = _setting(25_000, "maximum number of tokens in a batch on either side, padding included")
    accumulate: Positive = _setting(1, "number of batches whose gradients are accumulated for one step")
    batch_parts: NotNegative = _setting(
        0, "number of parts of a batch that a CPU computes at the same time; 0: one for each core, if that is faster"
    )
    schedule: Literal["noam", "inverse_sqrt", "cosine", "wsd", "constant"] = _setting(
        "noam", "schedule of the learning rate; wsd: warm-up, stable, decay (Departure: any but noam)"
    )
    learning_rate: float = _setting(
        1.0,
        "maximum learning rate; noam: factor of d_model^-0.5 · min(s^-0.5, s·w^-1.5) at step s, w warmup steps",
        gt=0,
    )
    warmup_steps: NotNegative = _setting(4000, "number of steps until the maximum learning rate")
    beta_1: Fraction = _setting(0.9, "Adam β₁: decay rate of the running mean of the gradient")
    beta_2: Fraction = _setting(0.98, "Adam β₂: decay rate of the running mean of the squared gradient")
    epsilon: float = _setting(1e-9, "Adam ε: added to the square root in the denominator", gt=0)
    weight_decay: float = _setting(0.0, "decoupled weight decay (Departure: above 0)", ge=0)
    label_smoothing: Fraction = _setting(0.1, "probability spread evenly over the whole vocabulary")
    clip_norm: float = _setting(0.0, "maximum norm of the gradient; 0: no clipping (Departure: above 0)", ge=0)
    precision: Precision = _setting("auto", "precision of the matrix products; the weights stay float32")
    recompute: bool = _setting(False, "whether the backward pass recomputes activations in layers: less memory")
    validate_every: Positive = _setting(1000, "number of steps between two validations")
    validate_beams: Beams = _setting(1, "beam width of the search in validation")
    validate_rows: Positive = _setting(
        500, "maximum number of held-out rows that a validation translates; the choice of weights at the end: all"
    )
    metric: Metric = _setting("exact_match", "metric that selects the best weights and decides on early stopping")
    patience: NotNegative = _setting(
        0, "number of validations without a gain before training stops, or a wsd schedule decays; 0: never"
    )
    keep_snapshots: NotNegative = _setting(5, "number of snapshots, after 1/2, 1/4, 1/8 … of the steps; 0: none", le=60)
    average_last: NotNegative = _setting(5, "number of last validated weights whose average is tried; 0: none")


class DecodingSettings(_Frozen):
    """The search for the best target."""

    section: ClassVar[str] = "decoding"

    num_beams: Beams = _setting(5, "beam width; 1: greedy search (Departure: the paper has 4)")
    num_return_sequences: Positive = _setting(1, "number of answers for each text (n-best)", le=100_000)
    length_alpha: float = _setting(0.6, "length penalty ((5 + length) / 6)^alpha (Wu et al. 2016)", ge=0, le=10)
    max_new_tokens: Positive | None = _setting(
        None,
        "maximum number of tokens; unset: from the training lengths (Departure: the paper has source length + 50)",
        le=1_000_000,
    )
    do_sample: bool = _setting(False, "whether tokens are sampled instead of searched for")
    temperature: float = _setting(1.0, "sampling: below 1 sharpens the distribution, above 1 flattens it", gt=0)
    top_k: NotNegative = _setting(0, "sampling: only the k most probable tokens; 0: all")
    top_p: float = _setting(1.0, "sampling: only the most probable tokens whose probabilities sum to top_p", gt=0, le=1)
    seed: NotNegative = _setting(1, "sampling: random seed")

    @model_validator(mode="after")
    def _answers_fit(self) -> Self:
        if not self.do_sample and self.num_return_sequences > self.num_beams:
            raise ValueError(
                f"a beam of {self.num_beams} cannot return {self.num_return_sequences} answers: "
                "num_beams must be at least num_return_sequences"
            )
        return self

    def override(self, changes: Mapping[str, Any]) -> DecodingSettings:
        """Return these settings with some changed; every search request, of any origin, is made here.

        `num_beams` must be at least `num_return_sequences`: when only one of them is given and they conflict, the other
        follows it. Raises SettingsError for unknown names, wrong values, and two given values that conflict.
        """
        if not changes:
            return self
        valid = DecodingSettings(**{**changes, "do_sample": True}).model_dump(include=set(changes) - {"do_sample"})
        values = self.model_dump() | dict(changes) | valid
        n_beams, n_answers = values["num_beams"], values["num_return_sequences"]
        if n_answers > n_beams and not values["do_sample"]:
            if "num_beams" not in changes:
                values["num_beams"] = n_answers
            elif "num_return_sequences" not in changes:
                values["num_return_sequences"] = n_beams
        return DecodingSettings(**values)


class Settings(_Frozen):
    """All settings: the content of a recipe."""

    data: DataSettings = Field(default_factory=DataSettings)
    tokens: TokenSettings = Field(default_factory=TokenSettings)
    model: ModelSettings = Field(default_factory=ModelSettings)
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    decoding: DecodingSettings = Field(default_factory=DecodingSettings)

    @model_validator(mode="after")
    def _tying_fits(self) -> Self:
        if self.model.tied_embeddings == "all" and not self.tokens.shared:
            raise ValueError('tied_embeddings="all" needs one vocabulary: set tokens.shared=true, or "target"')
        return self

    @property
    def split_seed(self) -> int:
        """The random seed of the rows that are held out."""
        return self.training.seed if self.data.split_seed is None else self.data.split_seed

    @property
    def max_source_tokens(self) -> int:
        """The maximum number of tokens of a source, without its frame."""
        return self._within_positions(self.data.max_source_length, self.tokens.source.n_frame_tokens)

    @property
    def max_target_tokens(self) -> int:
        """The maximum number of tokens of a target, without its frame."""
        return self._within_positions(self.data.max_target_length, self.tokens.target.n_frame_tokens)

    def _within_positions(self, n_tokens: int, n_frame_tokens: int) -> int:
        n_positions = self.model.n_positions
        return n_tokens if n_positions is None else min(n_tokens, n_positions - n_frame_tokens)

    def to_toml(self, reasons: Mapping[str, str] | None = None) -> str:
        """Return the complete recipe, with a comment above each setting; an unset one (None) is only a comment.

        `reasons` are those of the values of settings, by full name: a comment behind the value.
        """
        lines: list[str] = []
        section: list[str] = []
        for name, description in all_settings().items():
            *path, key = name.split(".")
            if path != section:
                lines += ["", f"[{'.'.join(path)}]"]
                section = path
            value = functools.reduce(getattr, [*path, key], self)
            lines += [f"# {description}", f"# {key} is unset" if value is None else tomli_w.dumps({key: value}).strip()]
            lines[-1] += f"  # {reasons[name]}" if reasons and name in reasons else ""
        return "\n".join(lines[1:]) + "\n"


@functools.cache
def all_settings(model: type[BaseModel] = Settings, prefix: str = "") -> Mapping[str, str]:
    """Return full name -> description of every setting, in order."""
    descriptions: dict[str, str] = {}
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            descriptions |= all_settings(inner, f"{prefix}{name}.")
        else:
            descriptions[prefix + name] = field.description or ""
    return descriptions


# The paper's models (table 3)


def paper_big() -> ModelSettings:
    """The big model. `ModelSettings()` is the base model."""
    return ModelSettings(d_model=1024, d_ff=4096, n_heads=16, dropout=0.3)


def _paper(model: ModelSettings, **training: Any) -> Settings:
    """Return a model of the paper with its training (section 5) and search (section 6.1)."""
    tokens = TokenSettings(source=SideSettings(trim=True))
    training_settings = TrainingSettings(metric="bleu", **training)
    return Settings(tokens=tokens, model=model, training=training_settings, decoding=DecodingSettings(num_beams=4))


PRESETS: dict[str, Callable[[], Settings]] = {
    "paper-base": lambda: _paper(ModelSettings()),
    "paper-big": lambda: _paper(paper_big(), steps=300_000, average_last=20),
}


def preset(name: str) -> dict[str, Any]:
    """Return all settings of a preset but d_k and d_v, which follow from others. Raises SettingsError."""
    if name not in list(PRESETS):  # a list, because what a recipe holds need not be hashable
        raise SettingsError(f"there is no preset {name!r}", hint=nearest(str(name), PRESETS))
    values = PRESETS[name]().model_dump(exclude_none=True)
    return values | {"model": {key: value for key, value in values["model"].items() if key not in ("d_k", "d_v")}}
