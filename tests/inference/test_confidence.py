"""The probability that an answer is right: fitted on held-out rows, kept in the model file, and given with answers."""

from __future__ import annotations

import base64
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer import translate_stream
from glassformer.errors import ModelFileError, TableError, UsageError
from glassformer.inference.calibration import calibrate
from glassformer.inference.confidence import MIN_SOURCES, PRIOR, features, fit, probability
from glassformer.inference.translator import Translator
from glassformer.ship.storage.container import read_tensors, write_tensors
from glassformer.ship.storage.modelfile import FORMAT, ModelFile
from glassformer.ship.storage.records import Calibration, TrainingData
from glassformer.text.seen import learn_seen
from tests.inference.test_translator import untrained

SOURCES = ["".join(letters) for letters in product("abcdefgos", repeat=3)][: 2 * MIN_SOURCES]
NUMBERS = st.floats(-20, 20)


def test_features_are_those_of_a_hand_computed_answer() -> None:
    found = features([math.log(0.5), math.log(0.5)], 3)
    assert found == pytest.approx((1.0, math.log(0.25 / 0.75), 0.0, math.log(2), math.log(3)))


@given(st.lists(st.floats(-1e4, 0), min_size=1, max_size=9), st.integers(0, 500), st.booleans())
def test_every_answer_has_a_probability(scores: list[float], length: int, usual: bool) -> None:
    made = Calibration(weights=PRIOR, fingerprint="0", sources=100, right=90, unusual=3, unusual_right=1)
    found = probability(made, scores, length, usual=usual)
    assert 0 <= found <= (1 if usual else 2 / 5)
    if usual:
        assert found == pytest.approx(math.exp(sum(scores)), abs=1e-6)  # the prior is the model's own probability


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=40))
def test_the_fitted_weights_are_the_minimum(drawn: list[tuple[float, float, bool]]) -> None:
    """The gradient of the penalized loss, written here as a sum over rows, is zero there; the loss is convex."""
    rows, right = np.array([(1, a, b) for a, b, _ in drawn]), np.array([float(is_right) for *_, is_right in drawn])
    prior = np.array([0.0, 1.0, 0.0])
    weights = fit(rows, right, prior)
    gradient = weights - prior
    for row, is_right in zip(rows, right, strict=True):
        gradient = gradient + (1 / (1 + np.exp(-(row @ weights))) - is_right) * row
    assert np.abs(gradient).max() < 1e-5


def test_a_logistic_regression_is_recovered_from_its_draws() -> None:
    generator = np.random.default_rng(1)
    rows = np.column_stack((np.ones(20_000), generator.normal(2, 2, 20_000)))
    truth = 1 / (1 + np.exp(-(rows @ [-1.0, 0.6])))
    right = (generator.random(len(rows)) < truth).astype(float)
    assert fit(rows, right, (0.0, 1.0)) == pytest.approx([-1.0, 0.6], abs=0.06)


def test_where_no_held_out_answer_is_wrong_an_improbable_answer_stays_improbable() -> None:
    rows = np.array([features([-0.01], 5)] * 500)
    made = Calibration(
        weights=tuple(fit(rows, np.ones(500))), fingerprint="0", sources=500, right=500, unusual=0, unusual_right=0
    )
    sure, unsure = (probability(made, [score], 5, usual=True) for score in (-0.01, -3.0))
    assert sure > 0.99
    assert unsure < 0.6
    assert probability(made, [-0.01], 5, usual=False) == 0.5


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
    assert (found.sources, found.right, found.table) == (200, 133, "made.csv")
    mean = np.mean([answer.probability for answer in translator.translate(SOURCES)])
    assert mean == pytest.approx(133 / 200, abs=0.02)


def test_too_few_sources_are_an_error_that_says_how_many_are_needed(translator: Translator) -> None:
    with pytest.raises(TableError) as caught:
        calibrate(translator, [("a", "b"), ("b", "c")] * MIN_SOURCES, table="few.csv")
    error = caught.value
    assert (error.where, error.got) == ("few.csv", "2 different sources")
    assert error.expected == f"at least {MIN_SOURCES}, none of which was trained on"


def test_only_the_best_answer_of_a_search_has_a_probability(translator: Translator) -> None:
    (best,) = translator.translate(["abc"], num_return_sequences=2)
    (again,) = translator.translate(["abc"])
    assert best.probability == pytest.approx(again.probability, abs=1e-4)
    assert best.to_json()["probability"] == best.probability
    (other,) = best.alternatives
    assert (other.probability, "probability" in other.to_json()) == (None, False)
    (sampled,) = translator.translate(["abc"], do_sample=True)
    (forced,) = translator.translate(["abc"], prefixes=["a"])
    ensemble = Translator(translator.model_file, ensemble=[translator.model_file], device="cpu")
    (averaged,) = ensemble.translate(["abc"])
    (plain,) = Translator(untrained(), device="cpu").translate(["abc"])
    assert [one.probability for one in (sampled, forced, averaged, plain)] == [None] * 4


def test_a_text_unlike_the_training_has_a_limited_probability(translator: Translator) -> None:
    """The training is one text; of the held-out answers to other texts, none of 8 is right."""
    file, finished = translator.model_file, [one.finished for one in translator.translate(SOURCES)]
    first, *_, last = (source for source, is_finished in zip(SOURCES, finished, strict=True) if is_finished)
    ids = np.array(file.source_tokenizer.frame(file.source_tokenizer.encode(first)))
    n, bits = learn_seen(ids, np.array([len(ids)]))
    data = TrainingData(seen_length=n, seen_strings=base64.b64encode(bits).decode(), longest_source=3)
    assert file.calibration is not None
    sure = file.calibration.model_copy(update={"weights": (9.0, 0.0, 0.0, 0.0, 0.0), "unusual": 8, "unusual_right": 0})
    known, new = Translator(replace(file, data=data, calibration=sure), device="cpu").translate([first, last])
    assert (bool(known.unlike), bool(new.unlike)) == (False, True)
    assert (known.probability, new.probability) == (pytest.approx(1 / (1 + math.exp(-9))), 0.1)


def test_a_stream_holds_back_what_is_too_uncertain_and_the_row_stays(translator: Translator) -> None:
    given = translator.translate(SOURCES)
    minimum = float(np.median([answer.probability for answer in given]))
    found = list(translate_stream(translator, [*SOURCES, ""], min_confidence=minimum))
    assert len(found) == len(SOURCES) + 1
    for answer, whole in zip(found, given, strict=False):
        is_sure = whole.probability >= minimum
        assert (answer.text, bool(answer.held_back)) == ((whole.text, False) if is_sure else ("", True))
        assert answer.probability == pytest.approx(whole.probability, abs=1e-4)
    assert 0 < sum(bool(answer.held_back) for answer in found) < len(SOURCES)
    assert not found[-1].held_back  # an empty text has an empty answer


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"do_sample": True}, "an answer that is sampled"),
        ({"prefixes": ["a"]}, "an answer with a forced start"),
    ],
)
def test_confidence_is_refused_where_it_is_not_known(translator: Translator, options: dict, got: str) -> None:
    with pytest.raises(UsageError) as caught:
        list(translate_stream(translator, ["abc"], min_confidence=0.5, **options))
    assert caught.value.got == got


def test_a_minimum_that_is_no_probability_is_refused(translator: Translator) -> None:
    with pytest.raises(UsageError, match="the minimum confidence is not a probability"):
        list(translate_stream(translator, ["abc"], min_confidence=95))


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
