"""The events of a run, one class for each kind."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glassformer.evaluation.metrics import exact_matches

IMPROVING = 0.05  # minimum fraction by which the loss of a training that is still improving fell in its last half


@dataclass(frozen=True)
class Event:
    """An event of a run, after `step` updates of the weights and `seconds` of training (before a resume included)."""

    step: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The event as one JSON object; `event` is its kind in lower case."""
        fields = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}
        return {"event": type(self).__name__.lower()} | fields


@dataclass(frozen=True)
class Started(Event):
    """Training begins, or continues in a resumed run, of which `changes` says what settings are changed."""

    train_rows: int
    valid_rows: int
    n_parameters: int
    steps: int
    steps_per_epoch: int
    device: str
    precision: str
    resumed: bool
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Progress(Event):
    """Means over the target tokens since the last Progress or validation.

    `loss` is label-smoothed, in nats per token; `perplexity` is that of the plain loss. `epoch` and `learning_rate` are
    the current ones, `gradient_norm` is a mean over the steps, before clipping.
    """

    epoch: float
    loss: float
    perplexity: float
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


@dataclass(frozen=True)
class Skipped(Event):
    """An update whose loss or gradient was not finite changed no weight.

    `n_rows` is the number of its rows, `sources` the text of the first of them.
    """

    n_rows: int
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Restored(Event):
    """Several updates in a row were not finite: the run went back to its newest checkpoint, after `step` updates.

    `skipped` is how many, `rate_factor` the factor of the learning rate from now on.
    """

    skipped: int
    rate_factor: float


@dataclass(frozen=True)
class Split(Event):
    """A batch did not fit into memory: parts of at most `max_tokens` tokens are computed one after the other.

    Tokens are those of the longer side, padding included, as in `training.batch_tokens`. The update is the same.
    """

    max_tokens: int


class Sample(NamedTuple):
    """A held-out pair and the answer of the model."""

    source: str
    target: str
    answer: str

    @property
    def is_right(self) -> bool:
        """Whether answer and target are the same text, in NFC."""
        return bool(exact_matches([self.answer], [self.target])[0])


@dataclass(frozen=True)
class RacedCandidate:
    """A candidate after a round of a race: its steps, held-out loss (nats per answer), and exact match of `answers`."""

    name: str
    step: int
    loss: float
    exact_match: float
    answers: int


@dataclass(frozen=True)
class Racing(Event):
    """A candidate of the race before a run has made `step` of the `steps` of a round."""

    name: str
    steps: int


@dataclass(frozen=True)
class Raced(Event):
    """A round of the race before a run: the candidates in it, the best first, and the names of those that continue.

    There are no candidates where the round would take too much of `training.max_minutes`.
    """

    candidates: tuple[RacedCandidate, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        results = [f"{raced.name} {raced.exact_match:.2f} ({raced.step:,} steps)" for raced in self.candidates]
        verb = "continues" if len(self.left) == 1 else "continue"
        text = f"race, exact match: {', '.join(results)}" if results else "no race: too few training.max_minutes"
        return f"{text}; {' and '.join(self.left)} {verb}"


@dataclass(frozen=True)
class Decaying(Event):
    """The learning rate of the schedule wsd decays from now on, to 0 at `last_step`; `reason` says why."""

    last_step: int
    reason: str


@dataclass(frozen=True)
class Validated(Event):
    """A validation: the plain loss in nats per token, and the metric of free-running translation.

    `samples` are answers to the same sources each time, `wrong` the first wrong ones.
    """

    loss: float
    metric: str
    value: float
    best: bool
    samples: tuple[Sample, ...]
    wrong: tuple[Sample, ...] = ()


@dataclass(frozen=True)
class Saved(Event):
    """The resume file was written to `path`."""

    path: Path


@dataclass(frozen=True)
class Stopped(Event):
    """The run was stopped before its end; the file `path` is there to resume it, but not where its race was stopped."""

    path: Path


@dataclass(frozen=True)
class Finished(Event):
    """The run is done: `path` is the model, `reason` says why training ended, `chosen` which weights the model has.

    `calibrated` is the number of held-out sources that the confidence of answers is calibrated on; 0: it is not.
    `answers` is the number of answers that `value` is measured on; 0 for a loss. `loss_fell` is the fraction by which
    the loss fell in the last half of the steps, without those of a decay; 0 if there was no gain any more, None if the
    run was too short to know.
    """

    reason: str
    chosen: str
    metric: str
    value: float
    path: Path
    calibrated: int = 0
    answers: int = 0
    loss_fell: float | None = None

    @property
    def is_right(self) -> bool:
        """Whether every answer is right."""
        return self.metric == "exact_match" and self.value == 1

    @property
    def is_improving(self) -> bool:
        """Whether more training would help: answers are wrong, and the loss was falling, as far as is known."""
        return not self.is_right and (self.loss_fell is None or self.loss_fell >= IMPROVING)
