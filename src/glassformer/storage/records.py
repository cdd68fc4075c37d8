"""The records of a model file besides weights, settings and tokenizers: typed, checked, frozen.

TakenColumns   the columns of a table that are read
TrainingData   the data that the model was trained on
Metrics        the result of its validation
Calibration    what gives the confidence of answers
Member         a further model in the file
Parts          all JSON of the file
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from glassformer.errors import ModelFileError, counted, first_fault
from glassformer.text.inputs import Inputs, listed

Count = Annotated[int, Field(ge=0, lt=2**53)]  # exact in JSON and in every library
Length = Annotated[int, Field(ge=0, le=2**20)]  # in tokens; a search allocates a quarter more
Weight = Annotated[float, Field(ge=-1e9, le=1e9)]  # a fit to 2^53 answers, each of a loss below 11, stays below 5e8
Counts = Annotated[tuple[Count, ...], Field(strict=False)]  # JSON has lists, not tuples


class _Record(BaseModel):
    """Base class of records: frozen, no unknown names, exact types, finite numbers."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that were set, as JSON values."""
        return self.model_dump(exclude_unset=True)


class TakenColumn(_Record):
    """One column that is read: its name in the header (None: there is no header), and its position from 0.

    `feature` is the name of the input that it is, for a column of symbols.
    """

    name: str | None = Field(default=None, description="name in the header; null: the table has no names")
    position: Count = Field(description="position from 0")
    feature: str | None = Field(default=None, description="name of the input, for a column of symbols")

    @property
    def label(self) -> str:
        """The name and the position, for people."""
        return f"column {self.position}" if self.name is None else f"{self.name} (column {self.position})"

    @property
    def key(self) -> str | int:
        """The name, or the position of a column without one."""
        return self.position if self.name is None else self.name


class TakenColumns(_Record):
    """The columns of a table that are read as pairs: sources, features, and the target."""

    inputs: Annotated[tuple[TakenColumn, ...], Field(strict=False)] = Field(
        min_length=1, description="the columns of the source: texts before features"
    )
    target: TakenColumn = Field(description="the column of the target")
    width: Count = Field(description="number of columns of the table")

    @model_validator(mode="after")
    def _are_of_the_table(self) -> TakenColumns:
        if len(set(self.positions)) < len(self.positions) or max(self.positions) >= self.width:
            raise ValueError(f"different positions from 0 to {self.width - 1}")
        return self

    @property
    def all(self) -> tuple[TakenColumn, ...]:
        """The columns in the order of the cells of a row: sources, features, target."""
        return (*self.inputs, self.target)

    @property
    def positions(self) -> tuple[int, ...]:
        """Their positions."""
        return tuple(column.position for column in self.all)

    @property
    def labels(self) -> tuple[str, str]:
        """Names and positions of source and target, for people."""
        return " + ".join(column.label for column in self.inputs), self.target.label


