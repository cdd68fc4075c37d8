"""Learning rates against the paper and points worked out by hand; when the decay of wsd begins, and its length."""

from __future__ import annotations

import pytest

from glassformer.settings import TrainingSettings
from glassformer.storage.checkpoints import Decay, Position
from glassformer.training.schedule import ALL_STEPS, NO_GAIN, OUT_OF_TIME, begin_decay, learning_rate


@pytest.mark.parametrize("step", [1, 10, 3999, 4000, 4001, 100_000])
def test_noam_is_equation_3_of_the_paper(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, TrainingSettings(), 512) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        ("inverse_sqrt", 50, 0.05),
        ("inverse_sqrt", 100, 0.1),
        ("inverse_sqrt", 10_000, 0.01),
        ("cosine", 50, 0.05),
        ("cosine", 100, 0.1),
        ("cosine", 400, 0.1 * 0.75),
        ("cosine", 1000, 0.0),
        ("cosine", 1001, 0.0),
        ("wsd", 50, 0.05),
        ("wsd", 1000, 0.1),
        ("constant", 1, 0.001),
        ("constant", 5000, 0.1),
    ],
)
def test_a_schedule_passes_through_points_worked_out_by_hand(schedule, step, expected):
    training = TrainingSettings(schedule=schedule, learning_rate=0.1, warmup_steps=100, steps=1000)
    assert learning_rate(step, training, 512) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("schedule", ["noam", "inverse_sqrt", "cosine", "wsd", "constant"])
def test_without_a_warm_up_the_first_rate_is_the_highest(schedule):
    training = TrainingSettings(schedule=schedule, learning_rate=0.1, warmup_steps=0, steps=10)
    rates = [learning_rate(step, training, 1) for step in range(1, 12)]
    assert max(rates) == rates[0] == pytest.approx(0.1)
    assert min(rates) >= 0


@pytest.mark.parametrize(("step", "expected"), [(800, 0.1), (850, 0.05), (912, 0.1 * (1 - 0.56**0.5)), (1000, 0.0)])
def test_wsd_decays_with_the_square_root_of_what_is_done(step, expected):
    training = TrainingSettings(schedule="wsd", learning_rate=0.1, warmup_steps=100)
    assert learning_rate(step, training, 512, Decay(800, 1000, "")) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("step", "seconds", "without_gain", "decay"),
    [
        (799, 0, 0, None),
        (800, 0, 0, Decay(800, 1000, ALL_STEPS)),
        (400, 0, 2, None),
        (400, 0, 3, Decay(400, 500, NO_GAIN.format(3), is_settled=True)),
        (790, 0, 3, Decay(790, 988, NO_GAIN.format(3), is_settled=True)),
        (799, 0, 3, Decay(799, 999, NO_GAIN.format(3), is_settled=True)),
        (100, 47, 0, None),
        (100, 48, 0, Decay(100, 125, OUT_OF_TIME.format(1.0))),
        (100, 48, 3, Decay(100, 125, OUT_OF_TIME.format(1.0))),
        (100, 30, 3, Decay(100, 125, NO_GAIN.format(3), is_settled=True)),
        (100, 55, 3, Decay(100, 109, OUT_OF_TIME.format(1.0))),
        (100, 61, 0, Decay(100, 101, OUT_OF_TIME.format(1.0))),
        (800, 5, 0, Decay(800, 1000, ALL_STEPS)),
    ],
)
def test_the_decay_begins_so_that_it_ends_with_steps_or_minutes_or_after_patience(step, seconds, without_gain, decay):
    training = TrainingSettings(schedule="wsd", steps=1000, patience=3, max_minutes=1 if seconds else None)
    position = Position(step=step, seconds=float(seconds), without_gain=without_gain)
    assert begin_decay(position, training) == decay
    for schedule in ("noam", "cosine", "constant"):
        assert begin_decay(position, training.model_copy(update={"schedule": schedule})) is None
