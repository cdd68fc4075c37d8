"""The loop of a training: `for event in Run(planned)`. The caller prints, logs, plots or stops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import batches_of_epoch
from glassformer.errors import UsageError
from glassformer.inference.translator import Translator
from glassformer.planning.memory import check_training_fits
from glassformer.planning.plan import Plan, raced_settings
from glassformer.runtime.devices import find_device, resolve_precision
from glassformer.storage.checkpoints import SavedRun, load_resume, save_resume
from glassformer.storage.container import Arrays
from glassformer.storage.modelfile import count_parameters, tokenizers_to_dict
from glassformer.storage.records import Calibration, Metrics
from glassformer.storage.weights import get_weights
from glassformer.training.events import (
    Decaying,
    Event,
    Finished,
    Progress,
    Saved,
    Skipped,
    Split,
    Started,
    Stopped,
    Validated,
)
from glassformer.training.history import loss_fell
from glassformer.training.meter import Meter
from glassformer.training.output import Output, best_model, calibrate_held_out, kept_weights
from glassformer.training.race import Contender, race
from glassformer.training.recovery import MAX_SKIPPED, diverged, restore
from glassformer.training.schedule import ALL_STEPS, NO_GAIN, OUT_OF_TIME, begin_decay, is_settled
from glassformer.training.update import Update, Updater, first_updater, initial_model
from glassformer.training.validation import BEST_VALIDATION, Validator

PROGRESS_SECONDS = 1.0

T = TypeVar("T")


def device_of(planned: Plan, name: str) -> torch.device:
    """Return the device of this process for a run. Raises DeviceError for one that is not available or too small."""
    device, train = planned.processes.own_device(find_device(name)), planned.prepared.train
    sizes = len(planned.prepared.source_tokenizer), len(planned.prepared.target_tokenizer)
    check_training_fits(planned.settings, str(device), sizes, max(len(train.source.ids), len(train.target.ids)))
    return device


class Run:
    """The training of one model, as an iterable of events. Nothing is written before the iteration begins.

    A run is iterated once: a finished one gives no more events, an interrupted one is resumed with
    `train(…, resume=True)`. Raises DeviceError for a device that is not available or too small.
    """

    def __init__(self, planned: Plan, device: str = "auto") -> None:
        self.directory, self.processes = planned.directory, planned.processes
        self.device = device_of(planned, device)
        init = planned.start.path if planned.start else None
        self.output = Output(self.directory, planned.prepared, init, planned.reasons, writes=self.processes.is_first)
        updater = first_updater(planned, self.device)
        self._set_up(planned, updater, Validator(planned.prepared, updater.objective, self.processes))
        self._changes = planned.resumed.changes if planned.resumed else ()
        self._asked_to_stop = self._stopping = self._begun = self._finished = False
        self._meter = Meter()

    def _set_up(self, planned: Plan, updater: Updater, validator: Validator) -> None:
        """Train by this plan, with its updater and validator; after a race, these are the winner's."""
        self.planned, self.prepared, self.settings = planned, planned.prepared, planned.settings
        self.updater, self.model, self.position, self.validator = updater, updater.model, updater.position, validator

    def stop(self) -> None:
        """Save and stop after the current update."""
        self._asked_to_stop = True

    def finish(self) -> Translator:
        """Train to the end and load the model of the run."""
        for _ in self:
            pass
        return Translator.load(self.directory.model, device=str(self.device))

    def __iter__(self) -> Iterator[Event]:
        if self._finished:
            return
        if self._begun:  # its directory may have changed since
            raise UsageError(
                "this run was interrupted", where=str(self.directory.path), hint="resume it with train(…, resume=True)"
            )
        with self.output.held():
            self._open_directory()
            self._begun = True
            for event in self._events():
                self._finished = isinstance(event, Finished)
                self.output.event(event)
                yield event

    # Events

    def _open_directory(self) -> None:
        """Create the run directory or, to resume, recover it; this process, or the first one, holds it already."""
        planned = self.planned
        fixed = {choice.setting: choice.value for choice in planned.choices if choice.set_by_user}
        self.output.open(
            resumed=planned.resumed is not None,
            overwrite=planned.overwrite,
            fixed=fixed if planned.candidates else None,
        )
        has_model = self.processes.from_first(self.directory.model.exists())  # the others wait for it
        if self.planned.resumed is not None:
            self._load()
            if not has_model:  # so the next validation is the best one
                self.position.best_value = self.position.best_loss = None
            if self._changes:
                self._continue_changed(has_model=has_model)
        self.output.data()

    def _continue_changed(self, *, has_model: bool) -> None:
        """Continue with changed settings: patience counts again, and the weights are chosen again at the end.

        A mean that a run chose when it ended is the best validation until there is a better one.
        """
        position = self.position
        position.without_gain, position.decay = 0, None
        self.output.changed_recipe()
        best, metrics, *_ = self._from_first(self._best) if has_model else ({}, Metrics())
        if metrics.chosen not in (None, BEST_VALIDATION):
            measured = self.validator.measure_weights(best)
            position.best_value, position.best_loss = measured.value, measured.loss
        self._save()
        self._save()  # so that the previous checkpoint has the changes, too

    def _events(self) -> Iterator[Event]:
        if self.planned.candidates:
            raced = raced_settings(self.planned)
            contenders = [Contender(str(name), planned, self.device) for name, planned in self.planned.candidates]
            winner, result = yield from race(contenders, self.settings.training.max_minutes, lambda: self.is_stopping)
            if winner is None:
                yield Stopped(0, 0.0, self.directory.resume)
                return
            self._take(winner, dict.fromkeys(raced, result))
        yield from self._events_of_training()

    def _take(self, winner: Contender, reasons: Mapping[str, str]) -> None:
        """Go on with the winner of a race; `reasons` are those of the settings that were raced."""
        self._set_up(winner.planned, winner.updater, winner.validator)
        self.output.prepared = self.prepared
        self.output.recipe({**self.planned.reasons, **reasons})
        self.output.data()

    def _events_of_training(self) -> Iterator[Event]:
        yield self._started()
        position, training, updates = self.position, self.settings.training, self.updater.batches()
        snapshots = {training.steps >> i for i in range(1, training.keep_snapshots + 1)}
        self._started_at, self._meter = time.perf_counter() - position.seconds, Meter()
        self._agree()
        reason = self._reason_to_end()
        while reason is None and not self.is_stopping:
            if position.decay is None and (decay := begin_decay(position, training)):
                position.decay = decay
                yield Decaying(position.step, position.seconds, decay.last_step, decay.reason)
            limit = position.max_tokens
            self.update(next(updates))
            if position.max_tokens is not None and position.max_tokens != limit:
                yield Split(position.step, position.seconds, position.max_tokens)
            if position.step in snapshots:
                self.output.snapshot(get_weights(self.model), position.step)
            is_time = self._agree()
            reason = self._reason_to_end()
            is_due = position.step % training.validate_every == 0 or reason is not None
            if is_due or is_time:
                yield from self._progress()
            if self._meter.skipped_in_a_row >= MAX_SKIPPED:
                yield restore(position, self.directory, self._go_back)
                self._meter.skipped_in_a_row = 0
                reason = None
            elif is_due:
                validated = self._validate()
                self._agree()
                yield from (validated, self._save())  # saved before either is yielded: the caller may fail
                self._meter.restart()
                reason = reason or self._reason_to_end()
        if reason is None:
            yield Stopped(position.step, position.seconds, self._save().path)
            return
        if position.best_value is None:
            yield self._validate()
        yield self._finish(reason)

    def _started(self) -> Started:
        corpus, training, position = self.prepared.train, self.settings.training, self.position
        n_batches = len(batches_of_epoch(corpus, training, 0))
        return Started(
            position.step,
            position.seconds,
            train_rows=len(corpus),
            valid_rows=len(self.prepared.valid_pairs),
            n_parameters=count_parameters(self.settings.model, *map(len, self.prepared.tokenizers)),
            steps=training.steps,
            steps_per_epoch=math.ceil(n_batches / training.accumulate),
            device=str(self.device),
            precision=resolve_precision(self.device, training.precision),
            resumed=self.planned.resumed is not None,
            changes=self._changes,
        )

    @property
    def is_stopping(self) -> bool:
        """Whether all processes know that the run is to stop."""
        return self._stopping or (self.processes.count == 1 and self._asked_to_stop)

    def _agree(self) -> bool:
        """Take time from the first process, and stop when any was asked to; return whether to report progress."""
        is_first = self.processes.is_first
        seconds, is_time, stops = self.processes.sum_numbers(
            time.perf_counter() - self._started_at if is_first else 0.0,
            is_first and self._meter.seconds >= PROGRESS_SECONDS,
            self._asked_to_stop,
        )
        self.position.seconds, self._stopping = seconds, stops > 0
        return is_time > 0

    def _reason_to_end(self) -> str | None:
        training, position = self.settings.training, self.position
        if position.step >= training.steps:
            return ALL_STEPS
        if position.decay is not None and position.step >= position.decay.last_step:
            return position.decay.reason
        if training.schedule != "wsd" and is_settled(position, training):
            return NO_GAIN.format(training.patience)
        if training.max_minutes and position.step and position.seconds >= 60 * training.max_minutes:
            return OUT_OF_TIME.format(training.max_minutes)
        return None

    def update(self, batches: Sequence[NDArray[np.int64]]) -> Update:
        """Update the weights with the rows of some batches: one step."""
        update = self.updater.update(batches)
        self._meter.updates.append(update)
        return update

    # Events and files

    def _progress(self) -> Iterator[Event]:
        """Yield the means since the last time, and each update that was skipped."""
        position = self.position
        means, skipped = self._meter.read()
        for update in skipped:
            rows, sources = np.concatenate(update.batches), self.prepared.train.source
            ids = [sources.packed(rows[i : i + 1]).tolist() for i in range(min(3, len(rows)))]
            texts = tuple(map(self.prepared.source_tokenizer.decode, ids))
            yield Skipped(update.step, position.seconds, len(rows), texts)
        if means:
            rate = self.updater.learning_rate
            yield Progress(position.step, position.seconds, epoch=position.epoch, learning_rate=rate, **means)

    def _go_back(self) -> None:
        """Go back to the newest checkpoint, or to the beginning."""
        if self.processes.from_first(self.directory.resume.exists()):
            self._load()
        else:
            self.updater.begin_again(get_weights(initial_model(self.prepared, self.planned.start)))

    def _validate(self) -> Validated:
        """Measure the weights, or their averages if these are better; the best so far are the model of the run."""
        position = self.position
        weights, measured = get_weights(self.model), self.validator.measure()
        if self.updater.has_averages:
            with self.updater.averaged_weights():
                averaged = self.validator.measure()
                if self.validator.is_better(averaged, measured.value, measured.loss):
                    weights, measured = get_weights(self.model), averaged
        if not math.isfinite(measured.loss):
            raise diverged(self.position, self.directory)
        lowest = math.inf if position.lowest_loss is None else position.lowest_loss
        if self.validator.is_gain(measured, position.best_value, lowest):
            position.without_gain, position.lowest_loss = 0, min(lowest, measured.loss)
        else:
            position.without_gain += 1
        best = self.validator.is_better(measured, position.best_value, position.best_loss)
        metrics = self.validator.metrics_of(measured, position.step)
        if best:
            position.best_value, position.best_loss = measured.value, measured.loss
            self.output.model(weights, metrics, measured.errors)
        self.output.checkpoint(weights, metrics, position.step, self.settings.training.average_last)
        return Validated(
            position.step,
            position.seconds,
            measured.loss,
            self.validator.metric,
            measured.value,
            best,
            measured.samples,
            measured.wrong,
        )

    def _finish(self, reason: str) -> Finished:
        """Choose the weights of the model, unless that was done before a resume, and write the model card."""
        position, directory = self.position, self.directory
        best, metrics, calibration, is_done = self._from_first(self._best)
        if metrics.chosen is None or not is_done:
            last_weights = self._from_first(lambda: kept_weights(directory))
            weights, metrics, errors = self.validator.choose(best, metrics, last_weights, position.step)
            # by its path, the sources that it was trained on are found
            model_file = replace(self.prepared.model_file(weights, Metrics()), path=directory.model)
            calibration = self._from_first(lambda: calibrate_held_out(self.prepared, model_file, str(self.device)))
            self.output.model(weights, metrics, errors, calibration)
        assert metrics.value is not None
        assert metrics.chosen is not None
        metric, path = self.validator.metric, directory.model
        finished = Finished(
            position.step,
            position.seconds,
            reason,
            metrics.chosen,
            metric,
            metrics.value,
            path,
            calibrated=0 if calibration is None else calibration.sources,
            answers=metrics.n_sources or 0,
            loss_fell=self._from_first(lambda: loss_fell(directory.history, position)),
        )
        self.output.card(finished)
        return finished

    def _best(self) -> tuple[Arrays, Metrics, Calibration | None, bool]:
        """Read the best weights, their records, and whether the weights of the run were chosen before."""
        model = best_model(self.directory)
        return model.tensors, model.metrics, model.calibration, self.directory.card.exists()

    def _from_first(self, read: Callable[[], T]) -> T:
        """Return what the first process reads from the run directory, which may be on another machine."""
        return self.processes.from_first(read() if self.processes.is_first else None)  # type: ignore[return-value]

    def _load(self) -> None:
        """Read the newest checkpoint: weights, optimizer, random state, position."""
        saved = load_resume(self.directory.resume, self.model, self.updater.optimizer, self.processes)
        if saved.damage:
            self.output.restore_previous()
        self.updater.go_to(saved.position)

    def _save(self) -> Saved:
        path, prepared = self.directory.resume, self.prepared
        saved = SavedRun(
            position=self.position,
            data=dict(prepared.tables),
            settings=self.settings,
            tokenizers=tokenizers_to_dict(*prepared.tokenizers),
            environment=self.processes.environment(),
        )
        if self.output.writes:
            self.directory.check_locked()
        save_resume(path, self.model, self.updater.optimizer, saved, self.processes)
        return Saved(self.position.step, self.position.seconds, path)
