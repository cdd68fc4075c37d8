"""Packed tokens against plain lists, and the packed model against the padded one."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings, strategies as st
from torch import Tensor

from glassformer.fast import accelerate
from glassformer.fast.loss import packed_hidden_states
from glassformer.fast.packing import TokenLayout, round_up
from glassformer.paper.model import Transformer
from tests.paper import test_model
from tests.paper.test_model import GRID, SIZE
from tests.untrained import logits_of

lengths_of_sentences = st.lists(st.integers(0, 15), min_size=1, max_size=7).filter(any)
longer = st.integers(0, 3)
quick = settings(max_examples=20)


def layout_of(lengths: list[int], extra: int = 0) -> TokenLayout:
    return TokenLayout.of(torch.tensor(lengths), max(lengths) + extra)


def drawn(*size: int, seed: int = 0) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tokens_of(layout: TokenLayout, width: int, seed: int = 0) -> Tensor:
    """Rows for its tokens, and after them the ones that are nobody's."""
    return drawn(len(layout.positions), width, seed=seed)


# TokenLayout


@given(st.integers(1, 10_000_000))
def test_round_numbers_are_at_most_a_sixteenth_larger(n: int) -> None:
    assert n <= round_up(n) <= n * 17 / 16
    assert round_up(n).bit_length() - 5 <= (round_up(n) & -round_up(n)).bit_length() - 1 or n < 32


@quick
@example([0, 3, 15, 15], 0)
@given(lengths_of_sentences, longer)
def test_tokens_are_padded_to_their_places_with_zeros_between(lengths: list[int], extra: int) -> None:
    layout, tokens = layout_of(lengths, extra), iter(range(1, 1 + sum(lengths)))
    expected = [[next(tokens) if at < length else 0 for at in range(max(lengths) + extra)] for length in lengths]
    padded = layout.pad(layout.fill(torch.arange(1, 1 + sum(lengths))).float()[:, None])
    assert padded[:, :, 0].tolist() == expected
    assert layout.n_tokens == sum(lengths)
    assert layout.positions[: sum(lengths)].tolist() == [at for length in lengths for at in range(length)]
    visible = torch.ones(padded.shape[:2], dtype=torch.bool) if layout.visible is None else layout.visible
    assert visible.tolist() == [[token > 0 for token in line] for line in expected]


@settings(max_examples=8)
@given(lengths_of_sentences, longer)
def test_gradients_go_back_to_where_the_numbers_came_from(lengths: list[int], extra: int) -> None:
    layout = layout_of(lengths, extra)
    assert torch.autograd.gradcheck(layout.pad, tokens_of(layout, 1).requires_grad_())
    full = drawn(len(lengths), max(lengths) + extra, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layout.pack(x)[: sum(lengths)], full)


def test_sentences_of_one_length_are_not_copied() -> None:
    assert layout_of([11, 11, 11]).visible is None
    layout, tokens = layout_of([3, 3]), drawn(6, 2)
    assert layout.visible is None
    assert layout.pad(tokens).data_ptr() == layout.pack(layout.pad(tokens)).data_ptr() == tokens.data_ptr()


# The model

KINDS = ("as in the paper", "gelu", "free widths", "untied", "copy mechanism", "all departures")
each_kind = pytest.mark.parametrize("changes", [GRID[kind] for kind in KINDS], ids=KINDS)


def make(seed: int, **changes: Any) -> Transformer:
    return accelerate(test_model.make(seed, **({"dropout": 0.0} | changes)).train())


def batch(lengths: list[int], seed: int) -> tuple[TokenLayout, Tensor, Tensor]:
    """Where the tokens stand; the tokens; the same padded, with anything between."""
    layout, chance = layout_of(lengths), torch.Generator().manual_seed(seed)
    padded = torch.randint(SIZE, (len(lengths), max(lengths)), generator=chance)
    visible = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return layout, padded[visible], padded


def packed_logits(
    model: Transformer, source: Tensor, source_layout: TokenLayout, target: Tensor, target_layout: TokenLayout
) -> Tensor:
    """Those of the tokens of the target, [P V]."""
    lengths = (layout.starts.diff() for layout in (source_layout, target_layout))
    return model.project(*packed_hidden_states(model, source, next(lengths), target, next(lengths)))


def gradients(model: Transformer, logits: Tensor, towards: Tensor) -> dict[str, Tensor]:
    """Of a loss that knows every number of `logits` [P V]."""
    (logits @ towards).sin().sum().backward()
    found = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    model.zero_grad()
    return found


@each_kind
@settings(max_examples=3)
@given(
    sentences=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5),
    seed=st.integers(0, 10_000),
)
def test_the_packed_model_is_the_padded_one_and_so_are_its_gradients(
    changes: dict[str, Any], sentences: list[tuple[int, int]], seed: int
) -> None:
    model, towards = make(seed, **changes), drawn(SIZE, 3).float()
    source_lengths, target_lengths = map(list, zip(*sentences, strict=True))
    source_layout, source, padded_source = batch(source_lengths, seed)
    target_layout, target, padded_target = batch(target_lengths, seed + 1)
    packed = packed_logits(model, source, source_layout, target, target_layout)

    visible = torch.arange(max(source_lengths)) < torch.tensor(source_lengths)[:, None]
    plain = test_model.make(seed, **({"dropout": 0.0} | changes)).train()
    padded = logits_of(plain, padded_source, padded_target, visible)
    padded = padded[torch.arange(max(target_lengths)) < torch.tensor(target_lengths)[:, None]]
    torch.testing.assert_close(packed, padded, atol=1e-5, rtol=1e-5)

    with torch.inference_mode():
        fused = packed_logits(model, source, source_layout, target, target_layout)
        torch.testing.assert_close(fused, padded.detach(), atol=1e-5, rtol=1e-5)
    found, expected = gradients(model, packed, towards), gradients(plain, padded, towards)
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        largest = max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(found[name], gradient, atol=1e-4 * largest, rtol=1e-4)


@each_kind
def test_layers_that_are_computed_again_give_the_same_gradients(changes: dict[str, Any]) -> None:
    """With dropout too, whose chance must come again, and whose relu works in place."""
    model = make(0, **({"dropout": 0.3, "attention_dropout": 0.2, "feed_forward_dropout": 0.4} | changes))
    (source_layout, source, _), (target_layout, target, _) = batch([3, 5], 1), batch([4, 2], 2)
    found = []
    for recompute in (False, True):
        accelerate(model, recompute=recompute)
        torch.manual_seed(7)
        logits = packed_logits(model, source, source_layout, target, target_layout)
        found.append((logits, gradients(model, logits, drawn(SIZE, 3).float())))
    torch.testing.assert_close(found[0], found[1], atol=0, rtol=0)


def test_no_layer_works_on_padding() -> None:
    model, rows, chance = make(0), [], random.Random(0)
    for layer in (*model.encoder, *model.decoder):
        for part in (layer.feed_forward, layer.self_attention_norm, layer.self_attention.w_o):
            part.register_forward_hook(lambda module, inputs, output: rows.append(len(output)))
    (source_layout, source, _), (target_layout, target, _) = (
        batch([chance.randint(1, 9) for _ in range(4)], seed) for seed in (1, 2)
    )
    packed_logits(model, source, source_layout, target, target_layout)
    assert rows == [round_up(len(source))] * 3 * 2 + [round_up(len(target))] * 3 * 2
