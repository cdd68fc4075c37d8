"""Compiled attention of packed sentences against the padded one of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from glassformer.fast import compiled_attention
from glassformer.fast.attention import FastMultiHeadAttention, Packed
from glassformer.fast.compiled_attention import CompiledAttention
from glassformer.fast.library import library
from glassformer.fast.packing import TokenLayout
from glassformer.fast.threads import one_thread
from glassformer.runtime import compiled
from glassformer.settings import ModelSettings

pytestmark = pytest.mark.usefixtures("one_core")
needs_compiler = pytest.mark.skipif(not library(), reason="the package was installed without a C compiler")
WIDE = ModelSettings(d_model=24, n_heads=3, d_k=16, d_v=8, attention_dropout=0.0)
LENGTHS = [[5, 1, 13, 8], [1], [16, 17]], [[2, 9, 1, 30], [3], [16, 8]]


@pytest.fixture(name="one_core")
def with_one_thread() -> Iterator[None]:
    with one_thread():
        yield


def layouts(of_queries: list[int], of_keys: list[int]) -> tuple[TokenLayout, TokenLayout]:
    queries, keys = (TokenLayout.of(torch.tensor(lengths)) for lengths in (of_queries, of_keys))
    return queries, keys


def rows(layout: TokenLayout, width: int, seed: int = 0) -> Tensor:
    return torch.randn(len(layout.positions), width, generator=torch.Generator().manual_seed(seed), requires_grad=True)


def computed(layer: FastMultiHeadAttention, inputs: list[Tensor], *layouts: TokenLayout, causal: bool) -> list[Tensor]:
    """Output, and the gradients of inputs and weights."""
    output = layer(inputs[0], inputs[-1], Packed(layouts[0], layouts[-1], causal))[: layouts[0].n_tokens]
    loss = (output * torch.arange(output.numel()).view_as(output).cos()).sum()
    return [output.detach(), *torch.autograd.grad(loss, [*inputs, *layer.parameters()])]


@needs_compiler
@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
@pytest.mark.parametrize("case", range(3))
def test_it_equals_padded_attention_and_so_do_all_gradients(
    kind: str, case: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(case)
    layer = FastMultiHeadAttention(WIDE)
    queries, keys = layouts(LENGTHS[0][case], LENGTHS[1][case])
    used = (queries, keys) if kind == "cross" else (queries,)
    inputs = [rows(layout, 24, i) for i, layout in enumerate(used)]
    found = computed(layer, inputs, *used, causal=kind == "decoder")
    monkeypatch.setattr(CompiledAttention, "serves", lambda *_: False)
    for one, expected in zip(found, computed(layer, inputs, *used, causal=kind == "decoder"), strict=True):
        torch.testing.assert_close(one, expected, atol=2e-5, rtol=2e-5)


@needs_compiler
def test_a_sentence_has_the_same_numbers_alone_and_in_a_batch() -> None:
    packed = TokenLayout.of(torch.tensor([7, 12, 3]))
    y = rows(packed, 3 * (16 + 16 + 8)).detach()
    together = CompiledAttention(packed, packed, 3, 16, 8)(y)
    alone = TokenLayout.of(torch.tensor([12]))
    own = torch.cat((y[7:19], y.new_zeros(len(alone.positions) - 12, y.shape[1])))
    assert CompiledAttention(alone, alone, 3, 16, 8)(own)[:12].equal(together[7:19])


@needs_compiler
@pytest.mark.parametrize("causal", [False, True])
def test_dropout_drops_this_share_of_the_weights_and_its_gradient_is_that_of_what_was_kept(causal: bool) -> None:
    layout = TokenLayout.of(torch.tensor([64] * 30))
    attention = CompiledAttention(layout, layout, 2, 8, 64, causal, dropout=0.25)
    y = torch.zeros(len(layout.positions), 2 * (8 + 8 + 64), requires_grad=True)
    with torch.no_grad():  # weights are equal, so that the output is which of them were kept
        y[:, 32:] = torch.eye(64).repeat(30, 2)
    torch.manual_seed(1)
    output = attention(y)
    seen = torch.arange(64) <= torch.arange(64)[:, None] if causal else torch.ones(64, 64, dtype=torch.bool)
    seen = seen.repeat(30, 2)
    share = output * 0.75 * seen.sum(dim=1, keepdim=True) / 2
    assert ((share - 1).abs() < 1e-4)[seen].float().mean().item() == pytest.approx(0.75, abs=0.01)
    assert ((share.abs() < 1e-6) | ((share - 1).abs() < 1e-4)).all()
    kept = [share[:, 64 * h : 64 * (h + 1)].view(30, 64, 64).round().bool() for h in range(2)]
    assert (kept[0] == kept[1])[:, -1].float().mean() < 0.75  # heads, queries and sentences are independent
    assert (kept[0][0] == kept[0][1])[-1].float().mean() < 0.75
    torch.manual_seed(1)
    assert attention(y).equal(output)
    assert not attention(y).equal(output)

    towards = torch.randn(output.shape, generator=torch.Generator().manual_seed(2))
    (gradient,) = torch.autograd.grad((output * towards).sum(), y)
    for place in ((5, 3), (70, 20), (200, 40), (130, 150)):  # of queries, keys and values
        step = torch.zeros_like(y).index_put_(tuple(map(torch.tensor, place)), torch.tensor(0.1))
        losses = []
        for changed in (y + step, y - step):
            torch.manual_seed(1)
            losses.append((attention(changed.detach()).double() * towards).sum())
        assert gradient[place].item() == pytest.approx((losses[0] - losses[1]).item() / 0.2, rel=0.01, abs=1e-3)


@needs_compiler
def test_scores_that_are_no_numbers_have_no_finite_answer() -> None:
    layout = TokenLayout.of(torch.tensor([3, 5]))
    y = rows(layout, 2 * 24).detach()
    y[4, 0] = math.nan  # a query of the second sentence
    for dropout in (0.0, 0.5):
        answers = CompiledAttention(layout, layout, 2, 8, 8, dropout=dropout)(y)
        assert answers[4, :8].isnan().all()
        assert answers[[3, 5, 6, 7]].isfinite().all()
        assert answers[:3].isfinite().all()


@needs_compiler
def test_where_it_does_not_serve() -> None:
    layout, long = layouts([4], [compiled_attention.MAX_BFLOAT16 + 1])
    x = torch.zeros(1)
    assert CompiledAttention(layout, long, 2, 16, 8).serves(x)
    assert not CompiledAttention(layout, layout, 2, 12, 8).serves(x)
    assert not CompiledAttention(layout, layout, 2, 16, 8).serves(x.bfloat16())
    with torch.autocast("cpu", torch.bfloat16):
        assert CompiledAttention(layout, layout, 2, 16, 8).serves(x)
        assert not CompiledAttention(layout, long, 2, 16, 8).serves(x)


@pytest.mark.parametrize("content", [b"", b"not a library"])
def test_a_library_that_is_damaged_is_not_used(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_compiled.so").write_bytes(content)
    monkeypatch.setattr(compiled, "find_spec", lambda _name: SimpleNamespace(origin=str(tmp_path / "_compiled.so")))
    assert library.__wrapped__() is None
