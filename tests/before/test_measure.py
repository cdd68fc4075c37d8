"""What is measured before a run: the largest learning rate of a schedule, the largest batch."""

from __future__ import annotations

import pytest

from glassformer.before.measure import largest_batch, maximum_rate, updates
from glassformer.before.plan import Plan, plan
from glassformer.data.datasets import dates
from tests.before.test_selftest import SMALL as TINY

SMALL = {**TINY, "training.steps": 50, "training.batch_tokens": 256}


@pytest.fixture
def planned(tmp_path) -> Plan:
    return plan(dates(120, seed=3), tmp_path / "run", overrides=SMALL)


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
