"""What a run writes into its directory. Of several processes, only the first one writes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from glassformer.data.corpus import spread
from glassformer.data.prepare import Prepared
from glassformer.errors import ModelFileError, TableError, WriteError
from glassformer.evaluation.calibration import calibrate
from glassformer.inference.translator import Translator
from glassformer.planning.resume import reasons_in, recipe_before_race, recipe_of
from glassformer.storage.checkpoints import read_resume
from glassformer.storage.container import Arrays
from glassformer.storage.files import name_also, write_text
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import Calibration, Metrics
from glassformer.storage.rundirectory import RunDirectory
from glassformer.training.card import model_card
from glassformer.training.events import Event, Finished


class Output:
    """The files of a run. Every method of one that does not write (`writes`) does nothing.

    `init` is the model that the run starts from, if any; `reasons` are those of its settings, by full name.

    Nothing is written when the directory was moved away or taken by another process: RunError.
    """

    def __init__(
        self,
        directory: RunDirectory,
        prepared: Prepared,
        init: Path | None = None,
        reasons: Mapping[str, str] | None = None,
        *,
        writes: bool,
    ) -> None:
        self.directory, self.prepared, self.init, self.writes = directory, prepared, init, writes
        self.reasons = reasons or {}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory; at the end, without a model, the run that was to be replaced is there again.

        The error of a file that cannot be written says from which checkpoint the run can be resumed.
        """
        if not self.writes:
            yield
            return
        with self.directory.locked():
            try:
                yield
            except WriteError as error:
                if self.directory.is_held:
                    error.hint = f"{error.hint}; {self._newest()}"
                raise
            finally:
                self.directory.restore_replaced()

    def _newest(self) -> str:
        path = self.directory.resume
        try:
            step = read_resume(path).position.step
        except ModelFileError:
            return "the run has no checkpoint yet"
        return f"then use --resume: the checkpoint of step {step:,} is complete ({path})"

    def restore_previous(self) -> None:
        """Replace the newest checkpoint, which is damaged, by the previous one."""
        if self.writes:
            name_also(self.directory.previous_resume, self.directory.resume)

    def open(self, *, resumed: bool, overwrite: bool, fixed: Mapping[str, Any] | None = None) -> None:
        """Recover the run directory or create it. Of a race, `fixed` are settings of all."""
        if self.writes:
            self.directory.recover()
            if resumed:
                self.directory.repair_history()
            else:
                self.directory.create(overwrite=overwrite)
            if fixed is not None:
                write_text(self.directory.recipe, recipe_before_race(self.prepared.settings, fixed))
            elif not self.directory.recipe.exists():
                self.recipe(self.reasons)

    def recipe(self, reasons: Mapping[str, str]) -> None:
        """Write the recipe, with the reasons of settings, by full name."""
        if self.writes:
            write_text(self.directory.recipe, recipe_of(self.prepared.settings, self.init, reasons))

    def changed_recipe(self) -> None:
        """Write the recipe of changed settings. Without the card, the weights are chosen again at the end."""
        if self.writes:
            recipe, settings = self.directory.recipe, self.prepared.settings
            reasons = reasons_in(recipe, settings) if recipe.exists() else {}
            write_text(recipe, recipe_of(settings, reasons=reasons))
            self.directory.card.unlink(missing_ok=True)

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

    def snapshot(self, weights: Arrays, step: int) -> None:
        """Write a snapshot of the weights, which is kept."""
        self._save(self.directory.snapshot(step), weights, Metrics(step=step))

    def model(
        self, weights: Arrays, metrics: Metrics, errors: dict[str, Any] | None, calibration: Calibration | None = None
    ) -> None:
        """Write weights as the model of the run, after its wrong answers, if there are others than before."""
        if self.writes:
            self.directory.check_locked()
            if errors is not None:
                write_text(self.directory.errors, json.dumps(errors, ensure_ascii=False))
            self._save(self.directory.model, weights, metrics, calibration)
            self.directory.discard_replaced()

    def checkpoint(self, weights: Arrays, metrics: Metrics, step: int, keep: int) -> None:
        """Write validated weights, and delete all but the newest `keep`."""
        if self.writes and keep:
            self._save(self.directory.checkpoint(step), weights, metrics)
            for old in self.directory.kept_checkpoints()[:-keep]:
                old.unlink()

    def _save(self, path: Path, weights: Arrays, metrics: Metrics, calibration: Calibration | None = None) -> None:
        if self.writes:
            self.directory.check_locked()
            self.prepared.model_file(weights, metrics, calibration).save(path)

    def card(self, finished: Finished) -> None:
        """Write the model card. The previous checkpoint of a run that has ended is not needed."""
        if self.writes:
            write_text(self.directory.card, model_card(self.prepared, finished))
            self.directory.previous_resume.unlink(missing_ok=True)


# The weights of a run


def calibrate_held_out(prepared: Prepared, model_file: ModelFile, device: str) -> Calibration | None:
    """Calibrate a model of a run on its held-out rows; None if too few of their sources were not trained on."""
    limit = prepared.settings.data.max_valid_rows
    pairs = [prepared.valid_pairs[row] for row in spread(len(prepared.valid_pairs), limit)]
    try:
        return calibrate(Translator(model_file, device=device), pairs)
    except TableError:
        return None


def best_model(directory: RunDirectory) -> ModelFile:
    """Read the model of a run. Raises ModelFileError, which says how the run writes it again."""
    return _load(directory.model, "delete it and resume the run: it is written again")


def kept_weights(directory: RunDirectory) -> list[Arrays]:
    """Read the last validated weights that a run kept. Raises ModelFileError."""
    hint = "delete it and resume the run: the weights are then chosen without it"
    return [_load(path, hint).tensors for path in directory.kept_checkpoints()]


def _load(path: Path, hint: str) -> ModelFile:
    try:
        return ModelFile.load(path)
    except ModelFileError as error:
        error.hint = hint
        raise
