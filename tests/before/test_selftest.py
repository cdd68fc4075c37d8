"""The self-test finds what is broken in a model, and changes nothing of the run that follows."""

from __future__ import annotations

import json
from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch import nn

from glassformer.before import checks, measure, selftest
from glassformer.before.checks import Check, smoothed_minimum
from glassformer.before.plan import Plan, plan
from glassformer.before.selftest import check, check_before_training, duration
from glassformer.data.datasets import dates
from glassformer.errors import RunError
from glassformer.inference.engines import torch as engine
from glassformer.paper.kernels.attention import fastest_attention
from glassformer.paper.kernels.library import library
from glassformer.paper.kernels.packed_attention import PackedAttention
from glassformer.paper.kernels.packing import Layout
from glassformer.paper.model import FeedForward
from glassformer.text import Tokenizer
from glassformer.training.update import Updater
from tests.tiny import OVERRIDES

SMALL = OVERRIDES | {
    "model.d_model": 32,
    "model.d_ff": 32,
    "training.steps": 20,
    "training.learning_rate": 0.01,
    "training.validate_every": 10,
    "training.validate_rows": 5,
}


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch):
    monkeypatch.setattr(selftest, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(selftest, "MAX_SECONDS_BEFORE", 0.0)
    monkeypatch.setattr(measure, "MIN_STEPS", 1)
    monkeypatch.setattr(checks, "OVERFIT_ROWS", 4)
    monkeypatch.setattr(checks, "OVERFIT_STEPS", 60)  # in which the sound models below learn such a batch


@pytest.fixture
def only_others(monkeypatch):
    """For tests of the other checks: no batch is learned."""
    monkeypatch.setattr(checks, "OVERFIT_STEPS", 0)


@pytest.fixture
def planned(request, tmp_path) -> Plan:
    return plan(dates(120, seed=3), tmp_path / "run", overrides=SMALL | getattr(request, "param", {}))


@pytest.fixture
def long_run(monkeypatch):
    """Every run is expected to be long."""
    monkeypatch.setattr(selftest, "LONG", 0)


def failed(planned: Plan) -> set[str]:
    return {one.name for one in check(planned, "cpu").failed}


def test_a_sound_model_passes_every_check_and_nothing_is_written(planned, tmp_path):
    seen: list[Check] = []
    tested = check(planned, "cpu", on_check=seen.append)
    assert tested.failed == ()
    assert tested.passed
    assert tuple(seen) == tested.checks
    assert len({one.name for one in tested.checks}) == len(tested.checks) == 9
    assert tested.measured is not None
    assert tested.seconds == pytest.approx(20 * tested.measured.seconds_per_step, abs=60)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "planned",
    [
        {"model.norm": "post", "model.positions": "learned", "model.max_length": 60, "tokens.source.kind": "bytes"},
        {"training.accumulate": 3, "training.batch_tokens": 100, "tokens.source.bos": False},
        {"training.batch_parts": 3, "training.accumulate": 3, "model.tied_embeddings": "target"},
        {"training.label_smoothing": 0.2, "training.recompute": True, "training.precision": "bfloat16"},
    ],
    indirect=True,
)
def test_sound_models_of_other_settings_pass_too(planned):
    assert failed(planned) == set()


def test_one_row_of_one_token_is_tested(tmp_path):
    few = plan([("a", "b"), ("c", "d")], tmp_path / "run", overrides=SMALL | {"data.valid_fraction": 0.0})
    assert failed(few) == set()


# A model with an error in it fails the check of that error


@pytest.fixture
def padded(monkeypatch):
    """Attention is padded, as without a C compiler."""
    monkeypatch.setattr(PackedAttention, "serves", lambda *_: False)


@pytest.mark.usefixtures("only_others")
@pytest.mark.skipif(not library(), reason="the package was installed without a C compiler")
def test_compiled_attention_that_shows_later_positions_is_a_causal_leak(planned, monkeypatch):
    actual = PackedAttention.__call__
    monkeypatch.setattr(PackedAttention, "__call__", lambda self, *rows: actual(replace(self, causal=False), *rows))
    assert "causal leak" in failed(planned)


