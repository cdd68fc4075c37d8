"""The choice of the weights of a finished run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import ModelFileError
from glassformer.inference.engines.torch import get_weights, set_weights
from glassformer.ship.storage.container import Arrays
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.ship.storage.records import Metrics
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.validation import Measured, Validator

BEST_VALIDATION = "the best validation"


def model_of(directory: RunDirectory) -> ModelFile:
    """Read the model of a run. Raises ModelFileError, which says how the run writes it again."""
    return _load(directory.model, "delete it and resume the run: it is written again")


def weights_to_choose(directory: RunDirectory) -> tuple[Arrays, list[Arrays]]:
    """Read the best weights of a run, and the last validated ones that it kept. Raises ModelFileError."""
    hint = "delete it and resume the run: the weights are then chosen without it"
    kept = [_load(path, hint).tensors for path in directory.kept_checkpoints()]
    return model_of(directory).tensors, kept


def _load(path: Path, hint: str) -> ModelFile:
    try:
        return ModelFile.load(path)
    except ModelFileError as error:
        error.hint = hint
        raise


def choose_weights(
    validator: Validator, metrics: Metrics, best: Arrays, kept: list[Arrays], step: int
) -> tuple[Arrays, dict[str, Any], dict[str, Any] | None]:
    """Compare the mean of the `kept` weights, the last validated ones, with the `best` ones, on all held-out rows.

    Returns the better weights, the fields of their `metrics` that change, and their wrong answers (None when there is
    nothing to compare).
    """
    chosen = metrics.chosen or BEST_VALIDATION  # a run that had ended before may have chosen a mean
    if len(kept) < 2:
        return best, {"chosen": chosen}, None
    mean = {name: np.mean([weights[name] for weights in kept], axis=0) for name in kept[0]}
    measured = measure_weights(validator, best, as_used=True)
    measured_mean = measure_weights(validator, mean, as_used=True)
    if validator.is_better(measured_mean, measured.value, measured.loss):
        chosen = f"the mean of the last {len(kept)} validations"
        measured = measured_mean
        changes = {"chosen": chosen, "step": step, "value": measured.value}
    else:
        changes = {"chosen": chosen, "value": measured.value}
    if metrics.n_sources is not None:
        changes["n_sources"] = measured.errors.get("rows")
    return mean if "step" in changes else best, changes, measured.errors


def chosen_mean(path: Path) -> Arrays | None:
    """Return the mean that a run chose as its model when it ended; None if it has not ended, or chose no mean."""
    if not path.exists() or (chosen := ModelFile.load(path)).metrics.chosen in (None, BEST_VALIDATION):
        return None
    return chosen.tensors


def measure_weights(validator: Validator, weights: Arrays, *, as_used: bool = False) -> Measured:
    """Measure weights, as `Validator.measure` does; the model has its own ones afterwards."""
    (model,) = validator.engine.models
    own = get_weights(model)
    set_weights(model, weights)
    measured = validator.measure(as_used=as_used)
    set_weights(model, own)
    return measured
