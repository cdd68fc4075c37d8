"""Shared by the lessons: pictures, exercises that check answers, and small trainings."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from torch.nn import Module

    from glassformer import ModelSettings


class LessonError(ImportError):
    """A package is missing. A notebook shows the message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"error: {self}"]


try:
    import matplotlib.pyplot as plt
    import numpy as np

    from glassformer import Settings, Translator, train
    from glassformer.data.tables import Pair
    from glassformer.planning.advise import advise
    from glassformer.planning.recipes.overrides import merge
    from glassformer.storage.modelfile import tensor_shapes
    from glassformer.training.events import Event
except ModuleNotFoundError as error:
    package = (error.name or "").partition(".")[0]
    raise LessonError(
        f"the lessons need the package {package!r}, which this notebook's Python does not have\n"
        "hint: run `make lessons` in the repository, then restart the kernel"
    ) from None

plt.rcParams.update(
    {"figure.dpi": 72, "savefig.dpi": 72, "font.size": 9, "axes.titlesize": 10, "figure.autolayout": True}
)
np.set_printoptions(precision=4, suppress=True, linewidth=110)

COLORS = {"query": "#7a43c9", "key": "#c02f5b", "value": "#12835b"}
"""One color each, in all lessons as in the glass box (`glassbox/page/style/base.css`)."""

NOT_RUN = """hint: a cell above has not been run, an import is missing, or the name has another spelling.
Menu Run > Run All Above Selected Cell runs all cells above."""


def _explain_unknown_names() -> None:
    """In a notebook, a NameError says what to do."""
    from IPython import get_ipython

    def show(shell: Any, kind: type[NameError], error: NameError, trace: Any, tb_offset: int | None = None) -> None:
        if kind is NameError:
            error.add_note(NOT_RUN)
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    if shell := get_ipython():
        shell.set_custom_exc((NameError,), show)


_explain_unknown_names()


Test = Callable[[Any], Any]
"""Whether an answer is right. It may raise AnswerError, which says why it is not."""


class AnswerError(Exception):
    """An answer is not right: why, in words."""


def _color_of(title: str, otherwise: str = "black") -> str:
    """The color of what the title of an axis names."""
    return next((color for name, color in COLORS.items() if name in title), otherwise)


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
    ax.set_title(title)
    ax.set_xlabel(column_title, color=_color_of(column_title))
    ax.set_ylabel(row_title, color=_color_of(row_title))


def show_links(
    weights: Any,
    rows: Sequence[object],
    columns: Sequence[object],
    title: str = "",
    *,
    ax: Axes | None = None,
    row_title: str = "",
    column_title: str = "",
    threshold: float = 0.05,
) -> None:
    """Draw weights as lines from their rows, above, to their columns, below: the thicker, the larger the weight.

    Weights below `threshold` have no line.
    """
    array = np.asarray(weights, dtype=float)
    width = max(5.0, 0.55 * max(array.shape))
    ax = plt.subplots(figsize=(width, 2.3))[1] if ax is None else ax
    above, below = ((np.arange(n) + 0.5) / n for n in array.shape)
    for i, j in zip(*np.nonzero(array >= threshold), strict=True):
        style = {"color": COLORS["value"], "lw": 1 + 6 * array[i, j], "alpha": 0.2 + 0.7 * array[i, j]}
        ax.plot([above[i], below[j]], [0.9, 0.1], **style)
    for y, positions, labels, name in ((1, above, rows, row_title), (0, below, columns, column_title)):
        for x, label in zip(positions, labels, strict=True):
            ax.text(x, y, str(label).replace(" ", "␣"), ha="center", va="center")
        ax.text(-0.02, y, name, ha="right", va="center", color=_color_of(name, "0.4"))
    ax.set(title=title, xlim=(0, 1), ylim=(-0.1, 1.1))
    ax.axis("off")


