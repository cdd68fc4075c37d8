"""The records in a trace of a run and of the whole model: its training, its wrong answers, the effect of its heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

StepNumber = Annotated[int, Field(ge=0, lt=2**53)]


class Strict:
    """How pydantic reads these dataclasses: no unknown key, no number that is not finite."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class HistoryPoint(Strict):
    """Means of the training around a step; None for a number that was not finite."""

    step: StepNumber
    loss: float | None
    learning_rate: float | None
    gradient_norm: float | None


@dataclass(frozen=True)
class Validation(Strict):
    """The plain loss per token and the metric on held-out rows."""

    step: StepNumber
    loss: float | None
    metric: str
    value: float | None


@dataclass(frozen=True)
class CheckpointAnswer(Strict):
    """The same text translated by a checkpoint, by greedy search.

    `tokens` are the T target tokens; `attention` is cross-attention `[T S]`, the mean over layers and heads.
    """

    step: int
    text: str
    score: float
    finished: bool
    tokens: list[str]
    attention: list[list[float]]


@dataclass(frozen=True)
class TrainingRecord(Strict):
    """The training of the model, from the records of its run directory."""

    history: list[HistoryPoint]
    validations: list[Validation]
    checkpoints: list[CheckpointAnswer]


@dataclass(frozen=True)
class WrongAnswer(Strict):
    """A held-out pair and the answer of the model."""

    source: str
    target: str
    answer: str
    score: float


@dataclass(frozen=True)
class Errors(Strict):
    """The wrong answers among held-out `rows`; `examples` may be fewer than `wrong`."""

    rows: int
    wrong: int
    examples: list[WrongAnswer]


@dataclass(frozen=True)
class HeadEffect(Strict):
    """Exact match with one head switched off, and the number of items that it made wrong, or right."""

    attention: str
    head: int
    exact_match: float
    newly_wrong: int
    newly_right: int


@dataclass(frozen=True)
class HeadEffects(Strict):
    """Exact match of the whole model, and with each head off, in the order of the model.

    Figures are of `items`, sources with all their targets, as in `evaluate`; `rows` is the number of pairs.
    """

    rows: int
    items: int
    exact_match: float
    heads: list[HeadEffect]
