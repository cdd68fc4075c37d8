"""Confidence: fitted on held-out rows, kept in the model file, and given with answers."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from glassformer import evaluate, explain, translate_stream
from glassformer.data.splits import TrainedSources
from glassformer.errors import ModelFileError, TableError, UsageError
from glassformer.evaluation.calibration import calibrate
from glassformer.evaluation.reliability import reliability
from glassformer.inference.beam_confidence import beam_confidence, features
from glassformer.inference.confidence import MIN_SOURCES, PRIOR, fit, regression
from glassformer.inference.translator import EMPTY, Translator
from glassformer.storage.container import read_tensors, write_tensors
from glassformer.storage.modelfile import FORMAT, ModelFile
from glassformer.storage.records import Calibration, TrainingData
from glassformer.text.seen import learn_seen
from tests.inference.test_translator import untrained

SOURCES = ["".join(letters) for letters in product("abcdefgos", repeat=3)][: 2 * MIN_SOURCES]
NUMBERS = st.floats(-10, 10)
EXAMPLE = Calibration(weights=PRIOR, num_beams=3, fingerprint="0", sources=100, right=90, unusual=3, unusual_right=1)


def test_features_are_those_of_a_hand_computed_beam() -> None:
    """Of the beam the best answer has 0.6 against 0.3, of all texts 0.6 against 0.4."""
    found = features([math.log(0.6), math.log(0.2), math.log(0.1)])
    assert found == pytest.approx((1.0, math.log(2), math.log(1.5), math.log(2) ** 2 / 10))
    assert features([math.log(0.6)]) == pytest.approx((1.0, math.log(1.5), math.log(1.5), math.log(1.5) ** 2 / 10))


@given(
    st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=4),
    st.lists(st.floats(-1e4, 0), min_size=1, max_size=9),
    st.booleans(),
)
def test_every_answer_has_a_confidence(weights: list[float], scores: list[float], usual: bool) -> None:
    """With all weights that a model file may have."""
    calibration = Calibration(**EXAMPLE.to_dict() | {"weights": weights})
    limit = 1.0 if usual else calibration.unusual_limit
    assert 0 <= beam_confidence(calibration.weights, scores, limit) <= (1 if usual else 2 / 5)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=40))
def test_the_fitted_weights_are_the_minimum(drawn: list[tuple[float, float, bool]]) -> None:
    """The gradient of the penalized loss, written here as a sum over rows, is zero there; the loss is convex."""
    rows, right = np.array([(1, a, b) for a, b, _ in drawn]), np.array([float(is_right) for *_, is_right in drawn])
    prior = np.array([0.0, 1.0, 0.0])
    weights = regression(rows, right, prior)
    gradient = weights - prior
    for row, is_right in zip(rows, right, strict=True):
        gradient = gradient + (1 / (1 + np.exp(-(row @ weights))) - is_right) * row
    assert np.abs(gradient).max() < 1e-5


@pytest.mark.parametrize("curve", [-0.7, 1.5])
def test_the_square_counts_only_where_more_log_odds_never_make_an_answer_less_probable(curve: float) -> None:
    generator = np.random.default_rng(2)
    among = generator.uniform(0, 10, 2000)
    rows = np.column_stack((np.ones(2000), among, generator.uniform(-5, 5, 2000), among**2 / 10))
    right = (generator.random(2000) < 1 / (1 + np.exp(-(rows @ [-1.0, 1.0, 0.0, curve])))).astype(float)
    weights = fit(rows, right)
    assert len(weights) == (4 if curve > 0 else 3)
    beams = [[-0.5, -0.5 - log_odds] for log_odds in np.linspace(0, 10, 50)]
    found = [beam_confidence(weights.tolist(), scores) for scores in beams]
    assert found == sorted(found)


def test_where_no_held_out_answer_is_wrong_an_answer_with_a_rival_is_uncertain() -> None:
    rows = np.array([features([-0.01, -6.0, -7.0])] * 500)
    weights, limit = fit(rows, np.ones(500)).tolist(), EXAMPLE.model_copy(update={"unusual": 0, "unusual_right": 0})
    assert beam_confidence(weights, [-0.01, -6.0, -7.0]) > 0.99
    assert beam_confidence(weights, [-0.9, -0.9, -7.0]) < 0.7
    assert beam_confidence(weights, [-0.01, -6.0, -7.0], limit.unusual_limit) == 0.5


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A model of random weights, calibrated on rows of which every third is not its answer."""
    one = Translator(untrained(decoding={"max_new_tokens": 30}), device="cpu")
    answers = one.translate(SOURCES)
    pairs = [(source, "?" * (row % 3 == 0) + answers[row].text) for row, source in enumerate(SOURCES)]
    return Translator(replace(one.model_file, calibration=calibrate(one, pairs, table="made.csv")), device="cpu")


