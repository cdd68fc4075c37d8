"""Evidence against its definitions: differences taken by hand, and models without a head."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from glassformer.glassbox.evidence import head_effects
from glassformer.glassbox.explained import Explained
from glassformer.glassbox.trace import explain
from glassformer.glassbox.whatif import Edits
from glassformer.inference.translator import Translator
from glassformer.paper import reference
from glassformer.settings import DecodingSettings
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


def test_attention_is_the_mean_over_layers_and_heads(trace):
    weights = [trace.array(f"decoder.{i}.cross.weights") for i in (0, 1)]
    np.testing.assert_allclose(trace.array(trace.evidence.attention), np.mean(weights, axis=(0, 1)), atol=1e-6)


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
