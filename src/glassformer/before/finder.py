"""Search for a learning rate, in some updates from the first weights.

The range test is that of Smith 2017, "Cyclical Learning Rates for Training Neural Networks", section 3.3, with a rate
that rises by one factor at each update. It changes no setting: docs/log/2026-11-defaults.md compares its rates with the
advised ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from glassformer.before.checks import Check
from glassformer.before.measure import maximum_rate, updates, with_rate
from glassformer.training.update import Updater

FIRST_RATE, LAST_RATE, RATE_STEPS = 1e-6, 1.0, 100
DECAY = 0.9  # of the running mean of the loss
DIVERGED = 1.5  # times the lowest mean
TOO_LOW = 100  # times below the rate of the lowest loss


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


def find_rate(updater: Updater) -> RateTest:
    """Test learning rates from FIRST_RATE to LAST_RATE, one update each. The weights change."""
    settings = updater.settings
    mean, lowest = 0.0, math.inf
    points: list[tuple[float, float]] = []
    diverged = None
    rates = np.geomspace(FIRST_RATE, LAST_RATE, RATE_STEPS).tolist()
    for step, (rate, batches) in enumerate(zip(rates, updates(updater.corpus, settings.training), strict=False), 1):
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
