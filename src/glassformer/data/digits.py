"""Numbers as they are written for programs."""

from __future__ import annotations

from typing import Any


def six_digits(value: Any) -> Any:
    """Return a JSON value with its numbers rounded to six significant digits."""
    if isinstance(value, dict):
        return {name: six_digits(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [six_digits(member) for member in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
