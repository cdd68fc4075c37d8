"""The range test finds where a loss falls and where it diverges."""

from __future__ import annotations

import json
import math

import pytest

from glassformer.before import finder, selftest
from glassformer.before.finder import RateTest, check_rate, find_rate
from glassformer.before.measure import largest_batch, maximum_rate, updates
from glassformer.before.plan import Plan, plan
from glassformer.data.datasets import dates
from glassformer.training.update import Updater
from tests.before.test_selftest import SMALL as TINY

SMALL = {**TINY, "training.steps": 50, "training.batch_tokens": 256}


@pytest.fixture
def planned(tmp_path) -> Plan:
    return plan(dates(120, seed=3), tmp_path / "run", overrides=SMALL)


def range_of(maximum: float, lowest: float = 0.05) -> RateTest:
    return RateTest(((1e-3, 3.0), (lowest, 1.0)), 1e-3, lowest, 0.5, maximum)


def test_the_loss_falls_then_is_lowest_then_rises_or_diverges(planned):
    found = find_rate(planned.updater("cpu"))
    losses = dict(found.points)
    assert finder.FIRST_RATE < found.steepest <= found.lowest < finder.LAST_RATE
    assert losses[found.lowest] == min(losses.values()) < 0.7 * found.points[0][1]
    assert found.points[-1][1] > 1.1 * losses[found.lowest]
    assert found.diverged is None or found.diverged > found.lowest
    assert found.maximum == pytest.approx(0.01)


def test_a_loss_that_is_not_a_number_ends_the_range_test(planned, monkeypatch):
    original = Updater.update

    def update(self, batches, step):
        sums = original(self, batches, step)
        return sums._replace(smoothed=sums.smoothed * (math.nan if step == 5 else 1))

    monkeypatch.setattr(Updater, "update", update)
    found = find_rate(planned.updater("cpu"))
    assert len(found.points) == 4
    assert found.diverged is not None


@pytest.mark.parametrize(
    ("maximum", "passed", "advice"), [(0.01, True, ""), (0.06, False, "smaller"), (0.0001, False, "larger")]
)
def test_a_rate_is_compared_with_the_range(maximum, passed, advice):
    one = check_rate(range_of(maximum))
    assert one.passed is passed
    assert advice in one.advice


def test_the_maximum_of_the_paper_schedule_is_at_the_end_of_its_warm_up(tmp_path):
    overrides = SMALL | {"training.schedule": "noam", "training.warmup_steps": 20, "training.learning_rate": 2.0}
    chosen = plan(dates(120, seed=3), tmp_path / "run", overrides=overrides)
    assert maximum_rate(chosen.settings) == pytest.approx(2 * 32**-0.5 * 20**-0.5)


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
    tested = selftest.check(planned, "cpu", find=True)
    assert tested.checks[-1].name == "learning rate"
    report = json.loads(json.dumps(tested.to_json(), allow_nan=False))
    assert len(report["rate"]["points"]) == len(tested.rate.points)
