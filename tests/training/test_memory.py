"""Too little memory splits a batch into parts with the same sum; keeping less for the way back changes no number."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.datasets import dates
from glassformer.errors import RunError
from glassformer.training import Run, Saved, Split, recovery
from glassformer.training.train import train
from tests import tiny
from tests.chaos.conftest import child, wait

resource = pytest.importorskip("resource")


def start(out: Path, **training: object) -> Run:
    training = {"batch_tokens": 200, "precision": "float32", "schedule": "constant", "warmup_steps": 0} | training
    settings = tiny.settings(model={"dropout": 0.0}, training=training)
    return train(dates(40, seed=5), settings, out, device="cpu")


def test_recomputing_runs_each_layer_twice(tmp_path):
    calls = []
    for recompute in (False, True):
        run = start(tmp_path / str(recompute), recompute=recompute)
        hook = run.model.encoder[0].feed_forward.register_forward_pre_hook(lambda *_: calls.append(1))
        calls.clear()
        run.update([np.arange(4)])
        assert len(calls) == 1 + recompute
        hook.remove()


FAILURES = (
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"),
    MemoryError("std::bad_alloc"),
)


def fail_above(run: Run, monkeypatch: pytest.MonkeyPatch, most: int, failure: BaseException) -> list[int]:
    """Let parts of more than `most` rows fail after their gradient is there; return the rows of the others."""
    real, sizes = run.updater._forward_backward, []

    def limited(rows, *how):
        found = real(rows, *how)
        if len(rows) > most:
            raise failure
        sizes.append(len(rows))
        return found

    monkeypatch.setattr(run.updater, "_forward_backward", limited)
    return sizes


def test_a_batch_that_does_not_fit_is_split_and_the_update_is_the_same(tmp_path, monkeypatch):
    after = []
    for number, failure in enumerate((None, *FAILURES)):
        run = start(tmp_path / str(number))
        sizes = fail_above(run, monkeypatch, 3, failure) if failure else []
        sums = run.update([np.arange(8), np.arange(8, 13)])
        after.append([sums.smoothed, *(parameter.detach().clone() for parameter in run.model.parameters())])
        assert sum(sizes) >= 13 * bool(failure)
        assert (run.position.max_tokens is None) == (failure is None)
        torch.testing.assert_close(after[0], after[-1], rtol=1e-5, atol=1e-6)


def test_of_parts_of_one_size_the_one_that_can_be_split_is_split_and_a_single_row_is_an_error(tmp_path, monkeypatch):
    run = start(tmp_path)
    before = [parameter.detach().clone() for parameter in run.model.parameters()]
    monkeypatch.setattr(recovery, "_padded_tokens", lambda *_: 100)
    monkeypatch.setattr(recovery, "_longest", lambda *_: 100)
    fail_above(run, monkeypatch, 0, FAILURES[0])
    with pytest.raises(RunError, match="not enough memory on cpu for a single row") as raised:
        run.update([np.arange(2), np.arange(2, 3)])
    assert "training.recompute=true" in str(raised.value)
    assert all(map(torch.equal, before, run.model.parameters()))


def test_the_limit_is_remembered_told_and_kept_in_a_resume(tmp_path, monkeypatch):
    run = start(tmp_path / "run", steps=4, validate_every=2)
    sizes = fail_above(run, monkeypatch, 4, FAILURES[0])
    events = []
    for event in run:
        events.append(event)
        if isinstance(event, Saved):
            run.stop()
            break
    split = [event for event in events if isinstance(event, Split)]
    assert split[-1].max_tokens == run.position.max_tokens
    assert len(split) < 4  # of two updates of several batches each
    assert max(sizes) <= 4
    resumed = train(dates(40, seed=5), out=tmp_path / "run", resume=True, device="cpu")
    next(iter(resumed))
    assert resumed.position.max_tokens == run.position.max_tokens


def train_limited(out: Path) -> int:
    """A batch for which the address space is too small; return 0 if it was split, and no further than it must be."""
    torch.set_num_threads(1)
    pairs = [("a" * 200, "b" * 200 + str(i)) for i in range(400)]
    model = {"d_model": 64, "d_ff": 256, "n_encoder_layers": 2, "n_decoder_layers": 2, "dropout": 0.0}
    training = {"batch_tokens": 40_000, "precision": "float32", "steps": 2, "validate_rows": 2, "average_last": 0}
    training |= {"keep_snapshots": 0, "metric": "loss"}
    settings = tiny.settings(data={"max_valid_rows": 2}, model=model, training=training)
    run = train(pairs, settings, out, device="cpu")
    run.update([np.arange(2)])
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 300 * 2**20,) * 2)
    run.update([np.arange(190)])
    limit = run.position.max_tokens
    return 0 if limit is not None and 202 <= limit <= 40_000 // 2 else 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space are those of Linux")
@pytest.mark.medium
def test_a_limited_process_goes_on_with_smaller_parts(tmp_path):
    with child(lambda: train_limited(tmp_path / "run")) as number:
        assert wait(number) == 0


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    run = start(tmp_path / "run")
    monkeypatch.setattr(
        run.updater, "_forward_backward", lambda *_: (_ for _ in ()).throw(RuntimeError("something else"))
    )
    with pytest.raises(RuntimeError, match="something else"):
        run.update([np.arange(8)])
