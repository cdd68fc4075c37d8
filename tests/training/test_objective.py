"""The loss against NumPy and torch, the rates against the paper and points worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from glassformer.data.corpus import Corpus, Sequences
from glassformer.model import Transformer
from glassformer.settings import ModelSettings, TrainingSettings
from glassformer.training import objective
from glassformer.training.objective import cross_entropy, learning_rate, teacher_forced

smoothings = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])


def drawn(n_rows=7, n_tokens=11, seed=0, d_model=6):
    """Hidden states, an output projection, and the tokens that were right."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n_rows, d_model, generator=generator)
    projection = 2 * torch.randn(n_tokens, d_model, generator=generator)
    return hidden, projection, torch.randint(n_tokens, (n_rows,), generator=generator)


def loss_of_logits(logits, target, smoothing):
    """The projection that leaves hidden states as they are makes logits of them."""
    return cross_entropy(logits, torch.eye(logits.shape[1], dtype=logits.dtype), target, smoothing)


def with_gradients(loss, hidden, projection):
    """The loss of copies of both, and its gradients."""
    copies = [each.detach().clone().requires_grad_() for each in (hidden, projection)]
    value = loss(*copies)
    return value.detach(), *torch.autograd.grad(value, copies)


# Teacher forcing


def test_the_decoder_reads_each_target_and_is_asked_for_it_shifted_by_one():
    torch.manual_seed(0)
    model = Transformer(ModelSettings(d_model=16, d_ff=16, n_heads=2, n_encoder_layers=1, n_decoder_layers=1), 20, 20)
    model.eval()
    # <bos> is 1 and <eos> 2.
    sources = [[1, 5, 6, 7, 8, 9, 2], [1, 4, 2], [1, 9, 9, 2]]
    targets = [[1, 10, 11, 2], [1, 12, 13, 14, 15, 16, 2], [1, 2]]
    corpus = Corpus(Sequences.pack(sources), Sequences.pack(targets))
    rows = [2, 0, 1]
    hidden, wanted = teacher_forced(model, corpus, np.array(rows), torch.device("cpu"))
    logits = model.project(hidden)
    assert wanted.tolist() == [token for row in rows for token in targets[row][1:]]
    one_by_one = [model(torch.tensor([sources[row]]), None, torch.tensor([targets[row][:-1]]))[0] for row in rows]
    torch.testing.assert_close(logits, torch.cat(one_by_one), rtol=1e-4, atol=1e-5)


# The loss


@smoothings
def test_the_loss_is_the_cross_entropy_with_the_smoothed_distribution(smoothing):
    hidden, projection, target = drawn()
    values = hidden.double().numpy() @ projection.double().numpy().T
    log_probs = values - np.log(np.exp(values).sum(axis=1, keepdims=True))
    wanted = np.full_like(values, smoothing / 11)
    wanted[np.arange(7), target.numpy()] += 1 - smoothing
    smoothed, plain = cross_entropy(hidden, projection, target, smoothing)
    assert float(smoothed) == pytest.approx(-(wanted * log_probs).sum(), rel=1e-5)
    assert float(plain) == pytest.approx(-log_probs[np.arange(7), target.numpy()].sum(), rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    n_rows=st.integers(1, 9),
    n_tokens=st.integers(2, 30),
    d_model=st.integers(1, 8),
    smoothing=st.floats(0, 0.99),
    scale=st.sampled_from([1.0, 0.01, -3.0]),
    chunk=st.sampled_from([1, 50, 2**22]),
    seed=st.integers(0, 99),
)
def test_loss_and_gradients_are_those_of_torchs_output_layer_and_loss(
    n_rows, n_tokens, d_model, smoothing, scale, chunk, seed
):
    """In chunks of one row, of some, or all in one; and as part of a larger loss, whose gradient is not one."""
    hidden, projection, target = drawn(n_rows, n_tokens, seed, d_model)

    def theirs(hidden, projection):
        logits = functional.linear(hidden, projection)
        return scale * functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objective, "CHUNK_NUMBERS", chunk)
        found = with_gradients(lambda *both: scale * cross_entropy(*both, target, smoothing)[0], hidden, projection)
    torch.testing.assert_close(found, with_gradients(theirs, hidden, projection), rtol=1e-4, atol=1e-4)


@smoothings
def test_chunks_are_rows_that_hold_so_many_logits(smoothing, monkeypatch):
    hidden, projection, target = drawn(10, 11)
    whole = with_gradients(lambda *both: cross_entropy(*both, target, smoothing)[0], hidden, projection)
    sizes, softmax = [], torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda x, dim: sizes.append(x.shape) or softmax(x, dim))
    monkeypatch.setattr(objective, "CHUNK_NUMBERS", 4 * 11 + 10)
    parts = with_gradients(lambda *both: cross_entropy(*both, target, smoothing)[0], hidden, projection)
    assert sizes == [(4, 11), (4, 11), (2, 11)]
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-5)


