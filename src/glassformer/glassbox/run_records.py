"""The part of a trace that a run directory remembers: how the model was trained, and what it still gets wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict


class Strict:
    """What pydantic is to hold of these dataclasses when it reads one."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True)
class Moment(Strict):
    """Means of the training around a step; None for a number that was not finite."""

    step: int
    loss: float | None
    learning_rate: float | None
    gradient_norm: float | None


@dataclass(frozen=True)
class Validation(Strict):
    """The plain loss per token and the metric on held-out rows."""

    step: int
    loss: float | None
    metric: str
    value: float | None


@dataclass(frozen=True)
class Past(Strict):
    """The same text through the checkpoint of a step, by greedy search.

    `tokens` are those asked for, T of them; `attention` is cross-attention `[T S]`, the mean over layers and heads.
    """

    step: int
    text: str
    score: float
    finished: bool
    tokens: list[str]
    attention: list[list[float]]


@dataclass(frozen=True)
class Training(Strict):
    """How the model came to be: what its run directory remembers."""

    history: list[Moment]
    validations: list[Validation]
    checkpoints: list[Past]


@dataclass(frozen=True)
class WrongAnswer(Strict):
    """A held-out pair, and what the model says."""

    source: str
    gold: str
    answer: str
    score: float


@dataclass(frozen=True)
class Errors(Strict):
    """The wrong ones among held-out `rows`; `examples` may be fewer than `wrong`."""

    rows: int
    wrong: int
    examples: list[WrongAnswer]
