"""The forecast of a training: its time, from a few updates on its own rows, and its memory, from its settings."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import cycle
from statistics import median

import numpy as np
from numpy.typing import NDArray

from glassformer.data.batches import batches_of_epoch
from glassformer.inference.engines.memory import FLOAT, memory_of
from glassformer.planning.memory import copies_of_weights
from glassformer.planning.plan import Plan
from glassformer.runtime.devices import resolve_precision
from glassformer.training.loop import device_of
from glassformer.training.update import Updater, first_updater
from glassformer.training.validation import Validator

WARM_UP, MIN_STEPS, MAX_STEPS = 3, 5, 40  # updates; the first of the warm-up is that of the largest batch
MAX_SECONDS = 5.0


@dataclass(frozen=True)
class Forecast:
    """What the training of one model is expected to need: about `needed_bytes`, and at most `seconds`.

    Times are measured, those of a step are medians; where the memory would not suffice, nothing is measured: None.
    """

    steps: int
    validations: int
    needed_bytes: int
    available_bytes: int
    seconds: float | None = None
    seconds_per_step: float | None = None
    seconds_per_validation: float | None = None
    tokens_per_second: float | None = None


def forecast(planned: Plan, device: str = "auto") -> Forecast:
    """Forecast a planned run, with updates of its first weights. Writes nothing.

    Raises DeviceError for a device that is not available or is too small, RunError when a row does not fit into memory.
    """
    updater, training = first_updater(planned, device_of(planned, device)), planned.settings.training
    epoch = batches_of_epoch(updater.corpus, training, 0)
    sides = updater.corpus.source.lengths, updater.corpus.target.lengths
    largest = max(epoch, key=lambda rows: len(rows) * sum(int(lengths[rows].max()) for lengths in sides))
    steps = max(0, training.steps - (planned.resumed.saved.position.step if planned.resumed else 0))
    validations = -(-steps // training.validate_every)
    needed, available = _needed_bytes(updater, largest), memory_of(str(updater.device))
    if needed > available and updater.device.type != "cuda":  # a GPU tries: a batch is split there
        return Forecast(steps, validations, needed, available)
    begun = time.perf_counter()
    validator = Validator(planned.prepared, updater.objective, updater.processes)
    validator.measure()  # of an untrained model, whose answers do not end
    of_validation = (1 + updater.has_averages) * (time.perf_counter() - begun)  # the averages are measured, too
    of_step, speed = _measure(updater, largest, epoch)
    seconds = steps * of_step + validations * of_validation
    if training.max_minutes:
        seconds = min(seconds, 60 * training.max_minutes)
    return Forecast(steps, validations, needed, available, seconds, of_step, of_validation, speed)


def _needed_bytes(updater: Updater, largest: NDArray[np.int64]) -> int:
    """Return the expected bytes of weights, gradients, Adam's means, and the activations of the largest batch.

    The factors are fitted to measurements of six models on a CPU, within a fifth.
    """
    corpus, model, training = updater.corpus, updater.settings.model, updater.settings.training
    longest = [int(side.lengths[largest].max()) for side in (corpus.source, corpus.target)]
    positions, length = len(largest) * sum(longest), max(longest)  # padded ones of both sides; of the longest row
    copies = copies_of_weights(training) - 1 + (updater.position.batch_parts or 1)  # a gradient for each part
    weights = sum(parameter.numel() for parameter in updater.model.parameters()) * FLOAT * copies
    of_layer = 84 * model.d_model + 4 * model.d_ff + 10 * model.n_heads * length  # bytes per position
    n_layers = (model.n_encoder_layers + model.n_decoder_layers) / 2  # a position is in one of the two stacks
    of_stack = n_layers * of_layer
    if training.recompute:  # one layer at a time, and the input of each
        of_stack = of_layer + n_layers * model.d_model * FLOAT
    size = len(updater.model.target_embedding.weight) + length
    logits = 5 * FLOAT * size if model.copy_mechanism else 0  # all at once, in float32; not measured
    precision = resolve_precision(updater.device, training.precision)
    return weights + int(positions * (of_stack * (2 / 3 if precision == "bfloat16" else 1) + logits / 2))


def _measure(updater: Updater, largest: NDArray[np.int64], epoch: list[NDArray[np.int64]]) -> tuple[float, float]:
    """Return the median seconds of an update, and the median of its target tokens per second; the weights change."""
    batches, seconds, speeds = cycle(epoch), list[float](), list[float]()
    accumulated = range(updater.settings.training.accumulate)
    begun = time.perf_counter()
    for step in range(1, WARM_UP + MAX_STEPS + 1):
        rows = [largest] if step == 1 else [next(batches) for _ in accumulated]
        started = time.perf_counter()
        sums = updater.update(rows)
        float(sums.plain)  # waits for a GPU
        if step > WARM_UP:
            seconds.append(time.perf_counter() - started)
            speeds.append(sums.n_tokens / seconds[-1])
        is_over = len(seconds) >= MIN_STEPS and time.perf_counter() - begun > MAX_SECONDS
        if any(updater.processes.sum_numbers(is_over)):  # all processes end together
            break
    return median(seconds), median(speeds)
