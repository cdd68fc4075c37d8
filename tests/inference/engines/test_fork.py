"""A forked process translates and trains without the threads of its parent."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.data.datasets import dates
from glassformer.inference.translator import Translator
from glassformer.settings import Settings
from glassformer.training.train import train

if not hasattr(os, "fork"):
    pytest.skip("fork is for POSIX systems", allow_module_level=True)

FORK = multiprocessing.get_context("fork")
ROWS = dates(60, 1)
MODEL = {"d_model": 64, "d_ff": 512, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.1}
SETTINGS = Settings(model=MODEL, training={"steps": 1}, decoding={"max_new_tokens": 12})


@pytest.fixture
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def answers(translator: Translator) -> Any:
    texts = [source for source, _ in ROWS[:10]]
    found = [each for beam in (1, 3) for each in translator.translate(texts, num_beams=beam)]
    scored = translator.score(ROWS[:10])  # in all threads, so that the last bits may differ
    return [(each.text, each.token_scores) for each in found], [round(each.score, 3) for each in scored]


def in_a_child(work: Callable[[], Any]) -> Any:
    """What it returns in a forked process, which has the translator of its parent."""
    mine, theirs = FORK.Pipe()
    child = FORK.Process(target=lambda: theirs.send(work()))
    child.start()
    child.join(250)
    child.kill()
    assert mine.poll(), "the child has no answer"
    return mine.recv()


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("_two_threads")
def test_a_forked_child_translates_and_trains(tmp_path: Path) -> None:
    translator = train(ROWS, SETTINGS, tmp_path / "parent", device="cpu").finish()
    torch.ones(2_000_000).exp_()  # a parallel region, as any program may have had
    expected = answers(translator)
    assert in_a_child(lambda: answers(translator)) == expected
    assert in_a_child(lambda: train(ROWS, SETTINGS, tmp_path / "child", device="cpu").finish().n_models) == 1
    assert torch.get_num_threads() == 2  # the parent is as before
    assert answers(translator) == expected