@pytest.mark.usefixtures("only_others", "padded")
@pytest.mark.parametrize("with_gradients", [True, False])
def test_a_kernel_that_shows_the_next_position_is_a_causal_leak(planned, monkeypatch, with_gradients):
    def leaking(query, key, value, visible, causal, dropout):
        if leaks := causal and query.requires_grad == with_gradients:
            visible = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool).tril(1)[None, None]
        return fastest_attention(query, key, value, visible, causal and not leaks, dropout)

    monkeypatch.setattr("glassformer.paper.model.fastest_attention", leaking)
    assert "causal leak" in failed(planned)


@pytest.mark.usefixtures("only_others", "padded")
def test_padding_that_is_visible_is_a_padding_leak(planned, monkeypatch):
    monkeypatch.setattr(Layout, "visible", property(lambda _: None))
    assert "padding leak" in failed(planned)


def detached(self, x):
    return self.w_2(torch.relu(nn.functional.linear(x, self.w_1.weight.detach(), self.w_1.bias)))


@pytest.mark.parametrize("planned", [{}, {"training.batch_parts": 2}], indirect=True)
@pytest.mark.usefixtures("only_others")
@pytest.mark.parametrize(
    ("forward", "name", "advice"),
    [
        (detached, "encoder.0.feed_forward.w_1.weight (none)", "do not learn"),
        (lambda self, x: self.w_2(self.w_1(x)) * 0, "encoder.0.feed_forward.w_2.weight (none)", "do not learn"),
        (lambda self, x: self.w_2(self.w_1(x)) + (x * 0).sqrt() * 0, "(not finite)", "learning_rate"),
    ],
    ids=["detached", "zero", "not finite"],
)
def test_a_parameter_without_a_finite_gradient_is_named(planned, monkeypatch, forward, name, advice):
    monkeypatch.setattr(FeedForward, "forward", forward)
    (one,) = (one for one in check(planned, "cpu").failed if one.name == "gradient")
    assert name in one.text
    assert advice in one.advice
    if forward is detached:
        assert "w_1.bias" not in one.text
        assert one.value == 2


def test_an_optimizer_that_does_nothing_cannot_overfit_a_batch(planned, monkeypatch):
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)
    assert failed(planned) == {"overfit one batch"}


@pytest.mark.usefixtures("only_others")
def test_tokens_that_lose_text_are_counted_with_three_examples(planned, monkeypatch):
    original = Tokenizer.decode
    monkeypatch.setattr(Tokenizer, "decode", lambda self, ids: original(self, ids).replace("1", ""))
    found = {one.name: one for one in check(planned, "cpu").failed}
    lost = found["source tokens there and back"]
    assert lost.value == sum("1" in source for source, _ in dates(120, seed=3))
    assert [example.source for example in lost.examples] == [
        source for source, _ in dates(120, seed=3) if "1" in source
    ][:3]
    assert lost.advice


@pytest.mark.usefixtures("only_others")
def test_a_few_lost_texts_are_counted_but_pass(tmp_path):
    rows = [*dates(300, seed=3), ("Ω-1999", "unknown")]
    overrides = SMALL | {"tokens.source.min_count": 2}
    tested = check(plan(rows, tmp_path / "run", overrides=overrides), "cpu")
    (one,) = (one for one in tested.checks if one.name == "source tokens there and back")
    assert (one.passed, one.value) == (True, 1)
    assert one.examples[0].source == "Ω-1999"


def test_too_little_memory_is_forecast_and_no_update_is_tried(planned, monkeypatch):
    monkeypatch.setattr("glassformer.before.checks.memory_of", lambda _: 1000)
    monkeypatch.setattr(Updater, "update", lambda *_: pytest.fail("an update was tried"))
    tested = check(planned, "cpu")
    assert [one.name for one in tested.failed] == ["memory"]
    assert (tested.measured, tested.seconds) == (None, None)


