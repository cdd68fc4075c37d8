"""What a run writes into its directory. Of several processes, only the first one writes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassformer.errors import WriteError
from glassformer.ship.storage.container import Arrays
from glassformer.ship.storage.files import name_also, write_text
from glassformer.ship.storage.records import Metrics
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.card import model_card
from glassformer.training.changes import Change, recipe_of
from glassformer.training.checkpoints import newest_step
from glassformer.training.choice import model_of
from glassformer.training.events import Event, Finished, Validated
from glassformer.training.prepare import Prepared
from glassformer.training.runs.curve import write_curve


class Output:
    """The files of a run. Every method of one that does not write (`writes`) does nothing.

    `init` is the model that the run starts from, if any.

    Nothing is written when the directory was moved away or taken by another process: RunError.
    """

    def __init__(self, directory: RunDirectory, prepared: Prepared, init: Path | None = None, *, writes: bool) -> None:
        self.directory, self.prepared, self.init, self.writes = directory, prepared, init, writes

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory; at the end, without a model, the run that was to be replaced is there again."""
        if not self.writes:
            yield
            return
        with self.directory.locked():
            try:
                yield
            finally:
                self.directory.restore_replaced()

    @contextlib.contextmanager
    def naming_newest(self) -> Iterator[None]:
        """Let the error of a file that cannot be written say from which checkpoint the run can be resumed."""
        try:
            yield
        except WriteError as error:
            if self.writes and self.directory.is_held:
                path = self.directory.resume
                step = newest_step(path)
                rest = "the run has no checkpoint yet"
                if step is not None:
                    rest = f"then use --resume: the checkpoint of step {step:,} is complete ({path})"
                error.hint = f"{error.hint}; {rest}"
            raise

    def restore_previous(self) -> None:
        """Replace the newest checkpoint, which is damaged, by the previous one."""
        if self.writes:
            name_also(self.directory.previous_resume, self.directory.resume)

    def open(self, *, resumed: bool, overwrite: bool) -> None:
        """Recover the run directory or create it."""
        if self.writes:
            self.directory.recover()
            if resumed:
                self.directory.repair_history()
            else:
                self.directory.create(overwrite=overwrite)
                self.recipe(())

    def recipe(self, changes: Sequence[Change]) -> None:
        """Write the recipe, with the changes of the settings since the run began."""
        if self.writes:
            write_text(self.directory.recipe, recipe_of(self.prepared.settings, changes, self.init))

    def data(self) -> None:
        """Write the ledger, the hashes of the sources and held-out rows."""
        if self.writes:
            self.prepared.write_ledger(self.directory.ledger)
            self.prepared.trained.save(self.directory.sources)
            if self.prepared.valid_pairs:
                self.directory.write_held_out(*self.prepared.held_out_rows)

    def event(self, event: Event) -> None:
        """Append an event to the history."""
        if self.writes:
            self.directory.record(event.to_json())
            if isinstance(event, Validated | Finished):
                write_curve(self.directory)

    def snapshot(self, weights: Arrays, step: int) -> None:
        """Write a snapshot of the weights, which is kept."""
        if self.writes:
            self.directory.check_locked()
            self.prepared.model_file(weights, Metrics(step=step)).save(self.directory.snapshot(step))

    def best(self, weights: Arrays, metrics: Metrics, errors: dict[str, Any]) -> None:
        """Write the best weights so far as the model of the run, and its wrong answers."""
        if self.writes:
            self.directory.check_locked()
            self.prepared.model_file(weights, metrics).save(self.directory.model)
            self.directory.discard_replaced()
            write_text(self.directory.errors, json.dumps(errors, ensure_ascii=False))

    def checkpoint(self, weights: Arrays, metrics: Metrics, step: int, keep: int) -> None:
        """Write validated weights, and delete all but the newest `keep`."""
        if self.writes and keep:
            self.directory.check_locked()
            self.prepared.model_file(weights, metrics).save(self.directory.checkpoint(step))
            for old in self.directory.kept_checkpoints()[:-keep]:
                old.unlink()

    def chosen(self, weights: Arrays, changes: dict[str, Any], errors: dict[str, Any] | None) -> None:
        """Write the weights that were chosen at the end as the model of the run, and its wrong answers."""
        if self.writes:
            best = model_of(self.directory)
            self.directory.check_locked()
            if errors is not None:
                write_text(self.directory.errors, json.dumps(errors, ensure_ascii=False))
            metrics = best.metrics.model_copy(update=changes)
            replace(best, settings=self.prepared.settings, tensors=weights, metrics=metrics).save(self.directory.model)

    def card(self, finished: Finished, changes: Sequence[Change]) -> None:
        """Write the model card. The previous checkpoint of a run that has ended is not needed."""
        if self.writes:
            write_text(self.directory.card, model_card(self.prepared, finished, changes))
            self.directory.previous_resume.unlink(missing_ok=True)
