"""Too little memory ends in an error that says what fits; keeping less for the way back changes no number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.datasets import dates
from glassformer.errors import RunError
from glassformer.settings import Settings
from glassformer.training import Run, train

SHAPE = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.1}
TOKENS = {"source": {"kind": "characters"}, "target": {"kind": "characters"}, "shared": False}


def start(out: Path, **training: object) -> Run:
    training = {"batch_tokens": 200, "precision": "float32", "schedule": "constant", "warmup_steps": 0} | training
    model = SHAPE | {"tied_embeddings": "none", "feed_forward_dropout": 0.1, "attention_dropout": 0.1}
    return train(dates(40, seed=5), Settings(tokens=TOKENS, model=model, training=training), out, device="cpu")


def test_recomputing_gives_the_same_update(tmp_path):
    rows = np.arange(8)
    after = []
    for recompute in (False, True):
        run = start(tmp_path / str(recompute), recompute=recompute)
        torch.manual_seed(3)
        run.update([rows])
        after.append([parameter.detach().clone() for parameter in run.model.parameters()])
    for one, other in zip(*after, strict=True):
        torch.testing.assert_close(one, other)


def test_recomputing_runs_each_layer_twice(tmp_path):
    calls = []
    for recompute in (False, True):
        run = start(tmp_path / str(recompute), recompute=recompute)
        hook = run.model.encoder[0].register_forward_pre_hook(lambda *_: calls.append(1))
        calls.clear()
        run.update([np.arange(4)])
        assert len(calls) == 1 + recompute
        hook.remove()


@pytest.mark.parametrize(
    "failure", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("DefaultCPUAllocator: not enough memory")]
)
def test_too_little_memory_names_a_batch_that_fits(tmp_path, monkeypatch, failure):
    def fail(*_):
        raise failure

    run = start(tmp_path / "run", accumulate=2)
    monkeypatch.setattr(run.updater, "_forward_backward", fail)
    with pytest.raises(RunError) as raised:
        run.update([np.arange(8)])
    text = str(raised.value)
    assert "not enough memory on cpu for a batch of 200 tokens" in text
    assert "training.batch_tokens=100 --set training.accumulate=4" in text


def test_too_little_memory_remembers_what_fitted(tmp_path, monkeypatch):
    run = start(tmp_path / "run")
    run.update([np.arange(2)])
    lengths = run.prepared.train.source.lengths[:2], run.prepared.train.target.lengths[:2]
    fitted = 2 * int(np.max(lengths))
    monkeypatch.setattr(
        run.updater,
        "_forward_backward",
        lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory.")),
    )
    with pytest.raises(RunError, match=f"a batch that fitted: --set training.batch_tokens={fitted} "):
        run.update([np.arange(8)])


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    run = start(tmp_path / "run")
    monkeypatch.setattr(
        run.updater, "_forward_backward", lambda *_: (_ for _ in ()).throw(RuntimeError("something else"))
    )
    with pytest.raises(RuntimeError, match="something else"):
        run.update([np.arange(8)])
