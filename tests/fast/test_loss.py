"""The loss and its gradients against those of torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from glassformer.fast import loss as loss_module
from glassformer.fast.loss import cross_entropy

smoothings = pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])


def drawn(n_rows=7, n_tokens=11, seed=0, d_model=6):
    """Hidden states, an output projection, and the tokens that were right."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(n_rows, d_model, generator=generator)
    projection = 2 * torch.randn(n_tokens, d_model, generator=generator)
    return hidden, projection, torch.randint(n_tokens, (n_rows,), generator=generator)


def with_gradients(loss, hidden, projection):
    """The loss of copies of both, and its gradients."""
    copies = [each.detach().clone().requires_grad_() for each in (hidden, projection)]
    value = loss(*copies)
    return value.detach(), *torch.autograd.grad(value, copies)


@settings(max_examples=25)
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

    def theirs(hidden, projection, smoothing=smoothing):
        logits = functional.linear(hidden, projection)
        return scale * functional.cross_entropy(logits, target, label_smoothing=smoothing, reduction="sum")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss_module, "CHUNK_NUMBERS", chunk)
        found = with_gradients(lambda *both: scale * cross_entropy(*both, target, smoothing)[0], hidden, projection)
        _, plain = cross_entropy(hidden, projection, target, smoothing)
    torch.testing.assert_close(found, with_gradients(theirs, hidden, projection), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(scale * plain, theirs(hidden, projection, 0.0), rtol=1e-4, atol=1e-4)


def test_chunks_are_rows_that_hold_so_many_logits(monkeypatch):
    hidden, projection, target = drawn(10, 11)
    sizes, softmax = [], torch.Tensor.softmax
    monkeypatch.setattr(torch.Tensor, "softmax", lambda x, dim: sizes.append(x.shape) or softmax(x, dim))
    monkeypatch.setattr(loss_module, "CHUNK_NUMBERS", 4 * 11 + 10)
    with_gradients(lambda *both: cross_entropy(*both, target, 0.1)[0], hidden, projection)
    assert sizes == [(4, 11), (4, 11), (2, 11)]


@smoothings
def test_under_autocast_the_products_are_bfloat16_and_the_sums_float32(smoothing, monkeypatch):
    """Against float32 on the rounded inputs: what is left is the rounding of logits and of what is passed back."""
    monkeypatch.setattr(loss_module, "CHUNK_NUMBERS", 50 * 64)
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
    smoothed, plain = cross_entropy(logits, torch.eye(3), torch.tensor([0, 1]), smoothing)
    smoothed.backward()
    assert float(plain) == 0
    assert torch.isfinite(logits.grad).all()
