"""From the seconds of every turn to what a table says: medians with their interval, ratios, shares of the peak."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """A median over the rounds, and its interval: lowest and highest round.

    Over five rounds that interval holds the true median with a chance of 1 - 2 · 2^-5 = 94 %, whatever the
    distribution; over seven, with 98 %.
    """

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Figure:
        return cls(statistics.median(values), min(values), max(values))

    def write(self, digits: int = 0) -> str:
        return f"{self.median:,.{digits}f} [{self.lowest:,.{digits}f}, {self.highest:,.{digits}f}]"


def rates(turns: Sequence[dict[str, float]], unit: str) -> list[float]:
    """`unit` a second, for each round."""
    return [turn[unit] / turn["seconds"] for turn in turns]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    """How many times ours is theirs: round by round, because rounds share their weather."""
    return Figure.of([mine / other for mine, other in zip(ours, theirs, strict=True)])