class Exercises:
    """The exercises of a lesson: number -> a test of the answer, and a hint.

    `check` says whether an answer is right. `solve` checks the lesson's own answer, and stops the notebook if it fails.
    A test must not use names of the notebook when it is called: the reader can give them another meaning.
    """

    def __init__(self, tests: Mapping[int, tuple[Test, str]]) -> None:
        self.tests = tests

    def check(self, number: int, answer: Any) -> None:
        """Print whether `answer` is right; `...` is no answer yet."""
        test, hint = self.tests[number]
        if answer is ...:
            print(f"Exercise {number}: no answer yet. Replace the three dots after `answer =`, and run the cell again.")
            return
        try:
            with np.errstate(all="ignore"):
                result = "right." if test(answer) else f"not yet.\nHint: {hint}"
        except AnswerError as reason:
            result = f"not yet: {reason}\nHint: {hint}"
        except Exception as error:  # of any kind: the answer is the reader's own
            result = f"your answer cannot be checked: {type(error).__name__}: {error}\nHint: {hint}"
        print(f"Exercise {number}: {result}")

    def solve(self, number: int, answer: Any) -> None:
        """Print the lesson's answer. Raises AssertionError if it is wrong, or if the test accepts anything."""
        assert self._accepts(number, answer), (
            f"the answer to exercise {number} is wrong; if you gave another meaning to a name of the lesson, "
            "run the cells above again"
        )
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


def right_numbers(expected: Any) -> Test:
    """A test of numbers: within 0.001 of `expected`, as a list, a tuple, an array or a tensor."""
    right = np.array(expected, dtype=float)

    def test(answer: Any) -> bool:
        array = as_numbers(answer, right.shape)
        if not close(array, right) and close(array, right.round(2), 1e-9):
            raise AnswerError("so far right, but give three decimals or more")
        return close(array, right)

    return test


def right_function(
    name: str, *cases: tuple[tuple[Any, ...], Any], transform: Callable[[Any], Any] = np.asarray
) -> Test:
    """A test of a function: for each case the arguments, and the result that `transform` of its result must be."""
    cases = copy.deepcopy(cases)

    def test(answer: Any) -> bool:
        if not callable(answer):
            raise AnswerError(f"give the function itself, without parentheses: answer = {name}")
        for arguments, expected in cases:
            call = f"{name}({', '.join(_text(argument) for argument in arguments)})"
            result, right = _result(answer, call, copy.deepcopy(arguments)), np.asarray(expected, dtype=float)
            try:
                array = transform(as_numbers(result, right.shape))
            except AnswerError as reason:
                raise AnswerError(f"the result of {call}: {reason}") from None
            if not np.allclose(array, right, rtol=1e-4, atol=1e-9):
                nearly = np.allclose(array, right, rtol=1e-3, atol=1e-9)
                raise AnswerError(
                    f"{call} is {_text(result)}, which is {'not exact enough' if nearly else 'not right'}"
                )
        return True

    return test


def _result(called: Callable[..., Any], call: str, arguments: tuple[Any, ...]) -> Any:
    """The result of the reader's function. Raises AnswerError if it stops or returns nothing."""
    try:
        result = called(*arguments)
    except Exception as error:  # of any kind
        raise AnswerError(f"{call} stops with {type(error).__name__}: {error}") from None
    if result is None or result is ...:
        raise AnswerError(f"{call} returns nothing; is `return` missing?")
    return result


def as_numbers(answer: Any, shape: tuple[int, ...]) -> Any:
    """The numbers of an answer in a shape; [[1, 2]] is the same as [1, 2]. Raises AnswerError if it has none."""
    if isinstance(answer, str):
        raise AnswerError(f"give numbers without quotes, not {_text(answer)}")
    if answer is None or callable(answer) or isinstance(answer, set | dict):
        raise AnswerError(f"give numbers, not {_text(answer)}")
    try:
        array = np.asarray(answer, dtype=float)
    except (TypeError, ValueError):
        raise AnswerError(f"give numbers without quotes, in rows of the same length, not {_text(answer)}") from None
    got, right = _without_leading_ones(array.shape), _without_leading_ones(shape)
    if got != right:
        comma = isinstance(answer, tuple) and not right
        raise AnswerError(f"give {_size(right)}, not {_size(got)}{' (write 1072, not 1,072)' if comma else ''}")
    if np.isnan(array).any():
        raise AnswerError("there is a nan (not a number) in it, as 0 / 0 and inf - inf give")
    return array.reshape(shape)


