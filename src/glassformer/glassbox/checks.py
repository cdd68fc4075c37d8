"""The checks of a trace: steps recomputed from their inputs, labels against tokens, results against PyTorch.

`check(trace)` reads nothing but the trace, so it finds what was changed in one afterwards. `PyTorchModel` is the model
as it translates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.errors import UsageError
from glassformer.glassbox.explained import Explained, ForwardPass, Ids
from glassformer.glassbox.interpreter import Named, recompute
from glassformer.glassbox.recorder import Recorder
from glassformer.glassbox.schema import Axis, Check, Searches, Step, Tokens, Trace
from glassformer.inference.engines import search
from glassformer.inference.engines.torch import TorchEngine, build_model
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.model import Transformer

TOLERANCE = 1e-5
RELATIVE, ABSOLUTE = 1e-5, 1e-4  # of logits in float32
SCORE = 1e-3  # of a sum of log-probabilities in float32

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


class PyTorchModel:
    """The model as it translates: in float32, with the edits that change only text and weights."""

    def __init__(self, explained: Explained, forward: ForwardPass) -> None:
        self.explained, self.forward = explained, forward
        tensors = forward.edits.weights(explained.file.tensors, forward.model)
        self.model: Transformer = build_model(replace(explained.file, tensors=tensors))

    def check_logits(self, recorder: Recorder, fed: Ids) -> Check:
        """The recorded logits against those of the PyTorch model, within 1e-5 relative + 1e-4."""
        if not self.forward.edits.supported_by_pytorch:
            return _unchecked("logits")
        with torch.inference_mode():
            source, visible = torch.tensor([self.forward.ids]), torch.from_numpy(self.forward.visible)[None]
            logits = self.model(source, visible, torch.tensor([list(fed)]))[0].double().numpy()
        recorded = recorder.arrays["logits"]
        difference = np.abs(logits - recorded)
        allowed = RELATIVE * np.abs(recorded) + ABSOLUTE
        worst = np.unravel_index(np.argmax(difference / allowed), difference.shape)
        largest, tolerance = float(difference[worst]), float(allowed[worst])
        return Check("logits", "pytorch", largest, tolerance, largest <= tolerance, "PyTorch in float32")

    def check_search(self, searches: Searches) -> Check:
        """The answer of the trace against that of `translate`."""
        explained, edits = self.explained, self.forward.edits
        if not edits.supported_by_pytorch:
            return _unchecked("answer")
        constraints, tokenizer = explained.constraints(edits), explained.file.target_tokenizer
        ids = edits.source_ids(explained.source_ids, explained.file.source_tokenizer)
        engine = TorchEngine.of([self.model], tokenizer)
        found = search(engine, [ids], explained.decoding, constraints.max_new_tokens, constraints.prefixes)[0][0]
        answer = searches.beam.answers[0]
        largest = abs(found.score - answer.score)
        same = list(found.ids) == answer.ids and found.finished == answer.finished
        note = "the same tokens" if same else f"the answer of PyTorch is {tokenizer.decode(found.ids)!r}"
        return Check("answer", "search", largest, SCORE, same and largest <= SCORE, note)


def _unchecked(step: str) -> Check:
    kind: Literal["pytorch", "search"] = "pytorch" if step == "logits" else "search"
    return Check(step, kind, 0.0, 0.0, None, "the PyTorch model does not support these edits")
