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


@dataclass(frozen=True)
class Update:
    """One update: its step, its batches, the sums of its losses."""

    step: int
    batches: Sequence[NDArray[np.int64]]
    sums: Sums


@dataclass(frozen=True)
class Reading:
    """Means over the target tokens of the finite updates, their rate, and the updates that were not finite."""

    n_tokens: int
    loss: float
    plain: float
    norm: float
    tokens_per_second: float
    skipped: list[Update]


class Clock:
    """The seconds of training, those `earlier` than now included."""

    def __init__(self, earlier: float) -> None:
        self._begun = time.perf_counter() - earlier

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begun


class Meter:
    """The updates since the last Progress or validation. Their sums stay on the device until `read`.

    `skipped_in_a_row` counts the last ones that were not finite, until then.
    """

    def __init__(self) -> None:
        self.skipped_in_a_row = 0
        self.restart()

    def restart(self) -> None:
        """Forget the updates, and measure the time from now on."""
        self.begun = time.perf_counter()
        self.updates: list[Update] = []

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def read(self) -> Reading:
        """Return the means and the updates that were not finite, and start again."""
        updates, seconds = self.updates, self.seconds
        self.restart()
        sums = [torch.stack([update.sums.smoothed, update.sums.plain, update.sums.norm]) for update in updates]
        numbers = (torch.stack(sums) if sums else torch.empty(0, 3)).cpu().double().numpy()
        finite = np.isfinite(numbers[:, 0]) & np.isfinite(numbers[:, 2])
        skipped = [update for update, is_finite in zip(updates, finite, strict=True) if not is_finite]
        for is_finite in finite:
            self.skipped_in_a_row = 0 if is_finite else self.skipped_in_a_row + 1
        n_tokens = sum(update.sums.n_tokens for update, is_finite in zip(updates, finite, strict=True) if is_finite)
        if not n_tokens:
            return Reading(0, math.nan, math.nan, math.nan, 0.0, skipped)
        smoothed, plain, _ = numbers[finite].sum(axis=0).tolist()
        norm, speed = float(numbers[finite, 2].mean()), n_tokens / seconds
        return Reading(n_tokens, smoothed / n_tokens, plain / n_tokens, norm, speed, skipped)
