"""Losses and gradients that are not finite change no weight; after several of them the run goes back, and says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.errors import RunError
from glassformer.training import Finished, Progress, Restored, Run, Skipped, recovery
from glassformer.training.recovery import MAX_SKIPPED
from glassformer.training.train import train
from tests.training.test_loop import PAIRS, settings, weight_list

pytestmark = pytest.mark.usefixtures("every_update_tells")


def start(out: Path, **training: object) -> Run:
    chosen = {"steps": 12, "learning_rate": 1e-3, "validate_every": 4, "keep_snapshots": 0, "average_last": 0}
    return train(PAIRS, settings(training=chosen | training), out, device="cpu")


def spoil(run: Run, monkeypatch: pytest.MonkeyPatch, calls: range) -> None:
    """Let the loss of some batches, counted from 0, and their gradient be NaN."""
    real, count = run.updater._forward_backward, iter(range(10**6))

    def spoiled(rows, *how):
        losses = real(rows, *how)
        if next(count) in calls:
            for parameter in run.model.parameters():
                parameter.grad *= torch.nan
            return losses * torch.nan
        return losses

    monkeypatch.setattr(run.updater, "_forward_backward", spoiled)


@pytest.mark.parametrize("fused", [True, False])
def test_an_update_that_is_not_finite_changes_no_weight_and_no_state_of_the_optimizer(tmp_path, monkeypatch, fused):
    run = start(tmp_path / "run")
    if not fused:
        run.updater.optimizer.defaults["fused"] = False
        for group in run.updater.optimizer.param_groups:
            group["fused"] = False
    run.update([np.arange(4)])
    before = weight_list(run)
    states = [{key: value.clone() for key, value in s.items()} for s in run.updater.optimizer.state.values()]
    spoil(run, monkeypatch, range(1))
    assert not torch.isfinite(run.update([np.arange(4)]).norm)
    assert all(map(torch.equal, before, weight_list(run)))
    for old, new in zip(states, run.updater.optimizer.state.values(), strict=True):
        assert all(torch.equal(value, new[key]) for key, value in old.items())
    run.update([np.arange(4)])
    assert not all(map(torch.equal, before, weight_list(run)))


def test_a_skipped_update_is_counted_with_its_rows_and_the_run_ends_well(tmp_path, monkeypatch):
    run = start(tmp_path / "run")
    spoil(run, monkeypatch, range(5, 6))
    events = list(run)
    (skipped,) = [event for event in events if isinstance(event, Skipped)]
    assert skipped.step == 6
    assert skipped.n_rows > 3
    assert set(skipped.sources) <= {source for source, _ in PAIRS}
    assert len(skipped.sources) == 3
    assert isinstance(events[-1], Finished)
    losses = [event.loss for event in events if isinstance(event, Progress)]
    assert all(map(np.isfinite, losses))
    assert len(losses) == 11


def test_after_several_the_run_goes_back_to_its_newest_checkpoint_and_keeps_half_the_rate(tmp_path, monkeypatch):
    run = start(tmp_path / "run")
    spoil(run, monkeypatch, range(6, 6 + MAX_SKIPPED))
    events = list(run)
    (restored,) = [event for event in events if isinstance(event, Restored)]
    assert (restored.step, restored.skipped, restored.rate_factor) == (8, MAX_SKIPPED, 0.5)
    rates = [event.learning_rate for event in events if isinstance(event, Progress)]
    assert rates[0] == pytest.approx(1e-3)
    assert rates[-1] == pytest.approx(5e-4)
    assert isinstance(events[-1], Finished)
    assert events[-1].step == 12
    resumed = train(PAIRS, out=tmp_path / "run", resume=True, device="cpu")
    next(iter(resumed))
    assert resumed.position.rate_factor == 0.5


def test_without_a_checkpoint_it_goes_back_to_the_first_weights(tmp_path, monkeypatch):
    run = start(tmp_path / "run", validate_every=100)
    first = weight_list(run)
    spoil(run, monkeypatch, range(1, 1 + MAX_SKIPPED))
    for event in run:
        if isinstance(event, Restored):
            break
    assert event.step == 0
    assert all(map(torch.equal, first, weight_list(run)))
    assert not run.updater.optimizer.state


def test_a_run_that_goes_back_too_often_ends_with_an_error_and_keeps_its_model(tmp_path, monkeypatch):
    monkeypatch.setattr(recovery, "MAX_RESTORED", 2)
    run = start(tmp_path / "run", steps=40, validate_every=10)
    spoil(run, monkeypatch, range(12, 10_000))
    restored = []
    with pytest.raises(RunError, match="training diverged") as raised:
        restored += [event for event in run if isinstance(event, Restored)]
    assert ("smaller training.learning_rate" in raised.value.hint, raised.value.where) == (True, str(tmp_path / "run"))
    assert run.position.rate_factor == 0.25
    assert (tmp_path / "run" / "model.safetensors").exists()
