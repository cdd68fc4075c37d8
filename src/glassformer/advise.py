"""Zero configuration: from what the data is to a recipe, each choice with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from glassformer.data.tables import Pair


@dataclass(frozen=True)
class Choice:
    setting: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Advice:
    settings: dict[str, Any]
    choices: tuple[Choice, ...]


def advise(pairs: Sequence[Pair]) -> Advice:
    return Advice({}, ())
