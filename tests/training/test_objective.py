"""Teacher forcing against the padded model, the rates against the paper and points worked out by hand."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch

from glassformer.data.corpus import Corpus
from glassformer.fast.loss import cross_entropy
from glassformer.paper.model import Transformer
from glassformer.settings import ModelSettings, Settings, TrainingSettings
from glassformer.training.accelerated import Accelerated
from glassformer.training.objective import TeacherForced, learning_rate, summed_losses
from tests.tiny import in_one_array
from tests.untrained import logits_of

# Teacher forcing


def test_the_loss_of_a_model_that_copies_is_that_of_its_logits() -> None:
    torch.manual_seed(0)
    tiny = {"d_model": 16, "d_ff": 16, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model = Transformer(ModelSettings(**tiny, copy_mechanism=True), 20, 20, [-1] * 4 + list(range(4, 20)))
    sources, targets = [[1, 5, 6, 5, 2], [1, 4, 2]], [[1, 5, 6, 2], [1, 12, 13, 4, 2]]
    corpus = Corpus(in_one_array(sources), in_one_array(targets))
    packed = TeacherForced.of(corpus, np.arange(2), torch.device("cpu"))
    found = summed_losses(model.eval(), packed, 0.1)
    fast = Accelerated(copy.deepcopy(model), Settings(), torch.device("cpu")).summed_losses(packed, 0.1)
    torch.testing.assert_close(fast, found)
    logits = [
        logits_of(model, torch.tensor([x]), torch.tensor([y[:-1]]))[0] for x, y in zip(sources, targets, strict=True)
    ]
    wanted = torch.tensor([token for target in targets for token in target[1:]])
    for loss, smoothing in zip(found, (0.1, 0.0), strict=True):
        expected = torch.nn.functional.cross_entropy(
            torch.cat(logits), wanted, label_smoothing=smoothing, reduction="sum"
        )
        torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("logit", [100.0, -100.0])
def test_the_loss_of_a_sure_target_is_exact_however_large_its_logit(logit: float) -> None:
    projection = torch.full((9, 1), logit - 12)
    projection[4] = logit
    _, plain = cross_entropy(torch.ones(1, 1), projection, torch.tensor([4]), 0.1)
    assert plain.item() == pytest.approx(math.log1p(8 * math.exp(-12)), abs=1e-6)


# The rate


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
        ("constant", 1, 0.001),
        ("constant", 5000, 0.1),
    ],
)
def test_a_schedule_passes_through_points_worked_out_by_hand(schedule, step, expected):
    training = TrainingSettings(schedule=schedule, learning_rate=0.1, warmup_steps=100, steps=1000)
    assert learning_rate(step, training, 512) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("schedule", ["noam", "inverse_sqrt", "cosine", "constant"])
def test_without_a_warm_up_the_first_rate_is_the_highest(schedule):
    training = TrainingSettings(schedule=schedule, learning_rate=0.1, warmup_steps=0, steps=10)
    rates = [learning_rate(step, training, 1) for step in range(1, 12)]
    assert max(rates) == rates[0] == pytest.approx(0.1)
    assert min(rates) >= 0


@pytest.mark.parametrize(
    ("step", "seconds", "same_as"),
    [(1, 0, 1), (1, 60, 10), (10, 300, 50), (10, 600, 100), (10, 700, 100), (70, 60, 70), (100, 5, 100)],
)
def test_a_cosine_ends_with_the_minutes_if_they_end_before_the_steps(step, seconds, same_as):
    by_steps = TrainingSettings(schedule="cosine", steps=100, warmup_steps=20, learning_rate=0.01)
    by_clock = by_steps.model_copy(update={"max_minutes": 10})
    assert learning_rate(step, by_clock, 8, seconds) == pytest.approx(learning_rate(same_as, by_steps, 8))
    assert learning_rate(step, by_steps, 8, seconds) == learning_rate(step, by_steps, 8)
    for schedule in ("noam", "inverse_sqrt", "constant"):
        other = by_clock.model_copy(update={"schedule": schedule})
        assert learning_rate(step, other, 8, seconds) == learning_rate(step, other, 8)
