"""What cannot fit is refused before it begins, with what it needs and what there is; what could work is not."""

from __future__ import annotations

import pytest

from glassformer.data.datasets import dates
from glassformer.errors import DeviceError
from glassformer.planning.memory import check_training_fits
from glassformer.settings import Settings, paper_big
from glassformer.training.train import train
from tests import tiny

GIGABYTE = 10**9


@pytest.mark.parametrize(
    "model",
    [
        {"d_model": 2**20, "d_ff": 2**20, "n_encoder_layers": 1000},
        {"positions": "learned", "max_length": 2**53 - 1},
    ],
)
def test_a_model_that_no_machine_holds_is_refused_before_the_work(tmp_path, monkeypatch, model):
    def work(*_arguments, **_options):
        raise AssertionError("it works already")

    monkeypatch.setattr("glassformer.planning.plan.prepare", work)
    with pytest.raises(DeviceError, match="not enough memory on cpu to train this model") as caught:
        train(dates(20, seed=1), tiny.settings(model=model), tmp_path / "run")
    assert "GB in total" in caught.value.got
    assert caught.value.expected.startswith("at least ")
    assert "model.d_model" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_weights_gradient_and_both_means_of_adam_must_fit(with_memory):
    settings = Settings(model=paper_big().model_dump())
    n_parameters = 176_000_000 + 37_000 * 1024  # of both stacks, and of one matrix for all embeddings
    with_memory(17 * n_parameters)
    check_training_fits(settings, "cpu", (37_000, 37_000))
    with_memory(15 * n_parameters)
    with pytest.raises(DeviceError) as caught:
        check_training_fits(settings, "cpu", (37_000, 37_000))
    assert "parameters in float32, their gradients and means" in caught.value.expected


def test_a_batch_that_cannot_fit_is_refused(with_memory):
    settings = tiny.settings(training={"batch_tokens": 10**15})
    with_memory(16 * GIGABYTE)
    check_training_fits(settings, "cpu", (50, 50), 10_000_000)
    with pytest.raises(DeviceError, match="not enough memory") as caught:
        check_training_fits(settings, "cpu", (50, 50), 10**9)
    assert "a batch of 1,000,000,000,000,000 tokens" in caught.value.expected
    assert "training.batch_tokens" in caught.value.hint
    check_training_fits(tiny.settings(training={"batch_tokens": 25_000}), "cpu", (50, 50), 10**9)
