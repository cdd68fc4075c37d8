"""A translator that needs no model: it answers a text by the text in upper case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from glassformer.errors import TooLongError
from glassformer.inference.translator import EMPTY, Translation
from glassformer.settings import Settings

LIMIT = 20
TOO_LONG_TEXT = "x" * (LIMIT + 1)


@dataclass
class Shouting:
    """What a job uses of a Translator. A text has one token for each character, and at most LIMIT."""

    settings: Settings = field(default_factory=Settings)
    max_source_length: int = LIMIT
    inputs: tuple[()] = ()
    model_files: tuple[()] = ()
    calls: list[list[str]] = field(default_factory=list)

    def translate(
        self,
        texts: Sequence[str],
        *,
        prefixes: Sequence[str] | None = None,
        where: Sequence[str],
        progress: Any = None,
        **_options: Any,
    ) -> list[Translation]:
        assert len(where) == len(texts)
        if long := {row: len(text) for row, text in enumerate(texts) if len(text) > LIMIT}:
            raise TooLongError.of(long, where, LIMIT)
        self.calls.append(list(texts))
        if progress:
            progress(len(texts))
        starts = prefixes or [""] * len(texts)
        return [self.answer(start + text.upper()) if text else EMPTY for start, text in zip(starts, texts, strict=True)]

    @staticmethod
    def answer(text: str) -> Translation:
        return Translation(text, -1.0, -0.5, tuple(text), (-1.0,), finished=True)


@pytest.fixture
def shouting() -> Shouting:
    return Shouting()
