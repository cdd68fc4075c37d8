"""Sums for a report of progress."""

from __future__ import annotations

import time

import torch


class Meter:
    """Sums since the last Progress or validation. Losses stay on the device until `mean` reads them."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.smoothed: list[torch.Tensor] = []
        self.plain: list[torch.Tensor] = []
        self.norms: list[torch.Tensor] = []
        self.tokens = 0

    def add(self, smoothed: torch.Tensor, plain: torch.Tensor, norm: torch.Tensor, n_tokens: int) -> None:
        self.smoothed.append(smoothed)
        self.plain.append(plain)
        self.norms.append(norm)
        self.tokens += n_tokens

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def mean(self, sums: list[torch.Tensor]) -> float:
        return float(torch.stack(sums).sum()) / self.tokens
