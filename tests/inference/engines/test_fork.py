"""A forked process translates and trains without the threads of its parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is for POSIX systems")

SCRIPT = """
import multiprocessing, sys
from pathlib import Path

import torch

torch.set_num_threads(2)

from glassformer import Settings, Translator, train
from glassformer.data.datasets import dates

out = Path(sys.argv[1])
rows = dates(60, 1)
TINY = {"d_model": 64, "d_ff": 512, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1, "dropout": 0.1}
SETTINGS = Settings(model=TINY, training={"steps": 1}, decoding={"max_new_tokens": 12})


def run(where):
    return train(rows, SETTINGS, out / where).finish()


translator = run("parent")
texts = [source for source, _ in rows[:10]]
torch.ones(2_000_000).exp_()  # a parallel region, as any program may have had


def answers():
    found = [each for beam in (1, 3) for each in translator.translate(texts, num_beams=beam)]
    scored = translator.score(rows[:10])  # in all threads, so that the last bits may differ
    return [(each.text, each.token_scores) for each in found], [round(each.score, 3) for each in scored]


def job(kind, pipe):
    pipe.send(run("child").translate(texts[:2])[0].finished is not None if kind == "train" else answers())


if __name__ == "__main__":
    for kind in sys.argv[2:]:
        expected = answers()
        mine, theirs = multiprocessing.get_context("fork").Pipe()
        child = multiprocessing.get_context("fork").Process(target=job, args=(kind, theirs))
        child.start()
        child.join(250)
        if child.is_alive():
            child.kill()
            sys.exit(f"the child does not end: {kind}")
        assert mine.poll(), "the child has no answer"
        found = mine.recv()
        assert found == (True if kind == "train" else expected)
        assert torch.get_num_threads() == 2
        assert answers() == expected  # and the parent is as before
"""


@pytest.mark.medium
def test_a_forked_child_translates_and_trains(tmp_path: Path) -> None:
    script = tmp_path / "forks.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "translate", "train"],
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
