"""Evidence against its definitions: differences taken by hand, gradients by small steps, ranks by counting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.glassbox.evidence import correlate, head_effects, spearman
from glassformer.glassbox.explained import Explained
from glassformer.glassbox.pytorch import gradient_times_input
from glassformer.glassbox.trace import explain
from glassformer.glassbox.whatif import Edits
from glassformer.inference.translator import Translator
from glassformer.paper import reference
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.weights import build_model
from tests.glassbox.conftest import make_case


def scores(model, source, fed, asked, visible=None):
    """Log-probabilities of the tokens asked for, by the reference."""
    settings = model.settings.model
    memory = reference.encode(model.tensors, settings, np.array(source), visible)
    hidden = reference.decode(model.tensors, settings, np.array(fed), memory, visible)
    copies = reference.copies(model.tensors, settings, np.array(source), memory, visible)
    log_probs = reference.log_softmax(reference.project(model.tensors, settings, hidden, copies=copies))
    return log_probs[np.arange(len(asked)), asked]


def ids(tokens):
    return [token.id for token in tokens]


def test_occlusion_is_what_is_lost_without_a_token(case, trace):
    source, fed, asked = ids(trace.tokens.source), ids(trace.tokens.target_in), ids(trace.tokens.target_out)
    assert trace.evidence.occluded_by == "<unk>"
    found = trace.array(trace.evidence.occlusion)
    assert found.shape == (len(asked), len(source))
    for place in range(len(source)):
        others = [3 if at == place else token for at, token in enumerate(source)]
        lost = scores(case.model, source, fed, asked) - scores(case.model, others, fed, asked)
        np.testing.assert_allclose(found[:, place], lost, atol=1e-5)


def test_an_unk_that_was_never_trained_is_no_measure_so_the_token_is_hidden(case):
    counts = [0 if token == 3 else 9 for token in range(len(case.model.source_tokenizer))]
    model = replace(case.model, data=case.model.data.model_copy(update={"source_counts": tuple(counts)}))
    trace = explain(model, case.text, num_beams=3)
    assert trace.evidence.occluded_by == "mask"
    source, fed, asked = ids(trace.tokens.source), ids(trace.tokens.target_in), ids(trace.tokens.target_out)
    visible = np.arange(len(source)) != 2
    lost = scores(model, source, fed, asked) - scores(model, source, fed, asked, visible)
    np.testing.assert_allclose(trace.array("evidence.occlusion")[:, 2], lost, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_sources_that_are_scored_together_have_the_scores_of_each(monkeypatch, seed):
    model, text, target = make_case(seed)
    explained = Explained.of(model, text, None, {}, pad_to=20)
    forward, (fed, asked) = explained.forward(Edits()), explained.rows_of_gold(target)
    sources, visible = (np.tile(row, (4, 1)) for row in (forward.ids, forward.visible))
    sources[1, 1], visible[2, 0], visible[3] = 3, False, True
    expected = [
        replace(forward, ids=tuple(source), visible=seen).token_scores(fed, asked)
        for source, seen in zip(sources, visible, strict=True)
    ]
    for together in (1, 256):
        monkeypatch.setattr("glassformer.glassbox.forward.POSITIONS_TOGETHER", together)
        found = forward.scores_of(sources, visible, fed, asked)
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
def test_gradient_times_input_is_the_slope_along_the_row(monkeypatch, seed):
    """Scaling the row of one position by 1 + h changes the score by h times gradient times row."""
    model, text, target = make_case(seed)
    source = model.source_tokenizer.frame(model.source_tokenizer.encode(text))
    framed = model.target_tokenizer.frame(model.target_tokenizer.encode(target))
    fed, asked = framed[:-1], framed[1:]
    found = gradient_times_input(build_model(model), source, np.ones(len(source), bool), fed, asked)
    monkeypatch.setattr("glassformer.glassbox.pytorch.POSITIONS_TOGETHER", 2 * len(fed))
    one_by_one = gradient_times_input(build_model(model), source, np.ones(len(source), bool), fed, asked)
    np.testing.assert_allclose(one_by_one, found, rtol=1e-4, atol=1e-5)

    def score(place, factor):
        def note(name, value, /, *made_of):
            if name != "source.embedded":
                return value
            value = value.copy()
            value[place] *= factor
            return value

        settings = model.settings.model
        memory = reference.encode(model.tensors, settings, np.array(source), None, note)
        hidden = reference.decode(model.tensors, settings, np.array(fed), memory)
        copies = reference.copies(model.tensors, settings, np.array(source), memory)
        log_probs = reference.log_softmax(reference.project(model.tensors, settings, hidden, copies=copies))
        return log_probs[np.arange(len(asked)), asked]

    for place in range(len(source)):
        slope = (score(place, 1 + 1e-5) - score(place, 1 - 1e-5)) / 2e-5
        np.testing.assert_allclose(found[:, place], slope, rtol=1e-3, atol=1e-3)


def test_attention_is_the_mean_over_layers_and_heads(trace):
    weights = [trace.array(f"decoder.{i}.cross.weights") for i in (0, 1)]
    np.testing.assert_allclose(trace.array(trace.evidence.attention), np.mean(weights, axis=(0, 1)), atol=1e-6)
    for name, tensor in (("occlusion", trace.evidence.occlusion), ("gradient", trace.evidence.gradient)):
        expected = correlate(trace.array(trace.evidence.attention), trace.array(tensor))
        assert trace.evidence.correlations[name].all == pytest.approx(expected.all, abs=1e-6)


def test_spearman_by_hand():
    # ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6·4 / (5·24) = 0.8
    assert spearman(np.array([1.0, 2, 3, 4, 5]), np.array([20.0, 10, 40, 30, 50])) == pytest.approx(0.8)
    # equal numbers share a rank: 1 2.5 2.5 against 1 2 3
    assert spearman(np.array([1.0, 2, 2]), np.array([1.0, 2, 3])) == pytest.approx(np.sqrt(3) / 2)
    assert spearman(np.array([1.0, 1]), np.array([1.0, 2])) is None
    assert spearman(np.array([1.0]), np.array([2.0])) is None


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=12), st.integers(0, 1000))
def test_spearman_sees_order_only(numbers, seed):
    one = np.array(numbers, float)
    other = np.random.default_rng(seed).normal(size=len(one))
    found = spearman(one, other)
    if found is None:
        assert len(set(numbers)) == 1
        return
    assert -1 - 1e-12 <= found <= 1 + 1e-12
    assert spearman(np.exp(one), other**3) == pytest.approx(found)
    assert spearman(-one, other) == pytest.approx(-found)
    assert spearman(other, one) == pytest.approx(found)
    assert spearman(one, one) == pytest.approx(1.0)


def test_correlation_takes_no_sign():
    table = np.array([[0.1, 0.9], [0.5, 0.5]])
    found = correlate(table, np.array([[-0.2, -5.0], [1.0, 1.0]]))
    assert found.rows == [pytest.approx(1.0), None]


@pytest.mark.medium
def test_the_effect_of_a_head_is_that_of_a_model_without_it(case):
    decoding = DecodingSettings(num_beams=1)
    texts = ["abcde", "ag", "gfedcba", "bbb", "cab"]

    def answers(model):
        translator = Translator(model, device="cpu")
        return [answer.text for answer in translator.translate(texts, decoding=decoding)]

    targets = [*answers(case.model)[:4], "never this"]
    found = head_effects(case.model, list(zip(texts, targets, strict=True)), decoding=decoding)
    assert (found.rows, found.items, found.exact_match) == (5, 5, 0.8)
    names = ["encoder.0.self", "encoder.1.self", *(f"decoder.{i}.{kind}" for i in (0, 1) for kind in ("self", "cross"))]
    heads = [(name, head) for name in names for head in (0, 1)]
    assert [(effect.attention, effect.head) for effect in found.heads] == heads
    for effect in found.heads:
        tensors = dict(case.model.tensors)
        name = f"{effect.attention}_attention.w_o.weight"
        tensors[name] = tensors[name].copy()
        tensors[name][:, 4 * effect.head : 4 * effect.head + 4] = 0
        edited = answers(replace(case.model, tensors=tensors))
        right = [answer == target for answer, target in zip(edited, targets, strict=True)]
        assert effect.exact_match == pytest.approx(np.mean(right))
        assert (effect.newly_wrong, effect.newly_right) == (4 - sum(right[:4]), int(right[4]))
    assert len({effect.exact_match for effect in found.heads}) > 1


def test_rows_of_one_source_count_once_and_any_of_their_targets_is_right(case):
    translator = Translator(case.model, device="cpu")
    decoding = DecodingSettings(num_beams=1)
    answer = {text: translator.translate([text], decoding=decoding)[0].text for text in ("abcde", "ag", "cab")}
    pairs = [
        ("abcde", "never this"),
        ("abcde", answer["abcde"]),
        ("abcde", "nor this"),
        ("ag", answer["ag"]),
        ("cab", "never this"),
        ("cab", "nor this"),
    ]
    found = head_effects(case.model, pairs, decoding=decoding, where=[f"row {i}" for i in range(6)])
    assert (found.rows, found.items, found.exact_match) == (6, 3, pytest.approx(2 / 3))
    for effect in found.heads:
        assert effect.exact_match == pytest.approx((2 - effect.newly_wrong + effect.newly_right) / 3)
        assert effect.newly_wrong <= 2