def test_a_calibration_says_what_it_was_fitted_on(translator: Translator) -> None:
    found = translator.model_file.calibration
    assert found is not None
    assert (found.sources, found.right, found.table, found.num_beams) == (200, 133, "made.csv", 3)
    mean = np.mean([answer.confidence for answer in translate_stream(translator, SOURCES, min_confidence=0.0)])
    assert mean == pytest.approx(133 / 200, abs=0.02)
    assert found.summary == "calibrated on 200 held-out sources of made.csv, 133 of them answered correctly"
    none = found.model_copy(update={"right": 0, "table": None})
    assert none.summary == "calibrated on 200 held-out sources, none of them answered correctly"


def test_too_few_sources_are_an_error_that_says_how_many_are_needed(translator: Translator) -> None:
    with pytest.raises(TableError) as caught:
        calibrate(translator, [("a", "b"), ("b", "c")] * MIN_SOURCES, table="few.csv")
    error = caught.value
    assert (error.where, error.got) == ("few.csv", "2 different sources")
    assert error.expected == f"at least {MIN_SOURCES}, none of which was trained on"


def test_sources_that_were_trained_on_are_left_out(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "trained_sources", TrainedSources.of(SOURCES[:50]))
    assert calibrate(translator, [(source, "?") for source in SOURCES]).sources == len(SOURCES) - 50
    with pytest.raises(TableError) as caught:
        calibrate(translator, [(source, "?") for source in SOURCES[:149]])
    assert caught.value.got == "99 different sources and 50 that were trained on"


def test_a_search_for_all_of_the_beam_of_the_calibration_has_a_confidence(translator: Translator) -> None:
    (best,) = translator.translate(["abc"], num_return_sequences=3)
    calibration = translator.model_file.calibration
    assert calibration is not None
    scores = [one.score for one in (best, *best.alternatives)]
    assert best.confidence == beam_confidence(
        calibration.weights, scores, 1.0 if best.finished else calibration.unusual_limit
    )
    assert best.to_json()["confidence"] == best.confidence
    assert [one.confidence for one in best.alternatives] == [None, None]
    assert "confidence" not in best.alternatives[0].to_json()
    ensemble = Translator(translator.model_file, ensemble=[translator.model_file], device="cpu")
    plain = Translator(untrained(), device="cpu")
    others: list[tuple[Translator, dict]] = [
        (translator, {"num_return_sequences": 2}),
        (translator, {"num_beams": 4, "num_return_sequences": 4}),
        (translator, {"num_return_sequences": 3, "do_sample": True}),
        (translator, {"num_return_sequences": 3, "prefixes": ["a"]}),
        (ensemble, {"num_return_sequences": 3}),
        (plain, {"num_return_sequences": 3}),
    ]
    assert [one.translate(["abc"], **options)[0].confidence for one, options in others] == [None] * 6


def test_confidence_changes_neither_answers_nor_their_number(translator: Translator) -> None:
    plain = translator.translate(SOURCES[:50], num_return_sequences=2)
    sure = list(translate_stream(translator, SOURCES[:50], min_confidence=0.0, num_return_sequences=2))
    texts = [[[answer.text, *(one.text for one in answer.alternatives)] for answer in side] for side in (plain, sure)]
    assert texts[0] == texts[1]


