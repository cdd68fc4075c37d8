"""What the updates since the last report of progress came to."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from glassformer.training.update import Update


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

    def read(self) -> tuple[dict[str, float], list[Update]]:
        """Return means over the target tokens of the finite updates, named as in Progress, and the other updates.

        Without a finite update there are no means. The meter starts again.
        """
        updates, seconds = self.updates, self.seconds
        self.restart()
        sums = [torch.stack([update.smoothed, update.plain, update.norm]) for update in updates]
        numbers = (torch.stack(sums) if sums else torch.empty(0, 3)).cpu().double().numpy()
        finite = np.isfinite(numbers[:, 0]) & np.isfinite(numbers[:, 2])
        skipped = [update for update, is_finite in zip(updates, finite, strict=True) if not is_finite]
        for is_finite in finite:
            self.skipped_in_a_row = 0 if is_finite else self.skipped_in_a_row + 1
        n_tokens = sum(update.n_tokens for update, is_finite in zip(updates, finite, strict=True) if is_finite)
        if not n_tokens:
            return {}, skipped
        smoothed, plain, _ = numbers[finite].sum(axis=0).tolist()
        return {
            "loss": smoothed / n_tokens,
            "perplexity": math.exp(min(700.0, plain / n_tokens)),
            "gradient_norm": float(numbers[finite, 2].mean()),
            "tokens_per_second": n_tokens / seconds,
        }, skipped
