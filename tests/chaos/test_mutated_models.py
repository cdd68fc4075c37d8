"""Model files that were damaged or changed: an error or the right model, never a crash, a hang or a wrong model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from glassformer.inference.translator import Translator
from glassformer.settings import Settings
from glassformer.storage.container import read_tensors, write_tensors
from glassformer.storage.modelfile import FORMAT, ModelFile
from glassformer.text import learn
from tests.chaos.children import REFUSED, RIGHT, check, run_cases
from tests.chaos.conftest import one_thread
from tests.chaos.mutations import changed_json, mutated
from tests.storage.test_modelfile import KINDS, TEXTS
from tests.untrained import drawn_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a child is limited by what /proc says")

SOURCES = ["low newer", "the widest road"]
MODEL = {"d_model": 64, "d_ff": 256, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}


def small_model(kind: str) -> ModelFile:
    """A model of drawn weights, of about one megabyte."""
    tokens = {"source": KINDS[kind], "target": KINDS[kind], "shared": True}
    settings = Settings(tokens=tokens, model=MODEL, decoding={"num_beams": 2, "max_new_tokens": 12})
    tokenizer = learn(TEXTS, settings.tokens.source)
    return drawn_model(settings, tokenizer, tokenizer, scale=1.0)


class Doors:
    """The original of a model file, and what a mutated one must be: refused, or equal to it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.original, self.path = folder / f"{kind}.safetensors", folder / "mutated.safetensors"
        small_model(kind).save(self.original)
        self.answers = self.answer(Translator.load(self.original, device="cpu"))

    @staticmethod
    def answer(translator: Translator) -> list[Any]:
        return [one.to_json() for one in translator.translate(SOURCES)]

    def translate(self, number: int) -> str | None:
        """Load a file that was damaged after it was written, and translate."""
        name, content = mutated(self.original.read_bytes(), number, is_tensors=True)
        self.path.write_bytes(content)
        translator = Translator.load(self.path, device="cpu")
        translator.model_file.save(self.path)
        if self.path.read_bytes() != self.original.read_bytes():
            return f"{name}: another model"
        return None if self.answer(translator) == self.answers else f"{name}: other answers"

    def signed(self, number: int) -> str | None:
        """Load and translate with a file that somebody changed and gave a new digest: any answer, or an error."""
        drawn = Random(number)
        tensors, parts = read_tensors(self.original, FORMAT)
        if number % 5:
            name = drawn.choice(list(parts))
            parts[name] = changed_json(parts[name], drawn)
        else:
            name = drawn.choice(list(tensors))
            array = tensors[name]
            tensors[name] = drawn.choice([array.T, array * 1e30, array * 0, -array, array[:-1]]).astype(np.float32)
        write_tensors(self.path, FORMAT, tensors, parts)
        self.answer(Translator.load(self.path, device="cpu"))
        return None


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    with one_thread():
        yield


def slow(*values: Any) -> Iterator[Any]:
    return (pytest.param(value, marks=pytest.mark.slow) for value in values)


each_kind = pytest.mark.parametrize("kind", ["bpe", *slow("characters", "unigram", "words", "bytes")])
short_and_long = pytest.mark.parametrize("n_files", [20, *slow(500)])


@each_kind
@short_and_long
def test_a_damaged_model_file_is_refused_or_is_the_right_model(tmp_path: Path, kind: str, n_files: int) -> None:
    doors = Doors(tmp_path, kind)
    counts = check(run_cases(doors.translate, range(n_files)))
    assert counts[REFUSED] > n_files / 2
    assert counts[RIGHT]


@each_kind
@short_and_long
def test_a_changed_model_file_with_a_new_digest_is_refused_or_translates(
    tmp_path: Path, kind: str, n_files: int
) -> None:
    counts = check(run_cases(Doors(tmp_path, kind).signed, range(n_files)))
    assert counts[REFUSED]
