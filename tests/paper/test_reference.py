"""The reference against printed numbers, hand computation, plain loops, and torch's own operations."""

from __future__ import annotations

import ast
import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from torch import nn

from glassformer.errors import TextError
from glassformer.paper import reference
from glassformer.settings import ModelSettings

GOLDEN = Path(__file__).parents[1] / "golden"
sizes = st.integers(1, 6)
seeds = st.integers(0, 10_000)


def golden(name: str) -> dict[str, Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def normal(seed: int, *shape: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=shape)


# Softmax and attention


@settings(max_examples=50, deadline=None)
@given(rows=sizes, columns=sizes, seed=seeds)
def test_softmax_is_the_quotient_of_its_definition_over_what_is_visible(rows: int, columns: int, seed: int) -> None:
    scores = normal(seed, rows, columns)
    visible = normal(seed + 1, rows, columns) > 0
    weights = reference.softmax(np.where(visible, scores, 1e9), visible)
    for i, j in itertools.product(range(rows), range(columns)):
        total = sum(math.exp(scores[i, k]) for k in range(columns) if visible[i, k])
        expected = math.exp(scores[i, j]) / total if visible[i, j] else 0.0
        assert weights[i, j] == pytest.approx(expected, abs=1e-12)


def test_attention_gives_the_golden_weights_and_output() -> None:
    numbers = {name: np.array(rows) for name, rows in golden("attention").items() if name != "comment"}
    q, k, v = numbers["q"], numbers["k"], numbers["v"]
    causal = reference.attention(q, k, v, np.tri(4, dtype=bool))
    np.testing.assert_allclose(causal.weights, numbers["weights"], atol=1e-7)
    np.testing.assert_allclose(causal.output, numbers["output"], atol=1e-7)
    np.testing.assert_allclose(reference.attention(q, k, v).weights, numbers["weights_unmasked"], atol=1e-7)
    np.testing.assert_allclose(q @ k.T / math.sqrt(8), numbers["scaled"], atol=1e-7)
    np.testing.assert_allclose(reference.softmax(numbers["scaled"]), numbers["weights_unmasked"], atol=1e-7)


def test_multi_head_attention_is_the_sum_over_heads_of_the_papers_formula() -> None:
    model = ModelSettings(d_model=16, n_heads=3, d_k=5, d_v=7)
    x, memory = normal(0, 4, 16), normal(1, 6, 16)
    shapes = {"w_q": (15, 16), "w_k": (15, 16), "w_v": (21, 16), "w_o": (16, 21)}
    weights = {f"a.{name}.weight": normal(i, *shape) for i, (name, shape) in enumerate(shapes.items())}
    w_q, w_k, w_v, w_o = weights.values()
    expected = np.zeros((4, 16))
    for h in range(3):
        head_q, head_k, head_v = w_q[5 * h : 5 * h + 5], w_k[5 * h : 5 * h + 5], w_v[7 * h : 7 * h + 7]
        scores = np.einsum("td,kd,ke,se->ts", x, head_q, head_k, memory) / math.sqrt(5)
        shares = np.exp(scores) / np.exp(scores).sum(axis=1)[:, None]
        expected += np.einsum("ts,se,ve,dv->td", shares, memory, head_v, w_o[:, 7 * h : 7 * h + 7])
    got = reference.multi_head_attention(weights, "a", x, memory, None, model)
    np.testing.assert_allclose(got, expected, atol=1e-9)


# Feed-forward and norm


@pytest.mark.parametrize(("activation", "theirs"), [("relu", "relu"), ("gelu", "gelu"), ("swish", "silu")])
def test_activations_are_those_of_torch(activation: str, theirs: str) -> None:
    x = np.concatenate((np.linspace(-6, 6, 101), [-1000, 1000]))
    expected = getattr(nn.functional, theirs)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(reference.activate(x, activation), expected, atol=1e-12)  # type: ignore[arg-type]


def test_layer_norm_is_that_of_torch() -> None:
    x, gain, bias = normal(0, 3, 8), normal(1, 8), normal(2, 8)
    expected = nn.functional.layer_norm(torch.from_numpy(x), (8,), torch.from_numpy(gain), torch.from_numpy(bias))
    np.testing.assert_allclose(reference.layer_norm(x, gain, bias, 1e-5), expected.numpy(), atol=1e-12)


# Positions


@pytest.mark.parametrize(("d_model", "base"), [(4, 100.0), (6, 10_000.0), (16, 7.5), (2, 10_000.0), (5, 50.0)])
def test_sinusoids_follow_their_formula_for_any_width_and_base(d_model: int, base: float) -> None:
    table = reference.sinusoids(9, d_model, base)
    for p, column in itertools.product(range(9), range(d_model)):
        wave = math.cos if column % 2 else math.sin
        expected = wave(p * base ** (-(column - column % 2) / d_model))
        assert table[p, column] == pytest.approx(expected, abs=1e-12)


def test_positions_are_the_difference_that_the_golden_embeddings_show() -> None:
    numbers = golden("positions")
    difference = np.array(numbers["after"]) - np.array(numbers["before"])
    np.testing.assert_allclose(reference.sinusoids(4, 16), difference, atol=1.0001e-4)


def test_a_sequence_past_the_last_learned_position_is_refused() -> None:
    model = ModelSettings(d_model=4, positions="learned", max_length=3)
    weights = {"source_positions.table": normal(0, 3, 4)}
    np.testing.assert_array_equal(reference.positions(weights, "source", 3, model), weights["source_positions.table"])
    with pytest.raises(TextError, match="a sequence of 4 tokens is longer than the 3 learned positions"):
        reference.positions(weights, "source", 4, model)


# The loss


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.5])
def test_cross_entropy_is_that_of_torch(label_smoothing: float) -> None:
    logits, target = 5 * normal(0, 7, 11), np.random.default_rng(1).integers(0, 11, 7)
    expected = nn.functional.cross_entropy(
        torch.from_numpy(logits), torch.from_numpy(target), reduction="none", label_smoothing=label_smoothing
    )
    losses = reference.cross_entropy(logits, target, label_smoothing)
    np.testing.assert_allclose(losses, expected.numpy(), atol=1e-12)


def test_log_softmax_survives_huge_logits() -> None:
    assert reference.log_softmax(np.array([[1000.0, 0.0]])).tolist() == [[0.0, -1000.0]]


# How it is built


def test_the_reference_computes_in_double_precision_from_single_precision_weights() -> None:
    table = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    model = ModelSettings(d_model=4, n_heads=1)
    assert reference.embed({"source_embedding.weight": table}, "source", np.array([1, 4]), model).dtype == np.float64


def test_the_reference_shares_no_code_with_what_it_judges() -> None:
    tree = ast.parse(Path(reference.__file__).read_text(encoding="utf-8"))
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in found if name.split(".")[0] in ("torch", "safetensors")}
    assert {name for name in found if name.startswith("glassformer")} == {
        "glassformer.errors",
        "glassformer.settings",
    }
