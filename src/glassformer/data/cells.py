"""Values of tables with types, as text: JSON Lines, Parquet, Arrow and frames."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Literal, cast

import numpy as np

from glassformer.data.delimited import Row
from glassformer.data.ledger import Fault, Reason

Kind = Literal["text", "optional", "any"]
"""What a cell must be: text, text that may be missing and is then empty, or any value (`Json` where it is not text)."""


class Json(str):
    """A value that is not text, as JSON: a number as it is written, true, false, null, a list, an object."""

    __slots__ = ()


class FaultError(ValueError):
    """A value that is not valid in a table."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason)
        self.fault = Fault(reason, detail)


def text_row(
    values: Sequence[object], names: Sequence[str], line: int | None = None, kinds: Sequence[Kind] = ()
) -> Row:
    """Return a row of the values of the columns `names`, or its fault. Without `kinds` all must be text."""
    cell_kinds: Sequence[Kind] = kinds or ["text"] * len(names)
    try:
        return Row(line, [_cell(*cell) for cell in zip(values, names, cell_kinds, strict=True)])
    except FaultError as wrong:
        return Row(line, (), wrong.fault)


def _cell(value: object, name: str, kind: Kind) -> str:
    if kind == "any" and _is_json(value):
        try:
            return Json(json_text(value))
        except RecursionError:
            raise FaultError(Reason.NESTED_TOO_DEEPLY, repr(name)) from None
    try:
        return as_text(value, name)
    except FaultError as wrong:
        if kind == "optional" and wrong.fault.reason is Reason.MISSING_VALUE:
            return ""
        raise


def _is_json(value: object) -> bool:
    is_plain = value is None or isinstance(value, (bool, int, float, list, dict, Json))
    return is_plain or _is_missing(value)


def json_text(value: object) -> str:
    """Return a value as JSON; numbers that were read from JSON are as they were written. What JSON lacks is text."""
    if isinstance(value, Json):
        return str(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(str(key), ensure_ascii=False)}: {json_text(member)}" for key, member in value.items())
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(json_text, value))}]"
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "null"
    return json.dumps(value if isinstance(value, (bool, int, float)) else str(value), ensure_ascii=False)


def as_text(value: object, name: str) -> str:
    """Return a value of the column `name` as text. Raises FaultError when it is not text."""
    if value is None:
        raise FaultError(Reason.MISSING_VALUE, f"{name!r} is missing or null")
    if isinstance(value, bool):
        return "true" if value else "false"
    if _is_missing(value):
        raise FaultError(Reason.MISSING_VALUE, f"{name!r} is NaN")
    if isinstance(value, (dict, list, bytes, np.ndarray)) or hasattr(value, "as_py"):
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