def test_a_text_unlike_the_training_has_a_limited_confidence(translator: Translator) -> None:
    """The training is one text; of the held-out answers to other texts, none of 8 is right."""
    file, finished = translator.model_file, [one.finished for one in translator.translate(SOURCES)]
    first, *_, last = (source for source, is_finished in zip(SOURCES, finished, strict=True) if is_finished)
    ids = np.array(file.source_tokenizer.frame(file.source_tokenizer.encode(first)))
    n, bits = learn_seen(ids, np.array([len(ids)]))
    data = TrainingData(seen_length=n, seen_strings=base64.b64encode(bits).decode(), longest_source=3)
    assert file.calibration is not None
    sure = file.calibration.model_copy(update={"weights": (9.0, 0.0, 0.0), "unusual": 8, "unusual_right": 0})
    made = Translator(replace(file, data=data, calibration=sure), device="cpu")
    known, new = translate_stream(made, [first, last], min_confidence=0.0)
    assert (bool(known.unlike), bool(new.unlike)) == (False, True)
    assert (known.confidence, new.confidence) == (pytest.approx(1 / (1 + math.exp(-9))), 0.1)


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"do_sample": True}, "an answer that is sampled"),
        ({"num_beams": 4}, "a beam of 4"),
        ({"prefixes": ["a"]}, "an answer with a forced start"),
        ({"min_confidence": 95}, "the minimum confidence is not a probability"),
    ],
)
def test_confidence_is_refused_where_it_is_not_known(translator: Translator, options: dict, got: str) -> None:
    with pytest.raises(UsageError) as caught:
        list(translate_stream(translator, ["abc"], **{"min_confidence": 0.5, **options}))
    assert got in str(caught.value)


def test_a_trace_has_the_confidence_of_its_answer_unless_it_is_edited(translator: Translator) -> None:
    (answer,) = translate_stream(translator, ["abc"], min_confidence=0.0)
    assert explain(translator, "abc", evidence=False).confidence == pytest.approx(answer.confidence, abs=1e-5)
    edited = explain(translator, "abc", evidence=False, edits=["positions off"])
    others = explain(translator, "abc", evidence=False, num_beams=2), explain(untrained(), "abc", evidence=False)
    assert [one.confidence for one in (edited, *others)] == [None] * 3


# What it is worth


def test_reliability_is_that_of_a_hand_computed_case() -> None:
    """Bins 0.9 to 1 (0.95, 0.95; one right) and 0.4 to 0.5 (0.45; right): gaps 0.45 · 2/3 and 0.55 · 1/3."""
    answers = [replace(EMPTY, text=text, confidence=p) for text, p in (("a", 0.95), ("b", 0.95), ("c", 0.45))]
    found = reliability([*answers, EMPTY], ["a", "-", "c", "-"])
    assert found.calibration_error == pytest.approx(0.45 * 2 / 3 + 0.55 / 3)
    assert found.brier == pytest.approx((0.05**2 + 0.95**2 + 0.55**2) / 3)
    assert found.brier_constant == pytest.approx(2 / 9)
    at = {level.minimum: level for level in found.levels}
    assert (at[0.0].answers, at[0.9].answers, at[0.98].answers) == (3, 2, 0)
    assert (at[0.9].coverage, at[0.9].accuracy) == (pytest.approx(2 / 3), 0.5)
    assert (at[0.9].low, at[0.9].high) == (pytest.approx(0.0945, abs=1e-4), pytest.approx(0.9055, abs=1e-4))
    assert at[0.98].accuracy is None


def test_an_evaluation_compares_the_confidence_with_what_is_right(translator: Translator) -> None:
    answers = translator.translate(SOURCES)
    pairs = [(source, "?" * (row % 3 == 0) + answers[row].text) for row, source in enumerate(SOURCES)]
    found = evaluate(translator, pairs, confidence=True)
    assert found.reliability is not None
    assert found.reliability.calibration_error < 0.1
    assert found.reliability.brier <= found.reliability.brier_constant
    written = json.loads(json.dumps(found.to_json()))["reliability"]
    assert written["levels"][0] == {"minimum": 0.0, "answers": 200, "coverage": 1.0} | {
        name: pytest.approx(value, abs=1e-3) for name, value in (("accuracy", 0.665), ("low", 0.5969), ("high", 0.7267))
    }
    with pytest.raises(UsageError, match="is not known"):
        evaluate(Translator(untrained(), device="cpu"), pairs, confidence=True)


def test_a_calibration_is_kept_in_the_model_file_and_a_damaged_one_is_named(translator: Translator, tmp_path) -> None:
    path = tmp_path / "model.safetensors"
    translator.model_file.save(path)
    assert ModelFile.load(path).calibration == translator.model_file.calibration
    tensors, parts = read_tensors(path, FORMAT)
    parts["calibration"]["weights"] = [1.0, 2.0]
    write_tensors(path, FORMAT, tensors, parts)
    with pytest.raises(ModelFileError, match=r"'calibration.weights.*' in the model file is not valid"):
        ModelFile.load(path)
    untrained().save(path)
    assert ModelFile.load(path).calibration is None
    assert "calibration" not in read_tensors(path, FORMAT)[1]
