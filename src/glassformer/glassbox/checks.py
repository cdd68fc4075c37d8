"""A trace checks itself: every step redone from its inputs, every label held against the tokens.

`check(trace)` works on the trace as it stands, so it finds what was changed in it afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import UsageError
from glassformer.glassbox.interpreter import Named, redo
from glassformer.glassbox.schema import Axis, Check, Step, Tokens, Trace
from glassformer.timelimit import check_time_limit

TOLERANCE = 1e-5

Array = NDArray[Any]


def check(trace: Trace, weights: Mapping[str, tuple[Array, tuple[str, ...]]] | None = None) -> list[Check]:
    """Redo every step and compare the labels. `weights`, numbers and axes, stand in where the trace has none."""
    known: dict[str, Named] = {}
    for name, (array, axes) in (weights or {}).items():
        known[name] = Named(array, axes)
    for name, tensor in trace.tensors.items():
        known[name] = Named(tensor.array(trace.axes), tuple(tensor.axes))
    return [*(_check_step(step, known) for step in trace.steps), *_check_labels(trace.axes, trace.tokens)]


def _check_step(step: Step, known: Mapping[str, Named]) -> Check:
    check_time_limit()
    missing = [name for name in step.inputs if name not in known]
    if missing:
        return Check(step.id, "step", 0.0, TOLERANCE, None, f"not in the trace: {', '.join(missing)}")
    recorded = known[step.output]
    try:
        redone = redo(step, [known[name] for name in step.inputs])
    except (UsageError, ValueError, IndexError) as error:
        return Check(step.id, "step", 0.0, TOLERANCE, False, str(error))
    if redone.axes != recorded.axes or redone.numbers.shape != recorded.numbers.shape:
        said, made = (", ".join(each.axes) for each in (recorded, redone))
        return Check(step.id, "axes", 0.0, TOLERANCE, False, f"its axes are said to be {said}; they are {made}")
    size = max(1.0, float(np.abs(redone.numbers).max(initial=0.0)))
    largest = float(np.abs(redone.numbers - recorded.numbers).max(initial=0.0)) / size
    return Check(step.id, "step", largest, TOLERANCE, largest <= TOLERANCE)


def _check_labels(axes: Mapping[str, Axis], tokens: Tokens) -> list[Check]:
    """The labels of positions are the texts of the tokens."""
    sides = [("source", tokens.source, None), ("target", tokens.target_in, tokens.target_out)]
    if tokens.gold_in is not None:
        sides.append(("gold_target", tokens.gold_in, tokens.gold))
    checks = []
    for name, fed, asked in sides:
        wanted = [token.text for token in fed]
        predicted = None if asked is None else [token.text for token in asked]
        same = all(
            axis.labels == wanted and axis.predicted == (predicted if axis is axes[name] else None)
            for axis in (axes[name], axes[f"{name}_key"])
        )
        note = "" if same else "the labels of this axis are not its tokens"
        checks.append(Check(name, "axes", 0.0, 0.0, same, note))
    return checks
