"""Search for a learning rate and a batch size, in some updates of a run that is not iterated.

The learning-rate range test is that of Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3,
with a rate that rises by one factor at each update. Neither result changes a setting: docs/check.md has the comparison
with the advised rates, and the time of a batch depends on the machine.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from itertools import islice
from statistics import median

import numpy as np

from glassformer.before.checks import Check, forecast_memory
from glassformer.before.measure import maximum_rate, updates, with_rate
from glassformer.errors import RunError
from glassformer.inference.engines.memory import memory_of
from glassformer.paper.settings import Settings
from glassformer.training.loop import Run
from glassformer.training.update import Updater

FIRST_RATE, LAST_RATE, RATE_STEPS = 1e-6, 1.0, 100
DECAY = 0.9  # of the running mean of the loss
DIVERGED = 1.5  # times the lowest mean
TOO_LOW = 100  # times below the rate of the lowest loss
BATCH_SIZES = (1 / 4, 1 / 2, 1, 2, 4)  # of the tokens of an update
BATCH_STEPS = 6
WORTH_IT = 1.1  # times the present speed


@dataclass(frozen=True)
class RateTest:
    """A learning-rate range test: (rate, running mean of the smoothed loss) of each update until the loss diverged.

    `steepest` is the rate at which the loss fell most in one update, `lowest` the one with the lowest loss, `diverged`
    the one that ended the test (None if none did). `maximum` is that of the schedule in the settings.
    """

    points: tuple[tuple[float, float], ...]
    steepest: float
    lowest: float
    diverged: float | None
    maximum: float


@dataclass(frozen=True)
class BatchSpeed:
    """The speed of updates with a batch size, in target tokens per second; None where a batch does not fit."""

    batch_tokens: int
    accumulate: int
    tokens_per_second: float | None


def find_rate(run: Run) -> RateTest:
    """Test learning rates from FIRST_RATE to LAST_RATE, one update each. The weights of the run change."""
    settings, updater = run.settings, run.updater
    mean, lowest = 0.0, math.inf
    points: list[tuple[float, float]] = []
    diverged = None
    rates = np.geomspace(FIRST_RATE, LAST_RATE, RATE_STEPS).tolist()
    for step, (rate, batches) in enumerate(zip(rates, updates(run.prepared.train, settings.training), strict=False), 1):
        updater.settings = with_rate(settings, rate)
        sums = updater.update(batches, step)
        mean = DECAY * mean + (1 - DECAY) * float(sums.smoothed) / sums.n_tokens
        smooth = mean / (1 - DECAY**step)  # the mean begins at 0
        if not smooth <= DIVERGED * lowest:  # or it is not a number
            diverged = rate
            break
        points.append((rate, smooth))
        lowest = min(lowest, smooth)
    updater.settings = settings
    losses = np.array([loss for _, loss in points])
    best = int(losses.argmin())
    falls = np.diff(losses[: best + 1])
    steepest = int(falls.argmin()) + 1 if len(falls) else best
    return RateTest(tuple(points), points[steepest][0], points[best][0], diverged, maximum_rate(settings))


def check_rate(found: RateTest) -> Check:
    """Whether the rate of the settings is between a hundredth of the rate with the lowest loss and that rate."""
    text = (
        f"{found.maximum:.2g} in the settings; in a range test of {len(found.points)} updates the loss falls fastest "
        f"at {found.steepest:.2g} and is lowest at {found.lowest:.2g}"
        + ("" if found.diverged is None else f", and diverges at {found.diverged:.2g}")
    )
    too_high = found.maximum > found.lowest
    passed = not too_high and found.maximum >= found.lowest / TOO_LOW
    change = "smaller" if too_high else "larger"
    return Check("learning rate", passed, found.maximum, text, f"a {change} training.learning_rate")


def find_batch(run: Run) -> tuple[BatchSpeed, ...]:
    """Measure the speed of the update of the settings in one to four parts, and of updates two and four times as large.

    The weights of the run change. A batch whose forecast exceeds the memory of the device is not tried.
    """
    training = run.settings.training
    total = training.batch_tokens * training.accumulate
    speeds: list[BatchSpeed] = []
    for size in BATCH_SIZES:
        changes = {"batch_tokens": max(1, round(total * size)), "accumulate": max(1, round(1 / size))}
        settings = run.settings.model_copy(update={"training": training.model_copy(update=changes)})
        speeds.append(BatchSpeed(**changes, tokens_per_second=_speed(run, settings)))
    return tuple(speeds)


def _speed(run: Run, settings: Settings) -> float | None:
    """Return the median of target tokens per second, or None where a batch does not fit into memory."""
    if forecast_memory(run, settings) > memory_of(run.device):
        return None
    corpus, speeds = run.prepared.train, []
    updater = Updater(run.model, corpus, settings, run.device)
    try:
        for step, batches in enumerate(islice(updates(corpus, settings.training), 2 + BATCH_STEPS), 1):
            started = time.perf_counter()
            sums = updater.update(batches, step)
            float(sums.plain)  # waits for a GPU
            speeds.append(sums.n_tokens / (time.perf_counter() - started))
    except RunError:
        return None
    return median(speeds[2:]) if updater.max_tokens is None else None  # it was split


def check_batch(run: Run, speeds: tuple[BatchSpeed, ...]) -> Check:
    """Report the speeds, and the parts in which the update of the settings is fastest; fails where none fits."""
    training = run.settings.training
    total = training.batch_tokens * training.accumulate
    listed = ", ".join(f"{one.batch_tokens:,}: {_speed_text(one)}" for one in speeds)
    text = f"target tokens per second by training.batch_tokens: {listed}; above {total:,} it is another update"
    same = {one: one.tokens_per_second for one in speeds if one.accumulate * one.batch_tokens <= total}
    fast = {one: speed for one, speed in same.items() if speed is not None}
    if not fast:
        return Check("batch size", False, None, text, "a smaller training.batch_tokens, or a smaller model")
    best = max(fast, key=lambda one: fast[one])
    present = next((speed for one, speed in fast.items() if one.accumulate == training.accumulate), 0.0)
    if fast[best] > WORTH_IT * present:
        parts = f"--set training.batch_tokens={best.batch_tokens} --set training.accumulate={best.accumulate}"
        text += f"; the same update is fastest with {parts}"
    return Check("batch size", True, best.batch_tokens, text)


def _speed_text(speed: BatchSpeed) -> str:
    return "not enough memory" if speed.tokens_per_second is None else f"{speed.tokens_per_second:,.0f}"