class TrainingData(_Record):
    """The data that a model was trained on. Every field has a default, for models without a training table."""

    table: str | None = Field(default=None, description="path of the table")
    imported_from: str | None = Field(default=None, description="name of the model of another program")
    columns: TakenColumns | None = Field(default=None, description="columns of the table; null: it was pairs")
    fingerprint: str | None = Field(default=None, description="SHA-256 of the pairs")
    valid_fingerprint: str | None = Field(default=None, description="SHA-256 of a separate validation table's pairs")
    rows: dict[str, Count] = Field(default_factory=dict, description="rows read, kept, and not kept by reason")
    changed_rows: Count = Field(default=0, description="rows kept without their control characters")
    train_rows: Count = Field(default=0, description="rows trained on")
    valid_rows: Count = Field(default=0, description="rows held out for validation")
    valid_overlap: Count | None = Field(default=None, description="validation rows whose source was trained on")
    sources_digest: str | None = Field(
        default=None, description="digest of the sources trained on, which are in sources.safetensors of the run"
    )
    longest_source: Length | None = Field(default=None, description="tokens of the longest source trained on")
    longest_target: Length | None = Field(default=None, description="tokens of the longest target trained on")
    source_counts: Counts = Field(
        default=(), description="how often each source token was trained, by id; empty: unknown"
    )
    target_counts: Counts = Field(
        default=(), description="how often each target token was trained, by id; empty: unknown"
    )

    seen_length: int | None = Field(default=None, ge=1, le=16, description="tokens of each string in seen_strings")
    seen_strings: str | None = Field(
        default=None, description="Bloom filter of the strings of tokens in the sources trained on, in base64"
    )

    @field_validator("seen_strings")
    @classmethod
    def _is_filter(cls, value: str | None) -> str | None:
        if value is not None and len(base64.b64decode(value, validate=True)).bit_count() != 1:
            raise ValueError("base64 of a number of bytes that is a power of two")
        return value

    @property
    def column_labels(self) -> tuple[str, str]:
        """Names and positions of the columns of source and target, for people."""
        return ("source", "target") if self.columns is None else self.columns.labels

    def counts(self, side: str) -> tuple[int, ...]:
        """Return how often each token of a side ("source", "target") was trained, by id; empty if unknown."""
        return self.source_counts if side == "source" else self.target_counts

    def short_limit(self, max_new_tokens: int | None) -> str:
        """Return the warning about a limit that targets of the training do not fit with their `<eos>`, or ""."""
        longest = self.longest_target
        if longest is None or max_new_tokens is None or max_new_tokens > longest:
            return ""
        return (
            f"decoding.max_new_tokens is {max_new_tokens:,}, and the longest target trained on has {longest:,} tokens "
            "and <eos>: longer answers are cut off"
        )

    def check_inputs(self, inputs: Inputs) -> None:
        """Raise ModelFileError unless the columns are those of a model with these inputs."""
        features = [input_.name if input_.kind == "feature" else None for input_ in inputs] or [None]
        if self.columns is not None and [column.feature for column in self.columns.inputs] != features:
            expected = f"a column for each input: {listed(inputs) or 'one text'}"
            raise _not_valid("data.columns", self.columns.labels[0], expected)

    def check_vocabularies(self, source_size: int, target_size: int) -> None:
        """Raise ModelFileError unless there is one count per token, or none at all."""
        for side, size in (("source", source_size), ("target", target_size)):
            if (counts := self.counts(side)) and len(counts) != size:
                expected = f"{size:,}, one per token of the vocabulary, or none"
                raise _not_valid(f"data.{side}_counts", f"{len(counts):,} counts", expected)


class Metrics(_Record):
    """The result of a validation. Weights that were saved without a validation have only `step`."""

    metric: str | None = Field(default=None, description="name of the metric")
    value: float | None = Field(default=None, description="its value")
    step: Count | None = Field(default=None, description="updates of the weights until then")
    n_sources: Count | None = Field(default=None, description="held-out sources that were translated for the value")
    rows: Literal["validation", "training"] | None = Field(default=None, description="which rows were measured")
    chosen: str | None = Field(default=None, description="which weights were chosen when training ended")


class Calibration(_Record):
    """How an answer gets its confidence; `inference.confidence` fits and applies it."""

    weights: Annotated[tuple[Weight, ...], Field(strict=False, min_length=3, max_length=4)] = Field(
        description="weights of the logistic regression: bias, log-odds among the beam and all, square of the first"
    )
    num_beams: int = Field(ge=1, description="width of the beam, all of whose answers count")
    table: str | None = Field(default=None, description="table of the rows; null: the held-out rows of the training")
    fingerprint: str = Field(description="SHA-256 of the pairs")
    sources: Count = Field(description="different sources that were translated")
    right: Count = Field(description="those with a right answer")
    unusual: Count = Field(description="answers to texts unlike the training, and those that were cut off")
    unusual_right: Count = Field(description="those of them that are right")

    @property
    def unusual_limit(self) -> float:
        """The maximum confidence of an answer of that kind, by Laplace's rule of succession."""
        return (self.unusual_right + 1) / (self.unusual + 2)

    @property
    def summary(self) -> str:
        """What it was fitted on, in words."""
        rows = counted(self.sources, "held-out source") + ("" if self.table is None else f" of {self.table}")
        return f"calibrated on {rows}, {f'{self.right:,}' if self.right else 'none'} of them answered correctly"


class Member(_Record):
    """A further model of a file, of the same recipe with another random seed."""

    seed: Count = Field(description="random seed of its training")
    metrics: Metrics = Field(description="the result of its validation")


class Parts(_Record):
    """The JSON of a model file."""

    settings: dict[str, Any]
    tokenizers: dict[str, Any]
    data: TrainingData
    metrics: Metrics
    versions: dict[str, str]
    calibration: Calibration | None = None
    members: Annotated[tuple[Member, ...], Field(strict=False)] = ()

    @classmethod
    def read(cls, parts: Mapping[str, Any]) -> Self:
        """Check the parts of a file. Raises ModelFileError, with the name of the field, for what is not valid."""
        try:
            return cls(**{name: parts[name] for name in cls.model_fields.keys() & parts.keys()})
        except ValidationError as error:
            raise _not_valid(*first_fault(error)) from None


def _not_valid(place: str, got: str, expected: str) -> ModelFileError:
    return ModelFileError(f"{place!r} in the model file is not valid", got=got, expected=expected)