@pytest.mark.usefixtures("only_others")
@pytest.mark.parametrize(("capacity", "advice"), [(0, "recompute"), (200, "--set training.batch_tokens=")])
def test_a_batch_that_does_not_fit_fails_with_what_to_do(planned, monkeypatch, capacity, advice):
    original = Updater._forward_backward

    def limited(self, rows, *rest):
        if self._tokens_of(rows) > capacity:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return original(self, rows, *rest)

    monkeypatch.setattr(Updater, "_forward_backward", limited)
    found = {one.name: one for one in check(planned, "cpu").failed}
    assert advice in found["memory"].advice


def test_the_peak_is_compared_with_the_memory_of_the_device(planned, monkeypatch):
    monkeypatch.setattr("glassformer.before.checks.memory_of", lambda _: 10**12)
    monkeypatch.setattr("glassformer.before.measure.peak_memory", lambda _: 95 * 10**10)
    assert failed(planned) == {"memory"}


# The report


@pytest.mark.usefixtures("only_others")
def test_a_model_that_ignores_its_target_is_reported_in_json_that_says_what_to_do(planned, monkeypatch):
    monkeypatch.setattr(nn.Embedding, "forward", lambda self, ids: self.weight[ids * 0])
    tested = check(planned, "cpu")
    assert "no target token has an effect" in tested.failed[0].text
    report = json.loads(json.dumps(tested.to_json(), allow_nan=False))
    assert report["format"] == "glassformer-check/1"
    assert report["passed"] is False
    first = report["checks"][0]
    assert (first["name"], first["passed"], first["value"]) == ("causal leak", False, None)
    assert first["advice"]
    assert report["measured"]["steps"] == 1


def test_the_minimum_of_a_smoothed_loss_is_that_of_its_best_distribution():
    for smoothing, size in ((0.0, 30), (0.1, 30), (0.3, 4)):
        target = torch.full((size,), smoothing / size, dtype=torch.float64)
        target[0] += 1 - smoothing
        best = torch.distributions.Categorical(target).entropy().item()
        assert smoothed_minimum(smoothing, size) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
    ("seconds", "text"), [(59, "59 seconds"), (150, "2.5 minutes"), (9000, "2.5 hours"), (200_000, "2.3 days")]
)
def test_a_time_has_the_unit_that_fits(seconds, text):
    assert duration(seconds) == text


# Before a training


def test_a_short_run_is_not_tested(planned):
    assert check_before_training(planned, "cpu") is None


@pytest.mark.usefixtures("long_run")
def test_a_long_run_is_tested_in_a_few_checks(planned):
    tested = check_before_training(planned, "cpu")
    assert tested is not None
    assert [one.name for one in tested.checks] == ["causal leak", "padding leak", "gradient", "memory", "speed", "time"]
    assert tested.passed


@pytest.mark.usefixtures("long_run")
def test_a_run_that_is_resumed_is_not_tested(planned):
    assert check_before_training(replace(planned, resumed=mock.Mock()), "cpu") is None


@pytest.mark.usefixtures("long_run", "padded")
def test_a_leak_refuses_a_long_run(planned, monkeypatch):
    monkeypatch.setattr(Layout, "visible", property(lambda _: None))
    with pytest.raises(RunError, match="nothing was trained") as caught:
        check_before_training(planned, "cpu")
    assert caught.value.where == "padding leak"
    assert caught.value.hint


def final_weights(planned: Plan) -> dict[str, bytes]:
    run = planned.run("cpu")
    run.finish()
    return {name: value.tobytes() for name, value in engine.get_weights(run.model).items()}


@pytest.mark.usefixtures("long_run")
@pytest.mark.medium
def test_a_run_trains_the_same_weights_with_and_without_a_self_test(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "OVERFIT_STEPS", 10)
    overrides = SMALL | {"model.dropout": 0.2}
    alone = final_weights(plan(dates(120, seed=3), tmp_path / "alone", overrides=overrides))
    for name, test in (("before", check_before_training), ("check", check)):
        planned = plan(dates(120, seed=3), tmp_path / name, overrides=overrides)
        test(planned, "cpu")
        assert final_weights(planned) == alone
