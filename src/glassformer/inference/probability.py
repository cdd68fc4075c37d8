"""The calibrated probability of an answer, from the scores of its beam. Exports have this file too."""

from __future__ import annotations

import math
from collections.abc import Sequence

MAX_LOG_ODDS = 10.0  # of a feature, on either side of 0


def features(scores: Sequence[float]) -> tuple[float, float, float, float]:
    """Return 1, two log-odds of the best answer, whose score (nats) is the first: among the beam, and among all texts;
    and a tenth of the square of the former.
    """
    best, *others = scores
    own = among = best - math.log(-math.expm1(min(best, -1e-9)))
    if others:
        top = max(others)
        among = best - top - math.log(math.fsum(math.exp(other - top) for other in others))
    among, own = (max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, value)) for value in (among, own))
    return 1.0, among, own, among**2 / 10


def probability(weights: Sequence[float], scores: Sequence[float], limit: float = 1.0) -> float:
    """Return the probability that the best answer of a beam is right, at most `limit`; `scores` are all of the beam.

    Of three weights, that of the square is 0.
    """
    logit = math.fsum(weight * value for weight, value in zip(weights, features(scores), strict=False))
    return min(limit, 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0)  # e^700 is near the largest float
