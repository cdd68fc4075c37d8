"""What the updates since the last report of progress came to."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.training.update import Sums

SPIKE_FACTOR, SPIKE_DEVIATIONS, SPIKE_RISE = 1.5, 6.0, 0.1
"""Times the usual loss, standard deviations above it, and nats per token above it: a spike exceeds all three."""

USUAL_WEIGHT = 0.02  # of a step in the running mean of the loss and of its square
MIN_STEPS = 100  # before a loss is called unusual


@dataclass(frozen=True)
class Update:
    """One update: its step, its batches, the sums of its losses."""

    step: int
    batches: Sequence[NDArray[np.int64]]
    sums: Sums


@dataclass(frozen=True)
class Reading:
    """Means over the target tokens of the finite updates, their rate, the updates that were not finite, and spikes."""

    n_tokens: int
    loss: float
    plain: float
    norm: float
    tokens_per_second: float
    skipped: list[Update]
    spikes: list[tuple[int, float, float]]


@dataclass
class Usual:
    """Running mean and variance of the loss of an update, for `Meter`, over a whole run."""

    steps: int = 0
    mean: float = 0.0
    square: float = 0.0

    def is_spike(self, loss: float) -> bool:
        """Whether a loss (nats per token) is far above the usual one; then it does not count as usual."""
        deviation = math.sqrt(max(0.0, self.square - self.mean**2))
        limit = max(SPIKE_FACTOR * self.mean, self.mean + max(SPIKE_DEVIATIONS * deviation, SPIKE_RISE))
        if self.steps >= MIN_STEPS and loss > limit:
            return True
        self.steps += 1
        weight = max(USUAL_WEIGHT, 1 / self.steps)
        self.mean += weight * (loss - self.mean)
        self.square += weight * (loss * loss - self.square)
        return False


class Clock:
    """The seconds of training, those `earlier` than now included."""

    def __init__(self, earlier: float) -> None:
        self._begun = time.perf_counter() - earlier

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begun


class Meter:
    """The updates since the last Progress or validation. Their sums stay on the device until `read`."""

    def __init__(self) -> None:
        self.usual = Usual()
        self.restart()

    def restart(self) -> None:
        """Forget the updates, and measure the time from now on."""
        self.begun = time.perf_counter()
        self.updates: list[Update] = []

    def add(self, step: int, batches: Sequence[NDArray[np.int64]], sums: Sums) -> None:
        self.updates.append(Update(step, batches, sums))

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def read(self) -> Reading:
        """Return the means and what was unusual, and start again."""
        updates, seconds = self.updates, self.seconds
        self.restart()
        sums = [torch.stack([update.sums.smoothed, update.sums.plain, update.sums.norm]) for update in updates]
        numbers = (torch.stack(sums) if sums else torch.empty(0, 3)).cpu().double().numpy()
        finite = np.isfinite(numbers[:, 0]) & np.isfinite(numbers[:, 2])
        skipped = [update for update, is_finite in zip(updates, finite, strict=True) if not is_finite]
        spikes = []
        for update, smoothed in zip(updates, numbers[:, 0].tolist(), strict=True):
            loss, usual = smoothed / update.sums.n_tokens, self.usual.mean
            if math.isfinite(loss) and self.usual.is_spike(loss):
                spikes.append((update.step, loss, usual))
        n_tokens = sum(update.sums.n_tokens for update, is_finite in zip(updates, finite, strict=True) if is_finite)
        if not n_tokens:
            return Reading(0, math.nan, math.nan, math.nan, 0.0, skipped, spikes)
        smoothed, plain, _ = numbers[finite].sum(axis=0).tolist()
        norm, speed = float(numbers[finite, 2].mean()), n_tokens / seconds
        return Reading(n_tokens, smoothed / n_tokens, plain / n_tokens, norm, speed, skipped, spikes)
