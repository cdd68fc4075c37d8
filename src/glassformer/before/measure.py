"""A few updates from the first weights: their gradients, speed and memory."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import batches_of_epoch
from glassformer.data.corpus import Corpus
from glassformer.inference.engines.torch import TorchEngine
from glassformer.paper.settings import Settings, TrainingSettings
from glassformer.training.objective import learning_rate
from glassformer.training.prepare import Prepared
from glassformer.training.update import Updater
from glassformer.training.validation import Validator

WARM_UP, MIN_STEPS, MAX_STEPS = 2, 5, 40


@dataclass(frozen=True)
class Measurement:
    """Some updates: medians over those after the warm-up.

    `peak_bytes` is the largest memory of the process, or of the tensors on a GPU; None where it cannot be measured.
    `no_gradient` are the parameters whose gradient was absent or zero in every update, `not_finite` those with a
    gradient that was not finite in one of them.
    """

    steps: int
    seconds_per_step: float
    tokens_per_second: float
    peak_bytes: int | None
    no_gradient: tuple[str, ...]
    not_finite: tuple[str, ...]


def updates(corpus: Corpus, training: TrainingSettings) -> Iterator[list[NDArray[np.int64]]]:
    """Yield the batches of one update after the other, without end, in the order of a run."""
    for epoch in count():
        batches = batches_of_epoch(corpus, training, epoch)
        for first in range(0, len(batches), training.accumulate):
            yield batches[first : first + training.accumulate]


def measure_updates(updater: Updater, max_seconds: float) -> Measurement:
    """Measure updates for `max_seconds`, MIN_STEPS to MAX_STEPS of them, the largest one of an epoch first.

    The weights change. Raises RunError when a row does not fit into memory.
    """
    corpus, training = updater.corpus, updater.settings.training
    if updater.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(updater.device)
    plan = updates(corpus, training)
    seen, not_finite = set[str](), set[str]()

    def look() -> None:
        """Look at the gradients that the parameters have now, however they were computed."""
        for name, parameter in updater.model.named_parameters():
            if parameter.grad is not None and not bool(parameter.grad.isfinite().all()):
                not_finite.add(name)
            elif parameter.grad is not None and bool(parameter.grad.any()):
                seen.add(name)

    largest = [largest_batch(corpus, training)]
    for step, batches in enumerate((largest, *islice(plan, WARM_UP)), 1):
        updater.update(batches, step, on_gradient=look)
    seconds, speeds, begun = [], [], time.perf_counter()
    for step, batches in enumerate(islice(plan, MAX_STEPS), WARM_UP + 2):
        started = time.perf_counter()
        sums = updater.update(batches, step)
        float(sums.plain)  # waits for a GPU
        seconds.append(time.perf_counter() - started)
        speeds.append(sums.n_tokens / seconds[-1])
        is_over = len(seconds) >= MIN_STEPS and time.perf_counter() - begun > max_seconds
        if any(updater.processes.sum_numbers(is_over)):  # all end together
            break
    names = [name for name, _ in updater.model.named_parameters()]
    return Measurement(
        len(seconds),
        median(seconds),
        median(speeds),
        peak_memory(updater.device),
        tuple(name for name in names if name not in seen | not_finite),
        tuple(name for name in names if name in not_finite),
    )


def time_validation(prepared: Prepared, updater: Updater) -> float:
    """Return the seconds of one validation with the present weights."""
    engine = TorchEngine.of([updater.model], prepared.target_tokenizer, updater.device)
    started = time.perf_counter()
    Validator(prepared, engine, updater.processes).measure()
    return time.perf_counter() - started


def maximum_rate(settings: Settings) -> float:
    """Return the largest learning rate of the schedule."""
    training = settings.training
    return learning_rate(max(1, min(training.warmup_steps, training.steps)), training, settings.model.d_model)


def with_rate(settings: Settings, rate: float, warmup_steps: int = 0) -> Settings:
    """Return the settings with a constant learning rate after the warm-up."""
    changes = {"schedule": "constant", "learning_rate": rate, "warmup_steps": warmup_steps}
    return settings.model_copy(update={"training": settings.training.model_copy(update=changes)})


def peak_memory(device: torch.device) -> int | None:
    """Return the largest memory so far in bytes: of the process, or of the tensors on a GPU. None where unknown."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type != "cpu" or sys.platform == "win32":
        return None
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def largest_batch(corpus: Corpus, training: TrainingSettings) -> NDArray[np.int64]:
    """Return the rows of the batch of the first epoch with the most padded positions: it needs the most memory."""
    sides = corpus.source.lengths, corpus.target.lengths
    return max(
        batches_of_epoch(corpus, training, 0),
        key=lambda rows: len(rows) * sum(int(lengths[rows].max()) for lengths in sides),
    )
