"""Shared by the lessons: pictures, exercises that check answers, and small trainings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LessonError(ImportError):
    """A package is missing. A notebook shows the message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"error: {self}"]


try:
    import matplotlib.pyplot as plt
    import numpy as np

    from glassformer import Settings, Translator, train
    from glassformer.advise import advise
    from glassformer.data.tables import Pair
    from glassformer.recipes.overrides import merge
    from glassformer.training.events import Event
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    raise LessonError(
        f"the lessons need the package {package!r}, which this notebook's Python does not have\n"
        "hint: run `make lessons` in the repository, or `pip install 'glassformer[lessons]'`, then restart the kernel"
    ) from None

plt.rcParams.update(
    {"figure.dpi": 72, "savefig.dpi": 72, "font.size": 9, "axes.titlesize": 10, "figure.autolayout": True}
)
np.set_printoptions(precision=4, suppress=True, linewidth=110)

Test = Callable[[Any], Any]
"""Whether an answer is right."""


def show_matrix(
    numbers: Any,
    title: str = "",
    rows: Sequence[object] | None = None,
    columns: Sequence[object] | None = None,
    *,
    ax: Axes | None = None,
    digits: int | None = 2,
    row_title: str = "",
    column_title: str = "",
    hidden: Any = None,
) -> None:
    """Draw a matrix as colored cells with its numbers; row 0 is at the top. `digits=None` draws no numbers.

    Blue is below zero, white is zero, red is above. Cells that are `hidden` are gray with a cross.
    """
    array = np.asarray(numbers, dtype=float)
    ax = plt.subplots(figsize=(1.6 + 0.5 * array.shape[1], 1.0 + 0.38 * array.shape[0]))[1] if ax is None else ax
    concealed = np.zeros(array.shape, dtype=bool) if hidden is None else np.broadcast_to(hidden, array.shape)
    limit = float(np.abs(array[~concealed]).max(initial=1e-9))
    colors = plt.get_cmap("RdBu_r").with_extremes(bad="0.8")
    ax.imshow(np.ma.array(array, mask=concealed), cmap=colors, vmin=-limit, vmax=limit, aspect="auto")
    for i, j in np.ndindex(*array.shape) if digits is not None else ():
        text = "×" if concealed[i, j] else f"{array[i, j]:.{digits}f}"
        dark = not concealed[i, j] and abs(array[i, j]) > 0.65 * limit
        ax.text(j, i, text, ha="center", va="center", color="white" if dark else "black", fontsize=8)
    for axis, labels, length in ((ax.yaxis, rows, array.shape[0]), (ax.xaxis, columns, array.shape[1])):
        if labels is not None:
            axis.set_ticks(range(length), [str(label) for label in labels])
    ax.set(title=title, xlabel=column_title, ylabel=row_title)


class Exercises:
    """The exercises of a lesson: number -> a test of the answer, and a hint.

    `check` says whether an answer is right. `solve` checks the lesson's own answer, and stops the notebook if it fails.
    """

    def __init__(self, tests: Mapping[int, tuple[Test, str]]) -> None:
        self.tests = tests

    def check(self, number: int, answer: Any) -> None:
        """Print whether `answer` is right; `...` is no answer yet."""
        test, hint = self.tests[number]
        if answer is ...:
            print(f"Exercise {number}: no answer yet. Replace the three dots, and run the cell again.")
            return
        try:
            right = bool(test(answer))
        except Exception as error:  # of any kind: the answer is the reader's own
            print(f"Exercise {number}: your answer cannot be checked ({type(error).__name__}: {error}). Hint: {hint}")
            return
        print(f"Exercise {number}: right." if right else f"Exercise {number}: not yet. Hint: {hint}")

    def solve(self, number: int, answer: Any) -> None:
        """Print the lesson's answer. Raises AssertionError if it is wrong, or if the test accepts anything."""
        test, _ = self.tests[number]
        assert bool(test(answer)), f"the answer to exercise {number} is wrong"
        assert not self._accepts(number, None), f"exercise {number} accepts any answer"
        if isinstance(answer, np.ndarray):
            answer = f"an array of shape {answer.shape}"
        print(f"Exercise {number}: {answer.__name__ if callable(answer) else answer}")

    def _accepts(self, number: int, answer: Any) -> bool:
        try:
            return bool(self.tests[number][0](answer))
        except Exception:
            return False


def close(answer: Any, expected: Any, tolerance: float = 1e-3) -> bool:
    """Whether two arrays, or numbers, have the same shape and differ by at most `tolerance`."""
    one, other = np.asarray(answer, dtype=float), np.asarray(expected, dtype=float)
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=0, atol=tolerance))


def train_small(
    rows: Sequence[tuple[str, str]], changes: Mapping[str, Any], folder: Path | None = None
) -> tuple[Translator, list[Event], Path]:
    """Train on rows with the settings that zero configuration chooses, and `changes`: model, events, run directory."""
    pairs = [Pair(*row) for row in rows]
    folder = folder or Path(tempfile.mkdtemp()) / "run"
    run = train(pairs, Settings(**merge(advise(pairs).settings, changes)), folder)
    events = list(run)
    return Translator.load(folder, device="cpu"), events, folder
