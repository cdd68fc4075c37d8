"""What a run tells while it goes on: plain facts, one class for each kind of moment."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.metrics import exact_matches


@dataclass(frozen=True)
class Event:
    """A moment of a run. `step` counts updates of the weights; `seconds` of training, earlier sessions included."""

    step: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The event as one JSON object; `event` is its kind in lower case."""
        fields = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return {"event": type(self).__name__.lower()} | fields


@dataclass(frozen=True)
class Started(Event):
    """Training begins, or goes on after a resume."""

    train_rows: int
    valid_rows: int
    n_parameters: int
    steps: int
    steps_per_epoch: int
    padding_fraction: float
    device: str
    precision: str
    resumed: bool


@dataclass(frozen=True)
class Progress(Event):
    """Means since the last Progress. `loss` is what is trained (smoothed), `perplexity` is of the plain loss."""

    epoch: float
    loss: float
    perplexity: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


class Sample(NamedTuple):
    """A held-out pair and what the model says."""

    source: str
    gold: str
    answer: str

    @property
    def is_right(self) -> bool:
        """Whether answer and gold are the same text, in NFC."""
        return bool(exact_matches([self.answer], [self.gold])[0])


@dataclass(frozen=True)
class Validated(Event):
    """The held-out rows: the plain loss per token, and the metric of free-running translation."""

    loss: float
    metric: str
    value: float
    best: bool
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Saved(Event):
    """Everything that `--resume` needs is on disk."""

    path: Path


@dataclass(frozen=True)
class Stopped(Event):
    """The run was asked to stop before its end; it can be resumed."""

    path: Path


@dataclass(frozen=True)
class Finished(Event):
    """The run is done. `chosen` says which weights became the model: the best validated ones, or their mean."""

    reason: str
    chosen: str
    metric: str
    value: float
    path: Path
