"""A training run: `for event in train(pairs)`. The caller prints, logs, plots or stops."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.container import Arrays
from glassformer.data.batches import padding_fraction, plan_batches
from glassformer.engines.torch import (
    TorchEngine,
    build_model,
    get_weights,
    resolve_precision,
    set_weights,
)
from glassformer.errors import RunError, UsageError
from glassformer.files import write_text
from glassformer.kernels.cpu import configure_memory
from glassformer.model import Transformer
from glassformer.modelfile import ModelFile, count_parameters, tokenizers_to_dict
from glassformer.records import Metrics
from glassformer.rundirectory import RunDirectory
from glassformer.training.card import model_card
from glassformer.training.checkpoints import Origin, Position, load_resume, save_resume
from glassformer.training.events import Event, Finished, Progress, Saved, Started, Stopped, Validated
from glassformer.training.meter import Meter
from glassformer.training.prepare import Prepared
from glassformer.training.update import Sums, Updater
from glassformer.training.validation import Validator
from glassformer.translator import Translator

PROGRESS_SECONDS = 1.0


class Run:
    """A training run, as an iterable of events. Nothing is written before the iteration begins.

    A run is iterated once: a finished one gives no more events, an interrupted one is resumed with
    `train(…, resume=True)`.
    """

    def __init__(
        self,
        prepared: Prepared,
        directory: RunDirectory,
        device: torch.device,
        *,
        start: ModelFile | None = None,
        resume: bool = False,
        overwrite: bool = False,
    ) -> None:
        self.prepared, self.directory, self.device = prepared, directory, device
        self.resumed, self.overwrite = resume, overwrite
        self.settings = prepared.settings
        training = self.settings.training
        configure_memory(training.batch_tokens * self.settings.model.d_model)
        torch.manual_seed(training.seed)
        sizes = len(prepared.source_tokenizer), len(prepared.target_tokenizer)
        self.model = build_model(start) if start is not None else Transformer(self.settings.model, *sizes)
        self.model.to(device)
        self.model.recompute = training.recompute
        if training.compile:
            for layer in (*self.model.encoder, *self.model.decoder):
                layer.compile(dynamic=True)
        self.updater = Updater(self.model, prepared.train, self.settings, device)
        self.position = Position()
        self.validator = Validator(prepared, TorchEngine.of([self.model], prepared.target_tokenizer, device))
        self._stopping = self._begun = self._finished = False

    def stop(self) -> None:
        """Save and stop after the current update."""
        self._stopping = True

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
        with self.directory.locked():
            self._open_directory()
            self._begun = True
            try:
                for event in self._events():
                    self._finished = isinstance(event, Finished)
                    self.directory.record(event.to_json())
                    yield event
            finally:
                self.directory.restore_replaced()

    # Events

    def _open_directory(self) -> None:
        """Create the run directory or, to resume, recover it; this process holds it already."""
        directory = self.directory
        directory.recover()
        if self.resumed:
            self.position = load_resume(directory.resume, self.model, self.updater.optimizer, self._origin)
            directory.repair_history()
            if not directory.model.exists():  # so the next validation is the best one
                self.position.best_value = self.position.best_loss = None
        else:
            directory.create(overwrite=self.overwrite)
            write_text(directory.recipe, self.settings.to_toml())
        self.prepared.write_ledger(directory.ledger)
        if self.prepared.valid_pairs:
            directory.write_held_out(self.prepared.valid_pairs)

    @property
    def _origin(self) -> Origin:
        return Origin(self.prepared.fingerprint, self.settings)

    def _events(self) -> Iterator[Event]:
        yield self._started()
        position, validate_every = self.position, self.settings.training.validate_every
        earlier, begun = position.seconds, time.perf_counter()
        meter = Meter()
        reason = self._reason_to_end()
        while reason is None and not self._stopping:
            for batches in self._rest_of_epoch():
                meter.add(*self.update(batches))
                if position.step in self._snapshots:
                    self._keep_snapshot()
                position.seconds = earlier + time.perf_counter() - begun
                if meter.seconds >= PROGRESS_SECONDS:
                    yield self._progress(meter)
                    meter = Meter()
                reason = self._reason_to_end()
                if position.step % validate_every == 0 or reason is not None:
                    validated = self._validate()
                    position.seconds = earlier + time.perf_counter() - begun
                    yield from (validated, self._save())  # saved before either is yielded: the caller may fail
                    meter = Meter()
                    reason = reason or self._reason_to_end()
                if reason is not None or self._stopping:
                    break
        if reason is None:
            yield Stopped(position.step, position.seconds, self._save().path)
            return
        if position.best_value is None:
            yield self._validate()
        yield self._finish(reason)

    def _rest_of_epoch(self) -> Iterator[list[NDArray[np.int64]]]:
        """Yield the batches of each remaining update of this epoch; the position advances before each update."""
        position, accumulate = self.position, self.settings.training.accumulate
        plan = self._plan(position.epoch)
        for first in range(position.batch, len(plan), accumulate):
            position.batch = first + accumulate
            if position.batch >= len(plan):
                position.epoch, position.batch = position.epoch + 1, 0
            yield plan[first : first + accumulate]

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        corpus, training = self.prepared.train, self.settings.training
        lengths = corpus.source.lengths, corpus.target.lengths
        return plan_batches(*lengths, training.batch_tokens, training.seed, epoch)

    def _reason_to_end(self) -> str | None:
        training, position = self.settings.training, self.position
        if position.step >= training.steps:
            return "all steps done"
        if training.patience and position.without_gain >= training.patience:
            return f"no better {self.validator.metric} in {position.without_gain} validations"
        if training.max_minutes and position.seconds >= 60 * training.max_minutes:
            return f"{training.max_minutes:g} minutes are over"
        return None

    def update(self, batches: Sequence[NDArray[np.int64]]) -> Sums:
        """Update the weights with the rows of some batches: one step."""
        sums = self.updater.update(batches, self.position.step + 1, self.position.seconds)
        self.position.step += 1
        return sums

    # Events and files

    @property
    def _snapshots(self) -> set[int]:
        """The steps after which a snapshot of the weights is kept."""
        training = self.settings.training
        return {step for i in range(1, training.keep_snapshots + 1) if (step := training.steps >> i)}

    def _keep_snapshot(self) -> None:
        step = self.position.step
        self.directory.check_locked()
        self.prepared.model_file(get_weights(self.model), Metrics(step=step)).save(self.directory.snapshot(step))

    def _started(self) -> Started:
        corpus, training = self.prepared.train, self.settings.training
        plan = self._plan(0)
        sizes = len(self.prepared.source_tokenizer), len(self.prepared.target_tokenizer)
        return Started(
            self.position.step,
            self.position.seconds,
            train_rows=len(corpus),
            valid_rows=len(self.prepared.valid_pairs),
            n_parameters=count_parameters(self.settings.model, *sizes),
            steps=training.steps,
            steps_per_epoch=math.ceil(len(plan) / training.accumulate),
            padding_fraction=padding_fraction((corpus.source.lengths, corpus.target.lengths), plan),
            device=str(self.device),
            precision=resolve_precision(self.device, training.precision),
            resumed=self.resumed,
        )

    def _progress(self, meter: Meter) -> Progress:
        self._check_finite(meter.mean(meter.smoothed))
        return Progress(
            self.position.step,
            self.position.seconds,
            epoch=self.position.epoch,
            loss=meter.mean(meter.smoothed),
            perplexity=math.exp(min(700.0, meter.mean(meter.plain))),
            learning_rate=self.updater.learning_rate,
            gradient_norm=float(torch.stack(meter.norms).mean()),
            tokens_per_second=meter.tokens / meter.seconds,
        )

    def _check_finite(self, loss: float) -> None:
        """Raise RunError when the loss is not finite."""
        if not math.isfinite(loss):
            raise RunError(
                f"training diverged: the loss is not finite by step {self.position.step:,}",
                where=str(self.directory.path),
                hint="train again with a smaller training.learning_rate, or with training.clip_norm=1",
            )

    def _validate(self) -> Validated:
        """Measure the weights, and make them the model of the run when they are the best so far."""
        position, keep = self.position, self.settings.training.average_last
        measured = self.validator.measure()
        self._check_finite(measured.loss)
        best = self.validator.is_better(measured, position.best_value, position.best_loss)
        weights = get_weights(self.model)
        if best:
            position.best_value, position.best_loss = measured.value, measured.loss
            position.without_gain = 0
            self._write(self.directory.model, weights, measured.value)
            self.directory.discard_replaced()
            write_text(self.directory.errors, json.dumps(measured.errors, ensure_ascii=False))
        else:
            position.without_gain += 1
        if keep:
            self._write(self.directory.checkpoint(position.step), weights, measured.value)
            for old in self.directory.kept_checkpoints()[:-keep]:
                old.unlink()
        return Validated(
            position.step,
            position.seconds,
            measured.loss,
            self.validator.metric,
            measured.value,
            best,
            measured.samples,
        )

    def _finish(self, reason: str) -> Finished:
        """Choose the weights of the model, unless that was done before a resume, and write the model card."""
        position = self.position
        model = ModelFile.load(self.directory.model)
        if model.metrics.chosen is None:
            model = self._choose(model)
        value, chosen = model.metrics.value, model.metrics.chosen
        assert value is not None
        assert chosen is not None
        metric, path = self.validator.metric, self.directory.model
        finished = Finished(position.step, position.seconds, reason, chosen, metric, value, path)
        write_text(self.directory.card, model_card(self.prepared, finished))
        return finished

    def _choose(self, best: ModelFile) -> ModelFile:
        """Compare the mean of the last validated weights with the best ones; the better become the model of the run."""
        kept = [ModelFile.load(path).tensors for path in self.directory.kept_checkpoints()]
        tensors = best.tensors
        changes: dict[str, Any] = {"chosen": "the best validation"}
        if len(kept) > 1:
            mean = {name: np.mean([weights[name] for weights in kept], axis=0) for name in kept[0]}
            set_weights(self.model, best.tensors)
            measured = self.validator.measure(as_used=True)
            set_weights(self.model, mean)
            measured_mean = self.validator.measure(as_used=True)
            if self.validator.is_better(measured_mean, measured.value, measured.loss):
                tensors, measured = mean, measured_mean
                changes = {"chosen": f"the mean of the last {len(kept)} validations", "step": self.position.step}
            changes["value"] = measured.value
            self.directory.check_locked()
            write_text(self.directory.errors, json.dumps(measured.errors, ensure_ascii=False))
        model = replace(best, tensors=tensors, metrics=best.metrics.model_copy(update=changes))
        self.directory.check_locked()
        model.save(self.directory.model)
        return model

    def _save(self) -> Saved:
        path = self.directory.resume
        prepared = self.prepared
        tokenizers = tokenizers_to_dict(prepared.source_tokenizer, prepared.target_tokenizer)
        self.directory.check_locked()
        save_resume(path, self.model, self.updater.optimizer, self.position, self._origin, tokenizers)
        return Saved(self.position.step, self.position.seconds, path)

    def _write(self, path: Path, weights: Arrays, value: float) -> None:
        metrics = Metrics(
            metric=self.validator.metric,
            value=value,
            step=self.position.step,
            rows="training" if self.prepared.valid is None else "validation",
        )
        self.directory.check_locked()
        self.prepared.model_file(weights, metrics).save(path)
