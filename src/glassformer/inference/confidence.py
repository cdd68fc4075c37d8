"""Confidence: the probability that an answer is right, calibrated on held-out rows.

    weights = fit(rows of features, right)         `inference.calibration` puts them into the model file
    probability(calibration, token_scores, …)      of the best answer of a search

"Right" is an exact match: the answer equals a target that the table has for its source. The probability is that of a
logistic regression (Platt 1999) on four features of the answer, all of which any search has anyway. Weights shrink
toward a prior: the probability that the model itself gives the answer. Where no held-out answer is wrong, it stays.

An answer to a text unlike the training (`text.seen`), or one that was cut off, is not of the kind that the regression
was fitted on. Its probability is limited by the held-out answers of that kind: (right + 1) / (all + 2), Laplace's rule
of succession, which is 1/2 where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.paper.settings import DecodingSettings
    from glassformer.ship.storage.modelfile import ModelFile
    from glassformer.ship.storage.records import Calibration

MIN_SOURCES = 100
PRIOR = (0.0, 1.0, 0.0, 0.0, 0.0)  # the model's own probability
ROUNDING = 1e-9  # of a log-probability: it is at most -ROUNDING, so that log-odds are finite

Floats = NDArray[np.float64]


def features(token_scores: Sequence[float], n_source_tokens: int) -> tuple[float, ...]:
    """Return 1, and four features of an answer.

    They are the log-odds that the model itself gives to the answer and to its least probable token, and the logarithms
    of the number of tokens of the answer (with `<eos>`) and of its source.
    """
    return (
        1.0,
        _log_odds(sum(token_scores)),
        _log_odds(min(token_scores)),
        math.log(len(token_scores)),
        math.log(max(1, n_source_tokens)),
    )


def _log_odds(log_probability: float) -> float:
    log_probability = min(log_probability, -ROUNDING)
    return log_probability - math.log(-math.expm1(log_probability))


def probability(calibration: Calibration, token_scores: Sequence[float], n_source_tokens: int, *, usual: bool) -> float:
    """Return the probability that the best answer of a search is right.

    `usual`: its text is not unlike the training, and it was not cut off.
    """
    values = features(token_scores, n_source_tokens)
    logit = sum(weight * value for weight, value in zip(calibration.weights, values, strict=True))
    found = 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0  # e^700 is near the largest float
    limit = (calibration.unusual_right + 1) / (calibration.unusual + 2)
    return found if usual else min(found, limit)


def fit(rows: Floats, right: Floats, prior: Sequence[float] = PRIOR) -> Floats:
    """Return the weights [F] of a logistic regression of `right` [N] on `rows` [N F], by Newton's method.

    They minimize the sum of the log losses plus half the squared distance from the prior, a strictly convex function:
    the minimum is unique, and finite even where no answer is wrong.
    """
    center = np.array(prior)

    def loss(weights: Floats) -> float:
        logits = rows @ weights
        return float(np.logaddexp(0, logits).sum() - right @ logits + ((weights - center) ** 2).sum() / 2)

    weights = center.copy()
    while True:
        p = np.exp(-np.logaddexp(0, -(rows @ weights)))
        gradient = rows.T @ (p - right) + weights - center
        hessian = (rows.T * (p * (1 - p))) @ rows + np.eye(len(center))
        step = np.linalg.solve(hessian, gradient)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-9:
            step /= 2  # far from the minimum, a whole step can be too long
        if np.abs(step).max() <= 1e-9:
            return weights
        weights = weights - step


def check_calibrated(
    model_files: Sequence[ModelFile], decoding: DecodingSettings, *, prefixes: bool = False, chosen: bool = False
) -> None:
    """Raise UsageError unless the best answers of a search get a probability."""
    what = "the probability that an answer is right is not known"
    if len(model_files) > 1:
        raise UsageError(what, got=f"an ensemble of {len(model_files)} models", expected="one model")
    if decoding.do_sample:
        raise UsageError(what, got="an answer that is sampled", expected="greedy search or a beam")
    if chosen:
        raise UsageError(what, got="an answer that a rule chose", expected="the best answer of the search")
    if prefixes:
        raise UsageError(what, got="an answer with a forced start", expected="no prefix")
    if model_files[0].calibration is None:
        path = model_files[0].path or "MODEL"
        hint = f"glassformer calibrate {path} TABLE, with at least {MIN_SOURCES} rows that were not trained on"
        raise UsageError(what, where=str(path), got="a model that is not calibrated", hint=hint)
