"""The reference, writing down what it does: `Recorder` is a `reference.Note` that keeps every quantity and its step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.glassbox.catalogue import GOLD, describe, shown
from glassformer.glassbox.formulas import FORMULAS
from glassformer.glassbox.schema import Step
from glassformer.reference import Value
from glassformer.settings import ModelSettings

Array = NDArray[Any]
Edit = Callable[[str, Any], Any]
"""What stands in place of the quantity of a name; most come back as they are."""


class Recorder:
    """Keeps quantities under their names in a trace, what is given under `given`, and how each is made in `steps`.

    What a quantity is made of is known by identity: the arrays that the reference was handed before. `gold` puts all
    names of the decoder into "gold.…".
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
        self.gold = False
        self._name_of: dict[int, str] = {id(array): name for name, array in weights.items()}
        self._noted: dict[str, Array] = {}  # kept as they are: one that is gone could give its identity to another

    def __call__(self, name: str, value: Value, /, *made_of: Array | np.float64 | str | None) -> Value:
        name = self._named(name)
        entry, formula = describe(name, self.model)
        edited = value if self.edit is None else self.edit(name.removeprefix(GOLD), value)
        changed = edited is not value
        if entry.op is None:
            self._keep(name, edited, entry.axes)
            self.given.add(name)
            self._call(edited, name)
            return edited
        made = f"{name}_before_edit" if changed else name
        self._keep(made, value, entry.axes)
        inputs = [each for part in made_of if part is not None for each in self._inputs(part)]
        attributes = self._attributes(entry.op, name)
        words = entry.title, entry.words, formula, entry.section
        self.steps.append(Step(made, entry.op, inputs, made, attributes, *words))
        if changed:
            self._overwritten(name, value, edited, entry.axes)
        self._call(edited, name)
        return edited

    def _overwritten(self, name: str, value: Any, edited: Any, axes: tuple[str, ...]) -> None:
        """The step from a computed quantity to what an edit makes of it."""
        self._keep(f"{name}_edit", edited, axes)
        self._keep(f"{name}_edited", edited != value, axes)
        self.given |= {f"{name}_edit", f"{name}_edited"}
        inputs = [f"{name}_before_edit", f"{name}_edit", f"{name}_edited"]
        words = "after the edit", "What was edited stands in place of what was computed.", FORMULAS["overwrite"], ""
        self.steps.append(Step(name, "overwrite", inputs, name, {}, *words))
        self._keep(name, edited, axes)

    def know(self, name: str, value: Array) -> None:
        """Keep what is given from outside the reference."""
        name = self._named(name)
        self._keep(name, value, describe(name, self.model).entry.axes)
        self.given.add(name)
        self._call(value, name)

    def last_of(self, part: str) -> Array:
        """The stream after a sublayer: what the reference made last of it."""
        name = self._named(f"{part}.residual" if self.model.norm == "pre" else f"{part}_norm.output")
        return self._noted[name]

    def _named(self, name: str) -> str:
        return GOLD + shown(name) if self.gold else shown(name)

    def _keep(self, name: str, value: Any, axes: tuple[str, ...]) -> None:
        array = np.asarray(value)
        if array.ndim == 2 and len(axes) == 1:  # the mean of each row, as a column
            array = array[:, 0]
        self.arrays[name], self.axes[name] = array, axes

    def _call(self, value: Any, name: str) -> None:
        """From now on this very object is known by that name."""
        self._name_of[id(value)] = name
        self._noted[name] = value

    def _inputs(self, part: Any) -> list[str]:
        """The names of something that a quantity was made of."""
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
