"""All errors for the user, as one tree.

    GlassformerError            exit code 1
    ├── UsageError              2   a command or call that is not valid
    │   ├── SettingsError       2   an unknown setting or a value that is not valid
    │   └── ColumnError         2   a column that the table does not have
    ├── TableError              1   a table that cannot be read
    ├── TextError               1   a text that the vocabulary or the model cannot represent
    │   └── TooLongError        1   texts that are longer than the model takes
    ├── ModelFileError          1   a model file that is missing, damaged or not valid
    ├── RunError                1   a run directory or output that cannot be found, trained or resumed
    │   ├── WriteError          1   a file that cannot be written, or a run directory that was moved
    │   └── DivergedError       1   a training whose loss is not finite
    ├── DeviceError             1   a device or precision that is not available, or too little memory
    ├── EngineError             1   an engine whose results differ from those of the model
    │   └── NotFiniteError      1   a log-probability that is NaN or infinite
    ├── TimeLimitError          1   a computation that took longer than its time limit
    ├── BusyError               1   a request that is not accepted now
    └── MissingExtraError       1   an optional library that is not installed or cannot be used

Other exit codes: 3 when `--strict` has findings, 4 when `translate` left rows
empty (a text that is too long, an input that is missing), 130 when interrupted.

Each error says what happened and, if known, where, what it got, what it expected and what to do next. The parts are
attributes for programs; `str(error)` is the text for people.
"""

from __future__ import annotations

import reprlib
from itertools import islice

TYPE_CHECKING = False  # see glassformer/__init__.py
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, ClassVar, Self

EXIT_FINDINGS, EXIT_LEFT_OUT, EXIT_INTERRUPTED = 3, 4, 130
INTERRUPTED = "interrupted; no file is incomplete, but standard output may be"
QUOTED = 80  # maximum length of a quoted value in characters


class GlassformerError(Exception):
    """Base class of all errors for the user; never raised itself.

    `what` is one sentence. `where`, `got`, `expected` and `hint` are the details, or None. `is_told`: another process
    of the run prints it.
    """

    exit_code: ClassVar[int] = 1
    is_told = False

    def __init__(
        self,
        what: str,
        *,
        where: str | None = None,
        got: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.what, self.where, self.got, self.expected, self.hint = what, where, got, expected, hint
        super().__init__(what)

    def __str__(self) -> str:
        parts = (("where", self.where), ("got", self.got), ("expected", self.expected), ("next", self.hint))
        return "\n".join([self.what, *(f"  {name}: {text}" for name, text in parts if text is not None)])


class UsageError(GlassformerError):
    """A command or call is not valid."""

    exit_code = 2


class SettingsError(UsageError):
    """A setting does not exist, or its value is not valid."""


class ColumnError(UsageError):
    """A requested column is not in the table."""


class TableError(GlassformerError):
    """A table cannot be read."""


class TextError(GlassformerError):
    """The vocabulary or the model cannot represent a text."""


class TooLongError(TextError):
    """Texts are longer than the model takes."""

    lengths: Mapping[int, int] = {}
    """The index of each of the texts in its call, from 0, and its number of tokens."""

    @classmethod
    def of(cls, lengths: Mapping[int, int], where: Sequence[str], maximum: int) -> Self:
        """Create the error of these texts; `where[i]` names text i."""
        shown_texts = [f"{where[row]} ({length} tokens)" for row, length in islice(lengths.items(), 10)]
        error = cls(
            "a text is longer than the model takes; nothing was done",
            got=", ".join(shown_texts) + (f" and {len(lengths) - 10} more" if len(lengths) > 10 else ""),
            expected=f"at most {maximum} tokens",
            hint="split these texts or leave them out, or train with a larger data.max_source_length",
        )
        error.lengths = lengths
        return error


class ModelFileError(GlassformerError):
    """A model file is missing, damaged, not valid, of another program or of another version."""


class RunError(GlassformerError):
    """A run or another output cannot be written, found or resumed."""


class WriteError(RunError):
    """A file cannot be written, or a run directory was moved or removed during training."""


class DivergedError(RunError):
    """A training diverged: its loss is not finite."""


class DeviceError(GlassformerError):
    """A device, precision or amount of memory is not available on this machine."""


class EngineError(GlassformerError):
    """The results of an engine differ from those of the model."""


class TimeLimitError(GlassformerError):
    """A computation took longer than its time limit."""


class BusyError(GlassformerError):
    """A request is not accepted now: too many others are waiting, or no more are taken. It can be repeated later."""


class NotFiniteError(EngineError):
    """The model computes a log-probability that is NaN or infinite for a text."""

    row: int | None = None
    """The index of the text in its call, from 0."""

    @classmethod
    def at(cls, row: int, got: str) -> Self:
        """Create the error of text `row`, an index from 0."""
        error = cls(
            "the model computes numbers that are not finite",
            where=f"text {row + 1}",
            got=got,
            expected="a finite log-probability",
            hint="its weights are too large: train again with a smaller training.learning_rate, "
            "or use an earlier checkpoint",
        )
        error.row = row
        return error

    def moved_to(self, row: int) -> Self:
        """Return the same error for another index of the text."""
        return type(self).at(row, self.got or "")


class MissingExtraError(GlassformerError):
    """A required optional library is not installed, or cannot be used: `problem` says why."""

    def __init__(
        self, feature: str, *, package: str, extra: str, problem: str = "is not installed", hint: str | None = None
    ) -> None:
        super().__init__(
            f"{feature} needs the package {package!r}, which {problem}",
            hint=hint or f"pip install '.[{extra}]' in the folder that has pyproject.toml",
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, NumPy or PyTorch says that there is not enough memory, on a CPU or another device."""
    phrases = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "ALLOC_FAILED")
    return isinstance(error, MemoryError) or any(words in str(error) for words in phrases)


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number and a noun in its form for that number: "1 row", "2,000 rows"."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return a hint with the valid word nearest to `word`, if one is near, and the first 30 valid words."""
    import difflib

    choices = [str(choice)[:QUOTED] for choice in valid]
    word = word[:QUOTED]
    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.5)
    listed = ", ".join(choices[:30]) + (", …" if len(choices) > 30 else "")
    return f"did you mean {close[0]!r}? valid: {listed}" if close else f"valid: {listed}"


def quoted(value: object) -> str:
    """Return `repr(value)` for an error, shortened in the middle to at most QUOTED characters."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = QUOTED
    try:
        text = short.repr(value)
    except ValueError:  # an integer of more digits than Python converts
        digits = f" of about {int(value.bit_length() * 0.30103):,} digits" if isinstance(value, int) else ""
        text = f"a number{digits}, which is too long"
    return text if len(text) <= QUOTED else f"{text[: QUOTED // 2]}…{text[1 - QUOTED // 2 :]}"


def first_fault(error: Any, *above: str, whole: str = "the whole") -> tuple[str, str, str]:
    """Return the place of the first fault of pydantic's ValidationError, in dots, its value and what was expected."""
    first = error.errors(include_url=False)[0]
    place, message = ".".join(map(str, (*above, *first["loc"]))), first["msg"].removeprefix("Value error, ")
    got = quoted(first["input"])
    if first["type"] == "json_invalid":
        return place or whole, f"{got} ({first['ctx']['error']})", "JSON"
    return place or whole, got, message[:1].lower() + message[1:]


def shortened(text: str, limit: int = 60) -> str:
    """Return at most `limit` characters of a text, for a message."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