def _without_leading_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return _without_leading_ones(shape[1:]) if shape[:1] == (1,) else shape


def _size(shape: tuple[int, ...]) -> str:
    if len(shape) > 2:
        return f"an array of shape {shape}"
    numbers = f"{shape[-1]} number{'s' * (shape[-1] != 1)}" if shape else "one number"
    return f"{shape[0]} rows of {numbers}" if len(shape) == 2 else numbers


def _text(value: Any) -> str:
    """A value in few characters, for a message."""
    if callable(value):
        return f"the function {getattr(value, '__name__', '')}".rstrip()
    if hasattr(value, "shape"):  # an array or a tensor
        array = np.asarray(value)
        value = (array.round(4) if array.ndim and array.dtype.kind == "f" else array).tolist()
    if isinstance(value, float):
        return f"{value:.5g}"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def train_small(
    rows: Sequence[tuple[str, str]], changes: Mapping[str, Any], folder: Path | None = None
) -> tuple[Translator, list[Event], Path]:
    """Train on rows with the settings that zero configuration chooses, and `changes`: model, events, run directory."""
    pairs = [Pair(*row) for row in rows]
    folder = folder or Path(tempfile.mkdtemp()) / "run"
    run = train(pairs, Settings(**merge(advise(pairs).settings, changes)), folder)
    events = list(run)
    return Translator.load(folder, device="cpu"), events, folder


class PieceError(AssertionError):
    """A piece of the reader's code is not right yet. A notebook shows the message alone, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"not yet: {self}"]


def agree(piece: str, yours: Any, expected: Any, hint: str, tolerance: float = 1e-5) -> None:
    """Print by how much the numbers of a piece differ from those expected. Raises PieceError above `tolerance`."""
    if yours is None:
        raise PieceError(f"{piece} returns nothing; is `return` missing?\nhint: {hint}")
    got = np.asarray(yours.detach() if hasattr(yours, "detach") else yours, dtype=float)
    right = np.asarray(expected, dtype=float)
    if got.shape != right.shape:
        raise PieceError(f"{piece} gives shape {got.shape}, expected {right.shape}\nhint: {hint}")
    difference = np.abs(got - right)
    at = np.unravel_index(difference.argmax(), got.shape)  # the first NaN, where there is one
    if not difference[at] <= tolerance:
        where = f" at {tuple(map(int, at))}" if at else ""
        raise PieceError(f"{piece} gives {got[at]:.6g}{where}, expected {right[at]:.6g}\nhint: {hint}")
    print(f"{piece}: right, largest difference {difference[at]:.0e}")


def weights_of(module: Module, prefix: str, model: ModelSettings, vocabulary: int = 1) -> dict[str, Any]:
    """Return the weights of the reader's module, with `prefix` before their names, as a model file has them.

    Raises PieceError where the names or shapes are not those of a model file.
    """
    shapes = tensor_shapes(model, vocabulary, vocabulary)
    expected = {name: shape for name, shape in shapes.items() if name.startswith(prefix)}
    found = {prefix + name: weight.detach().numpy() for name, weight in module.named_parameters()}
    for name in sorted(expected.keys() | found.keys()):
        got = f"shape {found[name].shape}" if name in found else "no such weight"
        right = f"shape {expected[name]}" if name in expected else "no such weight"
        if got != right:
            raise PieceError(
                f"{type(module).__name__}, weight {name.removeprefix(prefix)!r}: {got}, expected {right}\n"
                "hint: the text has the names of the parts, and says which have a bias"
            )
    return found