@smoothings
def test_under_autocast_the_products_are_bfloat16_and_the_sums_float32(smoothing, monkeypatch):
    """Against float32 on the rounded inputs: what is left is the rounding of logits and of what is passed back."""
    monkeypatch.setattr(objective, "CHUNK_NUMBERS", 50 * 64)
    hidden, projection, target = drawn(1000, 50)
    rounded = hidden.bfloat16().float(), projection.bfloat16().float()
    exact = with_gradients(lambda *both: cross_entropy(*both, target, smoothing)[0], *rounded)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        smoothed, plain = cross_entropy(hidden, projection, target, smoothing)
        rough = with_gradients(lambda *both: cross_entropy(*both, target, smoothing)[0], hidden, projection)
    assert smoothed.dtype == plain.dtype == torch.float32
    assert [each.dtype for each in rough] == [torch.float32] * 3
    assert float(rough[0]) == pytest.approx(float(exact[0]), rel=2e-3)
    for found, expected in zip(rough[1:], exact[1:], strict=True):
        assert (found - expected).norm() < 0.02 * expected.norm()


def test_equal_logits_cost_the_logarithm_of_the_vocabulary():
    for smoothing in (0.0, 0.3):
        smoothed, plain = loss_of_logits(torch.zeros(4, 68), torch.tensor([0, 1, 2, 67]), smoothing)
        assert float(smoothed) == pytest.approx(4 * math.log(68))
        assert float(plain) == pytest.approx(4 * math.log(68))


@smoothings
def test_only_the_smoothed_loss_carries_a_gradient(smoothing):
    hidden, projection, target = drawn()
    smoothed, plain = cross_entropy(hidden.requires_grad_(), projection, target, smoothing)
    assert smoothed.requires_grad
    assert not plain.requires_grad


def test_no_gradient_is_computed_where_none_is_wanted():
    """As in validation: the projection is a parameter, but nothing goes backward. A gradient is two more products."""
    hidden, projection, target = drawn()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        smoothed, _ = cross_entropy(hidden, projection.requires_grad_(), target, 0.1)
    assert not smoothed.requires_grad
    assert counter.get_total_flops() == 2 * 7 * 6 * 11


@smoothings
def test_huge_logits_keep_loss_and_gradient_finite(smoothing):
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 3e38, -3e38]], requires_grad=True)
    smoothed, plain = loss_of_logits(logits, torch.tensor([0, 1]), smoothing)
    smoothed.backward()
    assert float(plain) == 0
    assert torch.isfinite(logits.grad).all()


def test_low_precision_logits_are_summed_in_float32():
    low, target = (5 * torch.randn(1000, 50, generator=torch.Generator().manual_seed(0))).bfloat16(), drawn(1000, 50)[2]
    smoothed, plain = loss_of_logits(low, target, 0.1)
    assert smoothed.dtype == plain.dtype == torch.float32
    assert float(plain) == pytest.approx(float(loss_of_logits(low.float(), target, 0.1)[1]), rel=1e-6)


# The rate


@pytest.mark.parametrize("step", [1, 10, 3999, 4000, 4001, 100_000])
def test_noam_is_equation_3_of_the_paper(step):
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert learning_rate(step, TrainingSettings(), 512) == pytest.approx(expected)


def test_noam_has_its_peak_at_the_end_of_the_warm_up():
    rates = [learning_rate(step, TrainingSettings(warmup_steps=50), 64) for step in range(1, 200)]
    assert np.argmax(rates) == 49
    assert max(rates) == pytest.approx(1 / math.sqrt(64 * 50))
    assert learning_rate(4000, TrainingSettings(), 512) == pytest.approx(6.987712e-4, rel=1e-6)


def test_the_learning_rate_is_a_factor_of_noam():
    twice = TrainingSettings(learning_rate=2.0)
    assert learning_rate(70, twice, 512) == pytest.approx(2 * learning_rate(70, TrainingSettings(), 512))


@pytest.mark.parametrize(
    ("schedule", "step", "expected"),
    [
        ("inverse_sqrt", 1, 0.001),
        ("inverse_sqrt", 50, 0.05),
        ("inverse_sqrt", 100, 0.1),
        ("inverse_sqrt", 400, 0.05),
        ("inverse_sqrt", 10_000, 0.01),
        ("cosine", 1, 0.001),
        ("cosine", 50, 0.05),
        ("cosine", 100, 0.1),
        ("cosine", 400, 0.1 * 0.75),
        ("cosine", 550, 0.1 * 0.5),
        ("cosine", 700, 0.1 * 0.25),
        ("cosine", 1000, 0.0),
        ("cosine", 1001, 0.0),
        ("constant", 1, 0.001),
        ("constant", 100, 0.1),
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
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[0]
    assert all(math.isfinite(rate) and rate >= 0 for rate in rates)


def test_a_run_that_ends_within_its_warm_up_keeps_rising():
    training = TrainingSettings(schedule="cosine", learning_rate=1.0, warmup_steps=100, steps=10)
    assert [learning_rate(step, training, 512) for step in (1, 10)] == [pytest.approx(0.01), pytest.approx(0.1)]


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
