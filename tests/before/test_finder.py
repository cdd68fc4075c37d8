"""The range test finds where a loss falls and where it diverges; the batch search finds what fits and what is fast."""

from __future__ import annotations

import json
import math

import pytest
import torch

from glassformer.before import finder, selftest
from glassformer.before.finder import RateTest, check_batch, check_rate, find_batch, find_rate
from glassformer.before.measure import largest_batch, maximum_rate, updates
from glassformer.before.plan import Plan, plan
from glassformer.data.datasets import dates
from glassformer.training.update import Updater

SMALL = {
    "model.d_model": 32,
    "model.d_ff": 32,
    "model.n_heads": 2,
    "model.n_encoder_layers": 1,
    "model.n_decoder_layers": 1,
    "training.steps": 50,
    "training.batch_tokens": 256,
    "training.learning_rate": 0.01,
    "training.precision": "float32",
}


@pytest.fixture
def planned(tmp_path) -> Plan:
    return plan(dates(120, seed=3), tmp_path / "run", overrides=SMALL)


def range_of(maximum: float, lowest: float = 0.05) -> RateTest:
    return RateTest(((1e-3, 3.0), (lowest, 1.0)), 1e-3, lowest, 0.5, maximum)


def test_the_loss_falls_then_is_lowest_then_rises_or_diverges(planned):
    found = find_rate(planned.run("cpu"))
    losses = dict(found.points)
    assert finder.FIRST_RATE < found.steepest <= found.lowest < finder.LAST_RATE
    assert losses[found.lowest] == min(losses.values()) < 0.7 * found.points[0][1]
    assert found.points[-1][1] > 1.1 * losses[found.lowest]
    assert found.diverged is None or found.diverged > found.lowest
    assert found.maximum == pytest.approx(0.01)


def test_the_range_test_is_the_same_each_time(planned):
    assert find_rate(planned.run("cpu")) == find_rate(planned.run("cpu"))


def test_a_loss_that_is_not_a_number_ends_the_range_test(planned, monkeypatch):
    original = Updater.update

    def update(self, batches, step):
        sums = original(self, batches, step)
        return sums._replace(smoothed=sums.smoothed * (math.nan if step == 5 else 1))

    monkeypatch.setattr(Updater, "update", update)
    found = find_rate(planned.run("cpu"))
    assert len(found.points) == 4
    assert found.diverged is not None


@pytest.mark.parametrize(
    ("maximum", "passed", "advice"), [(0.01, True, ""), (0.06, False, "smaller"), (0.0001, False, "larger")]
)
def test_a_rate_is_compared_with_the_range(maximum, passed, advice):
    one = check_rate(range_of(maximum))
    assert one.passed is passed
    assert advice in one.advice


@pytest.mark.parametrize("rate", [1e-7, 0.9])
def test_a_rate_outside_the_range_fails(tmp_path, rate):
    chosen = plan(dates(120, seed=3), tmp_path / "run", overrides=SMALL | {"training.learning_rate": rate})
    assert not check_rate(find_rate(chosen.run("cpu"))).passed


def test_the_maximum_of_the_paper_schedule_is_at_the_end_of_its_warm_up(tmp_path):
    overrides = SMALL | {"training.schedule": "noam", "training.warmup_steps": 20, "training.learning_rate": 2.0}
    chosen = plan(dates(120, seed=3), tmp_path / "run", overrides=overrides)
    assert maximum_rate(chosen.settings) == pytest.approx(2 * 32**-0.5 * 20**-0.5)


def test_every_batch_size_is_timed_and_the_update_stays_the_same_up_to_that_of_the_settings(planned):
    run = planned.run("cpu")
    speeds = find_batch(run)
    assert [(one.batch_tokens, one.accumulate) for one in speeds] == [(64, 4), (128, 2), (256, 1), (512, 1), (1024, 1)]
    assert all(one.tokens_per_second and one.tokens_per_second > 0 for one in speeds)
    assert check_batch(run, speeds).passed
    assert run.settings.training.batch_tokens == 256


def test_the_fastest_parts_of_the_same_update_are_named(planned):
    run = planned.run("cpu")
    speeds = tuple(
        finder.BatchSpeed(tokens, parts, speed)
        for tokens, parts, speed in ((64, 4, 100.0), (128, 2, 300.0), (256, 1, 200.0), (512, 1, 900.0))
    )
    one = check_batch(run, speeds)
    assert "--set training.batch_tokens=128 --set training.accumulate=2" in one.text
    nearly = (*speeds[:1], finder.BatchSpeed(128, 2, 205.0), *speeds[2:])
    assert "--set" not in check_batch(run, nearly).text


def test_a_batch_that_does_not_fit_has_no_speed(planned, monkeypatch):
    original = Updater._forward_backward

    def limited(self, rows, *rest):
        if self._tokens_of(rows) > 150:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, rows, *rest)

    monkeypatch.setattr(Updater, "_forward_backward", limited)
    run = planned.run("cpu")
    speeds = find_batch(run)
    assert [one.tokens_per_second is None for one in speeds] == [False, False, True, True, True]
    assert "not enough memory" in check_batch(run, speeds).text


def test_no_batch_is_tried_that_the_forecast_excludes(planned, monkeypatch):
    monkeypatch.setattr(finder, "memory_of", lambda _: 1000)
    monkeypatch.setattr(Updater, "update", lambda *_: pytest.fail("an update was tried"))
    run = planned.run("cpu")
    one = check_batch(run, find_batch(run))
    assert not one.passed
    assert one.advice


def test_the_largest_batch_is_the_one_with_the_most_positions(planned):
    corpus, training = planned.prepared.train, planned.settings.training
    rows = largest_batch(corpus, training)
    positions = len(rows) * (corpus.source.lengths[rows].max() + corpus.target.lengths[rows].max())
    epoch = [batch for batch, _ in zip(updates(corpus, training), range(200), strict=False)]
    assert positions >= max(
        len(batch) * (corpus.source.lengths[batch].max() + corpus.target.lengths[batch].max())
        for (batch,) in epoch[: len(epoch) // 8]
    )


def test_the_finder_is_part_of_a_check_on_request(planned, monkeypatch):
    monkeypatch.setattr(selftest, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(finder, "BATCH_STEPS", 1)
    tested = selftest.check(planned, "cpu", find=True)
    assert [one.name for one in tested.checks[-2:]] == ["learning rate", "batch size"]
    report = json.loads(json.dumps(tested.to_json(), allow_nan=False))
    assert len(report["rate"]["points"]) == len(tested.rate.points)
    assert len(report["batches"]) == 5
