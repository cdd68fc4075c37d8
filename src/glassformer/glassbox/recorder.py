"""A record of a forward pass: `Recorder` is a `reference.Note` that keeps every quantity and the step that made it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from glassformer.glassbox.catalogue import Entry, describe, trace_name
from glassformer.glassbox.schema import MASK_REASONS, Axis, Op, Step, Tensor
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.reference import Value
from glassformer.settings import ModelSettings

Array = NDArray[Any]
Edit = Callable[[str, Any], Any]
"""The name and value of a quantity -> its value after the edits; most are returned unchanged."""


class Recorder:
    """Keeps quantities by their names in a trace, and the step of each in `steps`; `given` ones have no step.

    The inputs of a step are recognized by identity: they are arrays that the reference noted before.
    """

    def __init__(
        self,
        weights: Mapping[str, Array],
        model: ModelSettings,
        edit: Edit | None = None,
        label_smoothing: float = 0.0,
    ) -> None:
        self.weights, self.model, self.edit, self.label_smoothing = weights, model, edit, label_smoothing
        self.arrays: dict[str, Array] = {}
        self.axes: dict[str, tuple[str, ...]] = {}
        self.given: set[str] = set()
        self.steps: list[Step] = []
        self._name_of: dict[int, str] = {id(array): name for name, array in weights.items()}
        self._noted: dict[str, Any] = {}  # an array that was freed could give its id to another

    def __call__(self, name: str, value: Value, /, *made_of: Array | np.float64 | str | None) -> Value:
        check_time_limit()
        name = trace_name(name)
        entry = describe(name, self.model)
        edited = value if self.edit is None else self.edit(name, value)
        inputs = [input_name for part in made_of if part is not None for input_name in self._inputs(part)]
        if entry.op is None:
            self._keep(name, edited, entry.axes)
            self.given.add(name)
        elif edited is value:
            self._compute(name, value, entry, inputs)
        else:
            before, new, where = f"{name}_before_edit", f"{name}_edit", f"{name}_edited"
            self._compute(before, value, entry, inputs)
            self._keep(new, edited, entry.axes)
            self._keep(where, edited != value, entry.axes)
            self.given |= {new, where}
            overwrite = replace(describe("edit.overwrite", self.model), axes=entry.axes)
            self._compute(name, edited, overwrite, [before, new, where])
        self._name_of[id(edited)] = name
        self._noted[name] = edited
        return edited

    def _compute(self, name: str, value: Any, entry: Entry, inputs: list[str]) -> None:
        """Keep a quantity and the step that made it."""
        self._keep(name, value, entry.axes)
        op = cast("Op", entry.op)
        words = entry.title, entry.words, entry.formula, entry.section
        self.steps.append(Step(name, op, inputs, name, self._attributes(op, name), *words))

    def last_of(self, part: str) -> Array:
        """The residual stream after a sublayer."""
        last: Array = self._noted[f"{part}.residual" if self.model.norm == "pre" else f"{part}_norm.output"]
        return last

    def cross_attention(self) -> Array:
        """The weights of cross-attention `[T S]`, the mean over layers and heads."""
        cross = [f"decoder.{i}.cross.weights" for i in range(self.model.n_decoder_layers)]
        return np.mean([self.arrays[name] for name in cross], axis=(0, 1))  # type: ignore[no-any-return]

    def tensors(self, axes: dict[str, Axis]) -> dict[str, Tensor]:
        """The quantities as tensors; a mask has the reason in each cell that is hidden."""
        tensors = {}
        for name, array in self.arrays.items():
            names = self.axes[name]
            if name.endswith("_mask"):
                reason = MASK_REASONS.index("causal" if name.endswith("decoder.self_mask") else "source padding")
                shape = [axes[axis].length for axis in names]
                array = np.broadcast_to(np.where(array, 0, reason), shape).astype(np.uint8)
            origin: Literal["given", "step"] = "given" if name in self.given else "step"
            tensors[name] = Tensor.of(array, list(names), origin)
        return tensors

    def _keep(self, name: str, value: Any, axes: tuple[str, ...]) -> None:
        array = np.asarray(value)
        if array.ndim == 2 and len(axes) == 1:  # the mean of each row, as a column
            array = array[:, 0]
        self.arrays[name], self.axes[name] = array, axes

    def _inputs(self, part: Any) -> list[str]:
        """The names of an input of a step."""
        if isinstance(part, str):
            return [name for name in (f"{part}.weight", f"{part}.bias") if name in self.weights]
        return [self._name_of[id(part)]]

    def _attributes(self, op: str, name: str) -> dict[str, float]:
        model = self.model
        return {
            "sinusoids": {"base": model.position_base, "d_model": model.d_model},
            "project_heads": {"n_heads": model.n_heads, "as_keys": float(not name.endswith("queries"))},
            "layer_norm": {"eps": model.norm_eps},
            "smooth_targets": {"label_smoothing": self.label_smoothing},
        }.get(op, {})
