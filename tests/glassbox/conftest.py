"""Small models of every kind, with weights drawn by chance, and a text to explain with each."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from glassformer.glassbox.report import joined, modules
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.settings import Settings, SideSettings, TokenSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import TrainingData
from glassformer.text import learn
from tests.untrained import SMALL, drawn_model, drawn_shape

SOURCES, TARGETS = ["abcdefg", "gfedcba"], ["hijkl mn", "nm lkjih"]


class Case(NamedTuple):
    """A model, a text that it takes, and a target."""

    model: ModelFile
    text: str
    target: str


def make_model(
    seed: int = 0,
    kind: str = "characters",
    size: float = 0.5,
    texts: tuple[list[str], list[str]] = (SOURCES, TARGETS),
    side: Mapping[str, Any] | None = None,
    **shape: Any,
) -> ModelFile:
    """A model with drawn weights over small vocabularies, of the shape of SMALL but for what is given."""
    model = SMALL.model_validate(SMALL.model_dump(exclude_unset=True) | shape)
    tokens, shared = SideSettings(kind=kind, **(side or {})), model.tied_embeddings == "all"
    settings = Settings(model=model, tokens=TokenSettings(source=tokens, target=tokens, shared=shared))
    source = learn([*texts[0], *texts[1]] if shared else texts[0], tokens)
    target = source if shared else learn(texts[1], tokens)
    data = TrainingData(longest_target=6, source_counts=(3,) * len(source), target_counts=(5,) * len(target))
    return drawn_model(settings, source, target, seed, scale=size, gain=1.0, data=data)


def make_case(seed: int) -> Case:
    """A configuration drawn by chance, and a text and target for it; the page's interpreter is tested with the same."""
    chance = random.Random(seed)
    model = make_model(seed, max_length=32, **drawn_shape(chance))
    text = "".join(chance.choices("abcdefg", k=chance.randint(1, 7)))
    target = "".join(chance.choices("hijklmn", k=chance.randint(1, 7)))
    return Case(model, text, target)


VERDICTS = """
const trace = new Trace(JSON.parse(require('node:fs').readFileSync(0, 'utf-8')));
const wrong = trace.steps.filter(({ output }) => trace.verdict(output).passed !== true);
process.stdout.write(JSON.stringify(wrong.map(({ output }) => output)));
"""


def wrong_steps(trace: Trace) -> list[str]:
    """The steps of a trace with weights that do not follow from their inputs, by the interpreter of the page, in Node.

    It shares no code with `reference.py`, and compares names of axes too: a transposed tensor is wrong.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    program = joined("glassbox/model/trace.js", modules()).replace("\nexport ", "\n") + VERDICTS
    done = subprocess.run([node, "-e", program], input=trace.dumps(), capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return names


@pytest.fixture(scope="session")
def case() -> Case:
    """A pre-norm model of two layers on each side with two heads; greedy and beam search find different answers."""
    shape = {"d_ff": 10, "d_k": 3, "n_encoder_layers": 2, "n_decoder_layers": 2, "norm": "pre"}
    return Case(make_model(23, **shape), "abcde", "hij")


@pytest.fixture(scope="session")
def trace(case: Case) -> Trace:
    """The trace of that model, with weights and a gold target."""
    return explain(case.model, case.text, target=case.target, weights=True, num_beams=3)
