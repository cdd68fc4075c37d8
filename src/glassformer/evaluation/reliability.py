"""How good the confidence of answers is: compared with the fraction of answers that are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from glassformer.evaluation.metrics import References, Share, exact_matches

if TYPE_CHECKING:
    from glassformer.inference.translator import Translation

LEVELS = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99)
BINS = 10


@dataclass(frozen=True)
class Level:
    """The answers with at least this confidence: their number, the part of all, and the part of them that is right.

    `low` and `high` are the 95 % interval (`metrics.Share`). None: there are no answers.
    """

    minimum: float
    answers: int
    coverage: float
    accuracy: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Reliability:
    """The confidence of answers against what is right.

    `calibration_error` is the expected calibration error (Guo et al. 2017): the mean difference between the mean
    confidence and the fraction of right answers of BINS bins of equal width, weighted by their answers. `brier` is the
    mean squared difference of confidence and outcome, and `brier_constant` the same if the fraction of all right
    answers were the confidence of each.
    """

    calibration_error: float
    brier: float
    brier_constant: float
    levels: tuple[Level, ...]


def reliability(answers: Sequence[Translation], references: Sequence[References]) -> Reliability:
    """Return how good the confidence of these answers is; an answer without one (an empty text) does not count."""
    rows = [row for row, answer in enumerate(answers) if answer.confidence is not None]
    right = exact_matches([answers[row].text for row in rows], [references[row] for row in rows])
    p = np.array([answers[row].confidence for row in rows], np.float64)
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    gaps = np.bincount(bins, p - right, minlength=BINS)  # the sums of each bin
    levels = []
    for minimum in LEVELS:
        above = right[p >= minimum]
        share = Share(int(above.sum()), len(above))
        measured = (share.value, share.low, share.high) if len(above) else (None, None, None)
        levels.append(Level(minimum, len(above), len(above) / len(p), *measured))
    return Reliability(
        calibration_error=float(np.abs(gaps).sum() / len(p)),
        brier=float(np.mean((p - right) ** 2)),
        brier_constant=float(np.mean((right.mean() - right) ** 2)),
        levels=tuple(levels),
    )
