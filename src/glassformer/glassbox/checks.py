"""The checks of a trace: steps recomputed from their inputs, labels against tokens.

`check(trace)` reads nothing but the trace, so it finds what was changed in one afterwards. `pytorch.py` compares its
results with those of the PyTorch model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import UsageError
from glassformer.glassbox.interpreter import Named, recompute
from glassformer.glassbox.schema import Axis, Check, Step, Tokens, Trace
from glassformer.inference.timelimit import check_time_limit

TOLERANCE = 1e-5

Array = NDArray[Any]


def check(trace: Trace, weights: Mapping[str, tuple[Array, tuple[str, ...]]] | None = None) -> list[Check]:
    """Recompute every step and compare the labels. `weights`, numbers and axes, are for a trace without its own."""
    known = {name: Named(array, axes) for name, (array, axes) in (weights or {}).items()}
    known |= {name: Named(trace.array(name), tuple(tensor.axes)) for name, tensor in trace.tensors.items()}
    return [*(_check_step(step, known) for step in trace.steps), *_check_labels(trace.axes, trace.tokens)]


def _check_step(step: Step, known: Mapping[str, Named]) -> Check:
    check_time_limit()
    missing = [name for name in step.inputs if name not in known]
    if missing:
        return Check(step.id, "step", 0.0, TOLERANCE, None, f"not in the trace: {', '.join(missing)}")
    recorded = known[step.output]
    try:
        recomputed = recompute(step, [known[name] for name in step.inputs])
    except (UsageError, ValueError, IndexError) as error:
        return Check(step.id, "step", 0.0, TOLERANCE, False, str(error))
    if recomputed.axes != recorded.axes or recomputed.numbers.shape != recorded.numbers.shape:
        note = f"its axes are recorded as {', '.join(recorded.axes)}; they are {', '.join(recomputed.axes)}"
        return Check(step.id, "axes", 0.0, TOLERANCE, False, note)
    size = max(1.0, float(np.abs(recomputed.numbers).max(initial=0.0)))
    largest = float(np.abs(recomputed.numbers - recorded.numbers).max(initial=0.0)) / size
    return Check(step.id, "step", largest, TOLERANCE, largest <= TOLERANCE)


def _check_labels(axes: Mapping[str, Axis], tokens: Tokens) -> list[Check]:
    """The labels of positions are the texts of the tokens."""
    sides = [("source", tokens.source, None), ("target", tokens.target_in, tokens.target_out)]
    if tokens.gold_in is not None:
        sides.append(("gold_target", tokens.gold_in, tokens.gold))
    checks = []
    for name, fed, targets in sides:
        labels = [token.text for token in fed]
        predicted = None if targets is None else [token.text for token in targets]
        same = all(
            axis.labels == labels and axis.predicted == (predicted if axis is axes[name] else None)
            for axis in (axes[name], axes[f"{name}_key"])
        )
        note = "" if same else "the labels of this axis are not its tokens"
        checks.append(Check(name, "axes", 0.0, 0.0, same, note))
    return checks
