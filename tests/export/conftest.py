"""Small models of every shape that an export has to carry or to refuse."""

from __future__ import annotations

import base64
import importlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from glassformer.export import load_format
from glassformer.export.html import store
from glassformer.export.programs import ProgramAnswer
from glassformer.inference.translator import Translator
from glassformer.settings import Settings, SideSettings
from glassformer.storage.modelfile import ModelFile, join
from glassformer.storage.records import Calibration, TrainingData
from glassformer.text import Tokenizer, Vocabulary, learn
from glassformer.text.inputs import SourceLike
from glassformer.text.seen import learn_seen
from glassformer.text.sentencepiece import SentencePieceModel
from tests.untrained import listening_model

TINY: dict[str, Any] = {
    "d_model": 16,
    "d_ff": 32,
    "n_heads": 2,
    "n_encoder_layers": 2,
    "n_decoder_layers": 1,
    "tied_embeddings": "none",
}
ALPHABET = "abcdefgh é▁<>os"
WORDS = ["ab cd", "the cat", "a cat sat", "cd ef gh", "the end", "ab ab", "é ▁ x", "cats and cats", "the cats sat"]
PROGRAMS = {"onnx": "onnxruntime", "ctranslate2": "ctranslate2"}
"""The formats with a `run.py`, and the library that it needs."""


def make_model(*, members: int = 1, seed: int = 1, **options: Any) -> ModelFile:
    """Return a model with random weights, norms and biases that attends to its source, or several in one file."""
    return join([_make_one(seed=seed + 100 * i, **options) for i in range(members)])


def _make_one(
    *,
    kind: str = "characters",
    target_kind: str = "",
    texts: Sequence[str] = (*WORDS, ALPHABET),
    shared: bool = True,
    longest: int = 10,
    longest_source: int = 40,
    seed: int = 1,
    loud: Mapping[str, float] | None = None,
    decoding: dict[str, Any] | None = None,
    side: dict[str, Any] | None = None,
    **model: Any,
) -> ModelFile:
    """Return one model. `longest` is that of targets; the logits of `loud` special tokens are multiplied."""
    if kind == "sentencepiece":
        return _imported(longest, seed)
    sides = {
        name: {"kind": kind, "vocabulary_size": 40}
        | ({"kind": "subwords", "algorithm": kind} if kind in ("bpe", "unigram") else {})
        | (side or {})
        for name, kind in (("source", kind), ("target", target_kind or kind))
    }
    settings = Settings.model_validate(
        {
            "tokens": {"shared": shared, **sides},
            "model": TINY | model,
            "data": {"max_source_length": longest_source},
            "decoding": decoding or {},
        }
    )
    source = learn(texts, settings.tokens.source)
    target = source if shared else learn([text.upper() for text in texts], settings.tokens.target)
    sharp = 4.0 if settings.model.tied_embeddings == "none" else 1.0  # as sure of its answers as a trained model
    factors = {target.vocabulary.specials[name]: factor for name, factor in (loud or {}).items()}
    return replace(
        listening_model(settings, source, target, seed, sharp=sharp, loud=factors),
        data=TrainingData(longest_target=longest),
    )


def _imported(longest: int, seed: int) -> ModelFile:
    """As a MarianMT: tokens of SentencePiece, no <bos> before a source, a target that starts with <pad>, one matrix."""
    pieces = ["▁", *"abcdefghnst", "▁the", "at", "▁ab"]
    model = SentencePieceModel(algorithm="unigram", pieces=pieces, scores=[-3.0] * len(pieces))
    vocabulary = Vocabulary.from_pieces(pieces, {"</s>": 0, "<unk>": 1, "<pad>": len(pieces) + 2})
    sides = [SideSettings(kind="sentencepiece", normalization="none", bos=bos) for bos in (False, True)]
    source, target = (Tokenizer(side, vocabulary, {"sentencepiece": model.model_dump()}) for side in sides)
    shape = TINY | {"tied_embeddings": "all", "activation": "swish", "output_bias": True}
    tokens = {"source": sides[0], "target": sides[1], "shared": True}
    settings = Settings.model_validate({"tokens": tokens, "model": shape, "data": {"max_source_length": 40}})
    found = listening_model(settings, source, target, seed)
    return replace(found, data=TrainingData(longest_target=longest))


