"""Tune a few settings on a table, in a number of minutes: each trial is an ordinary training.

    DIR/study.log       the trials so far, by Optuna; the same call continues it
    DIR/trial-000/      the run with the advised settings; trial-001/, … have others
    DIR/best.toml       the recipe of the best trial so far

The value of a trial is the metric of its model on the held-out rows; test rows are never read. Trial 0 is what `train`
would do, and another trial replaces it only if it is better.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.before.plan import Plan, plan
from glassformer.before.recipes.overrides import flat, merge, nested
from glassformer.data.given import Given
from glassformer.errors import DeviceError, MissingExtraError, RunError, UsageError, WriteError
from glassformer.inference.metrics import higher_is_better
from glassformer.ship.storage.files import check_empty, write_text, writing
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.events import Event, Finished, Validated

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial, Trial

RATE_FACTOR = 5  # of the advised learning rate, up and down
MAX_DROPOUT, DROPOUT_STEP = 0.5, 0.05
COMPARED = 3  # finished trials before one is stopped early
WARMUP = 1 / 4  # of the steps, in which no trial is stopped early
MAX_FAILED = 3  # trials that fail one after the other
RANDOM = 5  # trials with drawn settings, before those of a model of the trials so far (TPE)
BEST = "best.toml"
STATES = {"COMPLETE": "finished", "PRUNED": "stopped early", "FAIL": "failed", "RUNNING": "interrupted"}


@dataclass(frozen=True)
class Tried:
    """A trial: `state` is finished, stopped early, failed or interrupted; `value` the last one of the metric."""

    number: int
    state: str
    value: float | None
    minutes: float
    settings: Mapping[str, Any]
    error: str = ""


class Tuning:
    """The search for better settings, as an iterable of (number of the trial, event of its run).

    The iteration ends after `minutes` of trials, those of earlier calls included, or after `stop()`; what was begun is
    continued by the next one. Raises MissingExtraError without Optuna, RunError for a directory that holds something
    else or another study, UsageError when every setting is set.
    """

    def __init__(
        self,
        pairs: Given,
        out: Path,
        *,
        minutes: float,
        overrides: Mapping[str, Any] | None = None,
        valid: Given | None = None,
        init: str | Path | None = None,
        device: str = "auto",
    ) -> None:
        self._optuna = _load_optuna()
        self._states = self._optuna.trial.TrialState
        self._log = out / "study.log"
        if not self._log.exists():
            check_empty(out)
        self.out, self.minutes, self.device = out, minutes, device
        self._pairs, self._valid, self._init = pairs, valid, init
        self._overrides = nested(overrides or {})
        self.advised = self._plan(out / "advised", {})  # nothing is written there
        self._pairs, self._valid = self.advised.table, self.advised.valid  # which are read once
        if self.advised.processes.count > 1:
            raise UsageError("tuning runs in one process", got=f"{self.advised.processes.count}", hint="no torchrun")
        self.metric = self.advised.settings.training.metric
        self.space, first = search_space(self.advised, flat(self._overrides))
        self.study = self._open(first)
        self._stopping = False

    @property
    def trials(self) -> list[Tried]:
        """The trials so far, by number."""
        return [_tried(trial) for trial in self.study.trials if trial.state.name in STATES]

    @property
    def best(self) -> Tried | None:
        """The finished trial with the best value, of equal ones the first; None before the first."""
        sign = -1 if higher_is_better(self.metric) else 1
        finished = [trial for trial in self.trials if trial.state == "finished"]
        return min(finished, key=lambda trial: (sign * (trial.value or 0.0), trial.number), default=None)

    @property
    def seconds(self) -> float:
        """The time of all trials."""
        return 60 * sum(trial.minutes for trial in self.trials)

    def run_directory(self, number: int) -> RunDirectory:
        """The run of a trial."""
        return RunDirectory(self.out / f"trial-{number:03d}")

    def stop(self) -> None:
        """Save the current trial and stop after its current update."""
        self._stopping = True

    def __iter__(self) -> Iterator[tuple[int, Event]]:
        failed = 0
        with RunDirectory(self.out).locked():
            while self.seconds < 60 * self.minutes and not self._stopping:
                number = self._next()
                try:
                    yield from self._train(number, time.monotonic())
                    failed = 0
                except (RunError, DeviceError) as error:
                    failed += 1
                    if number == 0 or failed == MAX_FAILED or isinstance(error, WriteError):
                        raise
                    self._trial(number).set_user_attr("error", error.what)
                    self.study.tell(number, state=self._states.FAIL)
                if (best := self.best) is not None:
                    recipe = self.run_directory(best.number).recipe.read_text(encoding="utf-8")
                    write_text(self.out / BEST, recipe)
        if self.best is None and not self._stopping:
            raise self._too_short()

    # Trials

    def _next(self) -> int:
        """Return the number of the trial that was interrupted, or of a new one."""
        running = [trial.number for trial in self.study.trials if trial.state == self._states.RUNNING]
        return running[0] if running else self.study.ask(self.space).number

    def _train(self, number: int, begun: float) -> Iterator[tuple[int, Event]]:
        """Train a trial until it is finished, worse than most others, or the time is over."""
        trial, spent = self._trial(number), self.seconds
        before, reported = _seconds(self.study.trials[number]), self.study.trials[number].intermediate_values
        directory = self.run_directory(number)
        resume = directory.recipe.exists()
        run = self._plan(directory.path, trial.params, resume=resume, overwrite=not resume).run(self.device)
        pruned, value = False, None
        try:
            for event in run:
                if isinstance(event, Validated) and event.step not in reported:
                    trial.report(event.value, event.step)
                    pruned = number > 0 and trial.should_prune()
                if isinstance(event, Finished):
                    value = event.value
                if pruned or self._stopping or spent + time.monotonic() - begun >= 60 * self.minutes:
                    run.stop()
                yield number, event
        finally:
            trial.set_user_attr("seconds", before + time.monotonic() - begun)
            trial.set_user_attr("step", run.position.step)
        if value is not None:
            self.study.tell(number, value)
        elif pruned:
            self.study.tell(number, state=self._states.PRUNED)

    def _plan(self, path: Path, params: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False) -> Plan:
        params = dict(params)
        if "model.d_model" in params and "model.d_ff" not in flat(self._overrides):
            model = self.advised.settings.model
            params["model.d_ff"] = params["model.d_model"] * model.d_ff // model.d_model
        return plan(
            self._pairs,
            path,
            overrides=merge(self._overrides, nested(params)),
            valid=self._valid,
            init=None if resume else self._init,
            resume=resume,
            overwrite=overwrite,
        )

    def _trial(self, number: int) -> Trial:
        """Return a trial of the study, also one of an earlier call."""
        return self._optuna.trial.Trial(self.study, self.study.trials[number]._trial_id)  # type: ignore[no-any-return]

    def _too_short(self) -> RunError:
        first, steps = self.study.trials[0], self.advised.settings.training.steps
        step = max(1, first.user_attrs.get("step", 0))
        needed = math.ceil(_seconds(first) / 60 * steps / step) + 1
        return RunError(
            "the time was over before the training with the advised settings was finished",
            where=str(self.run_directory(0).path),
            got=f"{self.minutes:g} minutes, {step:,} of {steps:,} steps",
            expected=f"about {needed:,} minutes for one trial, and several trials",
            hint=f"the same command with --minutes {10 * needed} continues it",
        )

    # The study

    def _open(self, first: Mapping[str, Any]) -> Study:
        """Return the study of the directory, or a new one whose trial 0 has the settings `first`."""
        optuna, training, path = self._optuna, self.advised.settings.training, self._log
        with writing(path):
            self.out.mkdir(parents=True, exist_ok=True)
            try:
                study: Study = optuna.create_study(
                    study_name="tune",
                    storage=optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path))),
                    pruner=optuna.pruners.MedianPruner(COMPARED, n_warmup_steps=int(WARMUP * training.steps)),
                    direction="maximize" if higher_is_better(self.metric) else "minimize",
                    load_if_exists=True,
                )
                trials = study.trials
            except OSError:
                raise
            except Exception as error:  # of many kinds, for a line that is not one of a study
                hint = "choose another --out; the runs next to it are whole"
                raise RunError("the study is damaged", where=str(path), got=repr(error)[:200], hint=hint) from None
        # Another seed for each call: the same one would repeat the settings of the call before.
        study.sampler = optuna.samplers.TPESampler(n_startup_trials=RANDOM, seed=training.seed + len(trials))
        settings = self.advised.settings.model_dump_json().encode()
        made_of = {
            "rows": self.advised.prepared.fingerprint[:12],
            "settings": hashlib.sha256(settings).hexdigest()[:12],
        }
        if not trials:
            study.set_user_attr("made_of", made_of)
            study.enqueue_trial(dict(first))
        elif (found := study.user_attrs.get("made_of")) != made_of:
            raise RunError(
                "the study in this directory is one of another table or of other settings",
                where=str(path),
                got=str(made_of),
                expected=str(found),
                hint="the same table and options, or another --out",
            )
        return study


def search_space(advised: Plan, given: Mapping[str, Any]) -> tuple[dict[str, BaseDistribution], dict[str, Any]]:
    """Return the settings to tune, with their ranges around the advised values, and the advised values.

    Settings that the user gave, and the shape of a model to start from, are not tuned. Raises UsageError when none is
    left.
    """
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    model, training = advised.settings.model, advised.settings.training
    rate, tokens = training.learning_rate, training.batch_tokens
    can_be_halved = model.d_model % (4 * model.n_heads) == 0  # each head then has an even part
    halved = [model.d_model // 2] if can_be_halved else []
    space: dict[str, tuple[Any, BaseDistribution]] = {
        "training.learning_rate": (rate, FloatDistribution(rate / RATE_FACTOR, rate * RATE_FACTOR, log=True)),
        "training.batch_tokens": (tokens, CategoricalDistribution([tokens // 2, tokens, 2 * tokens])),
        "model.dropout": (model.dropout, FloatDistribution(0.0, MAX_DROPOUT, step=DROPOUT_STEP)),
        "model.d_model": (model.d_model, CategoricalDistribution([*halved, model.d_model, 2 * model.d_model])),
    }
    tuned = [name for name in space if name not in given and not (advised.start and name.startswith("model."))]
    if not tuned:
        what = "there is nothing to tune: all of these settings are set by you"
        raise UsageError(what, got=", ".join(space), hint="leave out --recipe or some --set")
    return {name: space[name][1] for name in tuned}, {name: space[name][0] for name in tuned}


def _load_optuna() -> Any:
    """Return the library. Raises MissingExtraError where it is not installed."""
    try:
        import optuna
    except ImportError:
        raise MissingExtraError("glassformer tune", package="optuna", extra="tune") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _seconds(trial: FrozenTrial) -> float:
    return float(trial.user_attrs.get("seconds", 0.0))


def _tried(trial: FrozenTrial) -> Tried:
    values = trial.intermediate_values
    value = trial.value if trial.state.name == "COMPLETE" else values[max(values)] if values else None
    error = trial.user_attrs.get("error", "")
    return Tried(trial.number, STATES[trial.state.name], value, _seconds(trial) / 60, trial.params, error)
