"""A forked process computes on, although none of its parent's threads are there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12: a fork with threads may wait forever
import torch
from glassformer import Translator, train
from glassformer.datasets import dates

torch.set_num_threads(2)
rows = dates(150, seed=1)
sizes = {"model.d_model": 64, "model.n_encoder_layers": 1, "model.n_decoder_layers": 1, "model.dropout": 0.1}
overrides = sizes | {"training.steps": 3, "training.batch_tokens": 4096}
folder = sys.argv[1]
translator = train(rows, out=f"{folder}/parent", overrides=overrides, device="cpu").finish()
texts = [source for source, _ in rows]
before = [answer.text for answer in translator.translate(texts, num_beams=1)]
child = os.fork()
if child == 0:
    after = [answer.text for answer in translator.translate(texts, num_beams=1)]
    trained = train(rows, out=f"{folder}/child", overrides=overrides, device="cpu").finish()
    os._exit(0 if after == before and len(trained.translate(texts[:3])) == 3 else 7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this operating system has no fork")
def test_a_forked_process_translates_and_trains_as_its_parent_does(tmp_path):
    words = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.stdout.split()[-2:] == ["0", "2"], done.stderr
