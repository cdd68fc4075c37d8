"""The choice of the weights of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.container import Arrays
from glassformer.engines.torch import get_weights, set_weights
from glassformer.model import Transformer
from glassformer.modelfile import ModelFile
from glassformer.training.validation import Measured, Validator

BEST_VALIDATION = "the best validation"


def choose_weights(
    model: Transformer, validator: Validator, best: ModelFile, kept: Sequence[Arrays], step: int
) -> tuple[Arrays, dict[str, Any], dict[str, Any] | None]:
    """Compare the mean of the `kept` weights, the last validated ones, with the `best` ones, on all held-out rows.

    Returns the better weights, the fields of their metrics that change, and their wrong answers (None when there is
    nothing to compare). `model` computes both, and has the mean afterwards.
    """
    chosen = best.metrics.chosen or BEST_VALIDATION  # a run that had ended before may have chosen a mean
    if len(kept) < 2:
        return best.tensors, {"chosen": chosen}, None
    mean = {name: np.mean([weights[name] for weights in kept], axis=0) for name in kept[0]}
    set_weights(model, best.tensors)
    measured = validator.measure(as_used=True)
    set_weights(model, mean)
    measured_mean = validator.measure(as_used=True)
    if validator.is_better(measured_mean, measured.value, measured.loss):
        chosen = f"the mean of the last {len(kept)} validations"
        return mean, {"chosen": chosen, "step": step, "value": measured_mean.value}, measured_mean.errors
    return best.tensors, {"chosen": chosen, "value": measured.value}, measured.errors


def measure_chosen_mean(model: Transformer, validator: Validator, path: Path) -> Measured | None:
    """Measure, as a validation does, the mean that a run chose when it ended; None if it has or chose no mean.

    A run that continues replaces it only by better weights. `model` has the same weights afterwards.
    """
    if not path.exists() or (chosen := ModelFile.load(path)).metrics.chosen in (None, BEST_VALIDATION):
        return None
    weights = get_weights(model)
    set_weights(model, chosen.tensors)
    measured = validator.measure()
    set_weights(model, weights)
    return measured
