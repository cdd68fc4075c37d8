"""Recompute a step from its recorded inputs: every op of the closed set, in NumPy, with the axes of its result.

It shares no code with `reference.py`. An op takes numbers and the names of their axes, so that a transposed or
mislabeled tensor is found even if the lengths are equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.glassbox.schema import Op, Trace

Numbers = NDArray[Any]


class Named(NamedTuple):
    """Numbers, and the names of their axes."""

    numbers: Numbers
    axes: tuple[str, ...]


def largest_difference(trace: Trace) -> float:
    """The largest difference between the tensors of a trace with weights and their steps, relative to the tensor."""

    def read(name: str) -> Named:
        return Named(trace.array(name).astype(np.float64), tuple(trace.tensors[name].axes))

    differences = []
    for step in trace.steps:
        recorded, found = read(step.output), OPERATIONS[step.op](*map(read, step.inputs), **step.attributes)
        _check_axes(found.axes, recorded.axes)
        size = max(1.0, float(np.abs(found.numbers).max(initial=0.0)))
        differences.append(float(np.abs(found.numbers - recorded.numbers).max(initial=0.0)) / size)
    return max(differences)


def _check_axes(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert one == other


def _elementwise(function: Callable[[Numbers, Numbers], Numbers]) -> Callable[[Named, Named], Named]:
    def operate(x: Named, y: Named) -> Named:
        if y.axes:  # a scalar goes with everything
            _check_axes(x.axes, y.axes)
        return Named(function(x.numbers, y.numbers), x.axes)

    return operate


def _embed(ids: Named, table: Named) -> Named:
    return Named(table.numbers[ids.numbers.astype(int)], (*ids.axes, *table.axes[1:]))


def _sinusoids(numbers: Named, *, base: float, d_model: float) -> Named:
    pairs = np.arange(int(d_model)) // 2
    angles = np.outer(numbers.numbers, float(base) ** (-2.0 * pairs / d_model))
    waves = np.where(np.arange(int(d_model)) % 2, np.cos(angles), np.sin(angles))
    return Named(waves, (*numbers.axes, "d_model"))


def _linear(x: Named, weight: Named, bias: Named | None = None) -> Named:
    _check_axes(x.axes[-1:], weight.axes[1:])
    product = x.numbers @ weight.numbers.T
    return Named(product + (0.0 if bias is None else bias.numbers), (x.axes[0], weight.axes[0]))


def _project_heads(x: Named, weight: Named, bias: Named | None = None, *, n_heads: float, as_keys: float) -> Named:
    """x W_iᵀ for each head i, which has the rows i·d … (i+1)·d - 1 of the matrix."""
    joined = _linear(x, weight, bias)
    rows, width = joined.numbers.shape
    heads = joined.numbers.reshape(rows, int(n_heads), width // int(n_heads)).transpose(1, 0, 2)
    positions = f"{x.axes[0]}_key" if as_keys else x.axes[0]
    return Named(heads, ("head", positions, joined.axes[1].removeprefix("heads_")))


def _matmul(x: Named, y: Named) -> Named:
    _check_axes((x.axes[0], x.axes[2]), y.axes[:2])
    return Named(np.einsum("htj,hjd->htd", x.numbers, y.numbers), (*x.axes[:2], y.axes[2]))


def _matmul_transposed(x: Named, y: Named) -> Named:
    _check_axes((x.axes[0], x.axes[2]), (y.axes[0], y.axes[2]))
    return Named(np.einsum("htd,hsd->hts", x.numbers, y.numbers), (*x.axes[:2], y.axes[1]))


def _softmax(scores: Named, mask: Named) -> Named:
    """Over the last axis, where the mask is 0; a row with nothing visible is all zeros."""
    _check_axes(scores.axes[1:], mask.axes)
    visible = np.broadcast_to(mask.numbers == 0, scores.numbers.shape)
    largest = np.where(visible, scores.numbers, -np.inf).max(axis=-1, keepdims=True, initial=-1e300)
    powers = np.exp(np.minimum(scores.numbers - largest, 0.0)) * visible
    totals = powers.sum(axis=-1, keepdims=True)
    return Named(np.divide(powers, totals, out=np.zeros_like(powers), where=totals > 0), scores.axes)


def _concatenate_heads(heads: Named) -> Named:
    n_heads, rows, width = heads.numbers.shape
    joined = heads.numbers.transpose(1, 0, 2).reshape(rows, n_heads * width)
    return Named(joined, (heads.axes[1], f"heads_{heads.axes[2]}"))


def _mean(x: Named) -> Named:
    return Named(x.numbers.sum(axis=1) / x.numbers.shape[1], x.axes[:1])


def _variance(x: Named) -> Named:
    return Named(x.numbers.var(axis=1), x.axes[:1])


def _layer_norm(x: Named, mean: Named, variance: Named, gain: Named, bias: Named, *, eps: float) -> Named:
    for row in (mean, variance):
        _check_axes(row.axes, x.axes[:1])
    for feature in (gain, bias):
        _check_axes(feature.axes, x.axes[1:])
    deviation = np.sqrt(variance.numbers + eps)
    return Named((x.numbers - mean.numbers[:, None]) / deviation[:, None] * gain.numbers + bias.numbers, x.axes)


def _gelu(x: Named) -> Named:
    cdf = [(1 + math.erf(number / math.sqrt(2))) / 2 for number in x.numbers.ravel().tolist()]
    return Named(x.numbers * np.reshape(cdf, x.numbers.shape), x.axes)


def _log_softmax(x: Named) -> Named:
    return Named(x.numbers - np.logaddexp.reduce(x.numbers, axis=1, keepdims=True), x.axes)


def _add_copies(logits: Named, scores: Named, copied: Named) -> Named:
    """log(exp z + Σ exp u) of each token, over the source positions whose token it is."""
    _check_axes(scores.axes, (*logits.axes[:1], *copied.axes))
    numbers = logits.numbers.copy()
    for position, token in enumerate(copied.numbers.astype(int)):
        if token >= 0:
            numbers[:, token] = np.logaddexp(numbers[:, token], scores.numbers[:, position])
    return Named(numbers, logits.axes)


def _smooth_targets(ids: Named, like: Named, *, label_smoothing: float) -> Named:
    """A row for each id: 1 - ε at the id plus ε / V everywhere; ε is `label_smoothing`, V the width of `like`."""
    _check_axes(ids.axes, like.axes[:1])
    smoothed = np.full(like.numbers.shape, label_smoothing / like.numbers.shape[1])
    smoothed[np.arange(len(smoothed)), ids.numbers.astype(int)] += 1 - label_smoothing
    return Named(smoothed, like.axes)


def _cross_entropy(targets: Named, log_probs: Named) -> Named:
    _check_axes(targets.axes, log_probs.axes)
    return Named(-np.einsum("tv,tv->t", targets.numbers, log_probs.numbers), targets.axes[:1])


def _overwrite(x: Named, new: Named, where: Named) -> Named:
    for other in (new, where):
        _check_axes(x.axes, other.axes)
    return Named(np.where(where.numbers != 0, new.numbers, x.numbers), x.axes)


OPERATIONS: dict[Op, Callable[..., Named]] = {
    "embed": _embed,
    "sinusoids": _sinusoids,
    "multiply": _elementwise(np.multiply),
    "add": _elementwise(np.add),
    "divide": _elementwise(np.divide),
    "project_heads": _project_heads,
    "linear": _linear,
    "matmul": _matmul,
    "matmul_transposed": _matmul_transposed,
    "softmax": _softmax,
    "concatenate_heads": _concatenate_heads,
    "mean": _mean,
    "variance": _variance,
    "layer_norm": _layer_norm,
    "relu": lambda x: Named(np.maximum(x.numbers, 0.0), x.axes),
    "gelu": _gelu,
    "swish": lambda x: Named(x.numbers / (1.0 + np.exp(np.minimum(-x.numbers, 700.0))), x.axes),
    "add_copies": _add_copies,
    "log_softmax": _log_softmax,
    "smooth_targets": _smooth_targets,
    "cross_entropy": _cross_entropy,
    "overwrite": _overwrite,
}