def calibrated(model_file: ModelFile, texts: Sequence[str] = ("ab cd", "the cat", "cats and", "ab ab ab")) -> ModelFile:
    """The same model with a calibration, and with what it has seen: these texts."""
    framed = [model_file.source_tokenizer.frame(model_file.source_tokenizer.encode(text)) for text in texts]
    n, bits = learn_seen(np.concatenate(framed), np.array([len(ids) for ids in framed]))
    seen = {"seen_length": n, "seen_strings": base64.b64encode(bits).decode(), "longest_source": 30}
    counts = {"sources": 100, "right": 50, "unusual": 3, "unusual_right": 0}
    calibration = Calibration(
        weights=(-0.5, 0.3, 0.1, 0.1), num_beams=model_file.settings.decoding.num_beams, fingerprint="0", **counts
    )
    return replace(model_file, data=model_file.data.model_copy(update=seen), calibration=calibration)


def assert_same(
    found: Sequence[ProgramAnswer], model_file: ModelFile, texts: Sequence[str], num_beams: int, bound: float = 1e-4
) -> None:
    """Assert that these are the model's answers to the texts, with its scores."""
    expected = Translator(model_file, device="cpu").translate(list(texts), num_beams=num_beams)
    assert len({answer.text for answer in expected}) > 4  # or else equality would say little
    for text, answer, right in zip(texts, found, expected, strict=True):
        assert tuple(model_file.target_tokenizer.tokens(answer.ids)) == right.tokens, text
        assert (answer.text, answer.finished) == (right.text, right.finished), text
        assert answer.score == pytest.approx(right.score, abs=bound), text
        assert answer.rank_score == pytest.approx(right.rank_score, abs=bound), text


def make_texts(model_file: ModelFile, n: int = 24) -> list[str]:
    """Return drawn texts, an empty one, unknown characters, spelled special tokens and one of the maximum length."""
    generator = random.Random(3)
    texts = [" ".join(generator.choices(" ".join(WORDS).split(), k=generator.randint(1, 4))) for _ in range(n)]
    longest = "ab " * 13 if model_file.source_tokenizer.settings.kind != "words" else "ab " * 40
    return [*texts, "", "  ", "žж☃", "<eos> ab", "</s><pad><unk>", longest.strip()]


def restored(tensors: Mapping[str, NDArray[Any]], precision: str) -> dict[str, NDArray[np.float32]]:
    """Return the weights as the page computes with them."""
    found = {}
    for name, array in tensors.items():
        stored, scales = store(array, precision)
        numbers = stored.astype(np.float32)
        found[name] = numbers if scales is None else numbers * scales[:, None]
    return found


class Exported:
    """An exported folder, run in this process by what its `run.py` imports."""

    def __init__(self, folder: Path) -> None:
        names = ("run", "engine", "lines", "source", "text")
        saved = {name: sys.modules.pop(name) for name in names if name in sys.modules}
        sys.path.insert(0, str(folder))
        try:
            self.runner = importlib.import_module("engine")
            self.lines = importlib.import_module("lines")
            self.export = self.lines.Export(importlib.import_module("run").read_description(folder))
        finally:
            sys.path.remove(str(folder))
            for name in names:
                sys.modules.pop(name, None)
            sys.modules.update(saved)
        self.model = self.runner.Engine(self.export, SimpleNamespace(threads=1, device="cpu"))

    def encode(self, text: str) -> list[int]:
        return self.export.encode([text])[0]

    def answer(self, sources: Sequence[SourceLike], num_beams: int) -> list[ProgramAnswer]:
        rows = [self.lines.read_row(self.export, 1, json.dumps(source), as_json=True) for source in sources]
        return [
            ProgramAnswer(self.export.target.decode(one.ids), tuple(one.ids), one.score, one.finished, one.rank_score)
            for one in self.lines.answered(rows, self.model, num_beams)
        ]


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check runs no `run.py`: its process takes longer to start than to answer."""

    def run_answers(command: Sequence[Any], sources: Sequence[SourceLike]) -> list[ProgramAnswer]:
        return Exported(command[1].parent).answer(sources, int(command[-1]))

    monkeypatch.setattr("glassformer.export.programs.run_answers", run_answers)


BLOCKER = """
import sys
BLOCKED = {"torch", "glassformer", "onnx", "tokenizers", "pydantic", "safetensors"}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def isolated(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that cannot import torch, glassformer and most other libraries."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(BLOCKER)
    return os.environ | {"PYTHONPATH": str(tmp_path / "site")}


@pytest.fixture(params=PROGRAMS)
def run(
    request: pytest.FixtureRequest, isolated: dict[str, str], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Export a model, and run its program with some bytes and options, in a process that imports no other library."""
    pytest.importorskip(PROGRAMS[request.param])

    def run(model_file: ModelFile, data: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
        folder = tmp_path / "exported"
        if not folder.exists():
            folder.mkdir()
            load_format(request.param).write(model_file, folder, "float32")
        command = [sys.executable, folder / "run.py", *options]
        return subprocess.run(command, input=data, env=isolated, capture_output=True, check=False, cwd="/")

    return run
