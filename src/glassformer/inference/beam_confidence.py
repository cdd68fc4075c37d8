"""The confidence of an answer, from the scores of its beam. Exports have this file too."""

from __future__ import annotations

import math
from collections.abc import Sequence

MAX_LOG_ODDS = 10.0  # of a feature, on either side of 0


def features(scores: Sequence[float]) -> tuple[float, float, float, float]:
    """Return 1, two log-odds of the best answer, among the beam and among all texts, and a tenth of the square of the
    former. `scores` (nats) are those of the beam, the best answer first.
    """
    best, *rivals = scores
    text_odds = rival_odds = best - math.log(-math.expm1(min(best, -1e-9)))
    if rivals:
        top = max(rivals)
        rival_odds = best - top - math.log(math.fsum(math.exp(rival - top) for rival in rivals))
    rival_odds, text_odds = (max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, value)) for value in (rival_odds, text_odds))
    return 1.0, rival_odds, text_odds, rival_odds**2 / 10


def beam_confidence(weights: Sequence[float], scores: Sequence[float], limit: float = 1.0) -> float:
    """Return the confidence of the best answer of a beam, at most `limit`; `scores` are all of the beam.

    With three weights, the weight of the square is 0.
    """
    logit = math.fsum(weight * value for weight, value in zip(weights, features(scores), strict=False))
    return min(limit, 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0)  # e^700 is near the largest float
