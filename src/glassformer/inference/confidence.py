"""Confidence: the probability that an answer is right, calibrated on held-out rows.

    weights = fit(rows of features, right)    `evaluation.calibration` puts them into the model file
    beam_confidence(weights, scores)          of the best answer of a beam: see `inference.beam_confidence`

"Right" is an exact match: the answer equals a target that the table has for its source. It comes from a
logistic regression (Platt 1999) on two log-odds: of the answer against the rest of the beam, which tells more than its
own probability (Hashimoto et al. 2022), and against all other texts. The square of the first is a third feature, unless
its weight is negative: then an answer with large log-odds could be less probable than one with smaller log-odds. The
weights shrink toward a prior, the first log-odds: where no held-out answer is wrong, an answer with a close rival is
still uncertain.

The regression is not fitted on answers to texts unlike the training (`text.seen`), nor on answers that were cut off.
Their confidence is limited by the held-out answers of the same kind: (right + 1) / (all + 2), Laplace's rule of
succession, which is 1/2 where there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import UsageError

if TYPE_CHECKING:
    from glassformer.settings import DecodingSettings
    from glassformer.storage.modelfile import ModelFile
    from glassformer.storage.records import Calibration

MIN_SOURCES = 100
PRIOR = (0.0, 1.0, 0.0, 0.0)

Floats = NDArray[np.float64]


def fit(rows: Floats, right: Floats) -> Floats:
    """Return the weights of `features` [N 4] for `beam_confidence`: three if the weight of the square is negative."""
    weights = regression(rows, right, PRIOR)
    return weights if weights[3] >= 0 else regression(rows[:, :3], right, PRIOR[:3])


def regression(rows: Floats, right: Floats, prior: Sequence[float]) -> Floats:
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


# The searches that have them


def all_of_the_beam(decoding: DecodingSettings) -> DecodingSettings:
    """Return a search that returns all answers of its beam."""
    return decoding.override({"num_return_sequences": decoding.num_beams})


def has_confidence(calibration: Calibration | None, decoding: DecodingSettings) -> bool:
    """Whether the best answer of a search gets a confidence."""
    widths = decoding.num_beams, decoding.num_return_sequences
    return calibration is not None and not decoding.do_sample and widths == (calibration.num_beams,) * 2


def check_calibrated(
    model_files: Sequence[ModelFile],
    decoding: DecodingSettings,
    *,
    prefixes: bool = False,
    constrained: bool = False,
) -> None:
    """Raise UsageError for a search that has no calibration."""
    what = "the confidence of answers is not known"
    if len(model_files) > 1 + len(model_files[0].members):  # a file with its members is calibrated as one
        raise UsageError(what, got=f"an ensemble of {len(model_files)} models", expected="one model file")
    if decoding.do_sample:
        raise UsageError(what, got="an answer that is sampled", expected="greedy search or a beam")
    if constrained:
        raise UsageError(what, got="an answer of a given form", expected="no pattern and no choices")
    if prefixes:
        raise UsageError(what, got="an answer with a forced start", expected="no prefix")
    calibration, path = model_files[0].calibration, model_files[0].path or "MODEL"
    command = f"glassformer calibrate {path} TABLE"
    if calibration is None:
        hint = f"{command}, with at least {MIN_SOURCES} rows that were not trained on"
        raise UsageError(what, where=str(path), got="a model that is not calibrated", hint=hint)
    if calibration.num_beams != decoding.num_beams:
        got, expected = (f"a beam of {settings.num_beams}" for settings in (decoding, calibration))
        hint = f"--beam {calibration.num_beams}, or {command} --beam {decoding.num_beams}"
        raise UsageError(what, where=str(path), got=got, expected=f"{expected}, that of the calibration", hint=hint)
