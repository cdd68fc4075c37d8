"""Parts of a batch are computed at the same time, and their gradients are summed in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.fast.threads import batch_parts
from glassformer.settings import Settings
from glassformer.storage.checkpoints import Position
from glassformer.training import Run, Saved
from glassformer.training.fast_objective import FastObjective
from glassformer.training.train import train
from tests.training import test_loop
from tests.training.test_loop import PAIRS, weight_list

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _cores() -> Iterator[None]:
    n_cores = torch.get_num_threads()
    yield
    torch.set_num_threads(n_cores)


def settings(parts: int, dropout: float = 0.3, **training: object) -> Settings:
    chosen = {"steps": 8, "learning_rate": 1e-3, "validate_every": 4, "keep_snapshots": 0, "average_last": 0}
    chosen |= {"batch_parts": parts} | training
    return test_loop.settings(model={"dropout": dropout}, training=chosen)


def start(out: Path, *given: object, **training: object) -> Run:
    return train(PAIRS, settings(*given, **training), out, device="cpu")


def test_parts_give_the_gradient_of_the_whole_batch(tmp_path):
    found = []
    for parts in (1, 3):
        run = start(tmp_path / str(parts), parts, 0.0)
        updates = [run.update([np.arange(8), np.arange(8, 13)]) for _ in range(2)]
        last = updates[-1]
        found.append([last.smoothed, last.plain, last.norm, *weight_list(run)])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_result_is_the_same_to_the_last_bit_on_any_number_of_cores(tmp_path, precision):
    found = []
    for i, n_cores in enumerate((2, 1, 8)):
        torch.set_num_threads(n_cores)
        run = start(tmp_path / str(i), 2, precision=precision)
        for step in range(3):
            run.update([np.arange(step, step + 20)])
        found.append(weight_list(run))
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


def test_a_batch_with_fewer_rows_than_parts_is_computed_as_one(tmp_path):
    run, one = start(tmp_path / "three", 3, 0.0), start(tmp_path / "one", 1, 0.0)
    assert run.update([np.arange(2)]).smoothed == one.update([np.arange(2)]).smoothed


def test_a_run_that_is_resumed_on_fewer_cores_keeps_its_parts_and_its_bits(tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.fast.threads.PART", 1)
    torch.set_num_threads(2)
    whole = start(tmp_path / "whole", 0)
    assert whole.position.batch_parts == 2
    whole.finish()
    stopped = start(tmp_path / "stopped", 0)
    for event in stopped:
        if isinstance(event, Saved):
            stopped.stop()
    torch.set_num_threads(1)
    resumed = train(PAIRS, out=tmp_path / "stopped", resume=True, device="cpu")
    resumed.finish()
    assert resumed.position.batch_parts == 2
    assert all(map(torch.equal, weight_list(whole), weight_list(resumed)))


def test_parts_are_kept_only_where_a_batch_has_some(tmp_path):
    updater = start(tmp_path, 2).updater
    updater.go_to(Position(batch_parts=3))
    assert updater.position.batch_parts == 3
    updater.objective = FastObjective(updater.model, settings(0, recompute=True), CPU)  # as on a GPU
    updater.go_to(updater.position)
    assert updater.position.batch_parts is None


def test_parts_are_chosen_by_the_cores_and_the_size_of_a_step(monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    large, small = settings(0, batch_tokens=2**20), settings(0, batch_tokens=4_096)
    assert (batch_parts(large, CPU), batch_parts(small, CPU)) == (4, 1)
    assert batch_parts(large, torch.device("cuda")) is None
    assert batch_parts(settings(2, batch_tokens=64), CPU) == 2
    assert batch_parts(settings(2, recompute=True), CPU) is None
