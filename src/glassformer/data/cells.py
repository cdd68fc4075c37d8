"""Values of tables with types, as text: JSON Lines, Parquet, Arrow and frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

from glassformer.data.delimited import Row
from glassformer.data.ledger import Fault, Reason

Kind = Literal["text", "optional"]
"""What a cell must be: text, or text that may be missing and is then empty."""


class FaultError(ValueError):
    """A value that is not valid in a table."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason)
        self.fault = Fault(reason, detail)


def text_row(
    values: Sequence[object], names: Sequence[str], line: int | None = None, kinds: Sequence[Kind] = ()
) -> Row:
    """Return a row of the values of the columns `names`, or its fault. Without `kinds` all must be text."""
    try:
        if not kinds:
            return Row(line, [as_text(value, name) for value, name in zip(values, names, strict=True)])
        return Row(line, [_cell(*one) for one in zip(values, names, kinds, strict=True)])
    except FaultError as wrong:
        return Row(line, (), wrong.fault)


def _cell(value: object, name: str, kind: Kind) -> str:
    try:
        return as_text(value, name)
    except FaultError as wrong:
        if kind == "optional" and wrong.fault.reason is Reason.MISSING_VALUE:
            return ""
        raise


def as_text(value: object, name: str) -> str:
    """Return a value of the column `name` as text. Raises FaultError when it is not text."""
    if value is None:
        raise FaultError(Reason.MISSING_VALUE, f"{name!r} is missing or null")
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_missing(value):
        raise FaultError(Reason.MISSING_VALUE, f"{name!r} is NaN")
    if isinstance(value, (dict, list, bytes)) or hasattr(value, "as_py"):
        raise FaultError(Reason.NOT_TEXT, f"the type of {name!r} is {type(value).__name__}")
    text = str(value)
    if "\0" in text:
        raise FaultError(Reason.NUL, f"in {name!r}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise FaultError(Reason.LONE_SURROGATE, f"U+{ord(text[error.start]):X} in {name!r}") from None
    return text


def _is_missing(value: object) -> bool:
    """Return whether a value is NaN, which is not equal to itself, or NA of pandas, which is neither equal nor not."""
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def arrow_values(column: Any) -> list[Any]:
    """Return the Python values of an Arrow array; a value that Python cannot represent is returned as it is."""
    try:
        return cast(list[Any], column.to_pylist())
    except (ValueError, OverflowError):
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return scalar.cast("binary").as_py()
    except (ValueError, OverflowError):  # a time that is out of range or too precise for Python
        return scalar
