"""The choice among several answers: against a slow definition, and with models that were never trained."""

from __future__ import annotations

import functools
import math
import random
import unicodedata
from fractions import Fraction

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import UsageError
from glassformer.inference.batching import BatchingTranslator
from glassformer.inference.choose import choose, expected_utilities, first_best, with_candidates
from glassformer.inference.translator import Translation
from glassformer.paper.settings import DecodingSettings
from tests.inference.test_translator import texts_of_the_alphabet, translator


def slow_risk(texts: list[str], counts: list[int]) -> list[Fraction]:
    """The expected chrF of each text in exact numbers; text i is right with the probability of its count."""
    texts = [unicodedata.normalize("NFC", text) for text in texts]
    chrf = functools.cache(lambda answer, reference: Fraction(sacrebleu.sentence_chrf(answer, [reference]).score))
    return [
        sum((Fraction(n) * chrf(text, other) for other, n in zip(texts, counts, strict=True)), Fraction(0))
        / sum(counts)
        for text in texts
    ]


counted_texts = st.lists(st.tuples(st.text("abé\u0301 ", max_size=5), st.integers(1, 4)), min_size=1, max_size=7).map(
    lambda rows: tuple(map(list, zip(*rows, strict=True)))
)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(rows=counted_texts, unit=st.floats(-900, 0))
def test_the_choice_is_the_first_with_the_largest_expected_utility(
    rows: tuple[list[str], list[int]], unit: float
) -> None:
    texts, counts = rows
    found = expected_utilities([(text, unit + math.log(n)) for text, n in zip(texts, counts, strict=True)])
    exact = slow_risk(texts, counts)
    assert found == pytest.approx([float(value) for value in exact], abs=1e-9)
    near = [abs(value - max(exact)) < Fraction(1, 10**8) for value in exact]  # chrF itself is rounded
    assert first_best(found) == near.index(True)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=counted_texts)
def test_a_repeated_sample_counts_as_often_as_it_was_drawn(rows: tuple[list[str], list[int]]) -> None:
    texts, counts = rows
    drawn = [text for text, n in zip(texts, counts, strict=True) for _ in range(n)]
    repeated = expected_utilities([(text, 0.0) for text in drawn])
    weighted = expected_utilities([(text, math.log(n)) for text, n in zip(texts, counts, strict=True)])
    assert max(repeated) == pytest.approx(max(weighted), abs=1e-9)
    assert drawn[first_best(repeated)] == texts[first_best(weighted)]


def answer(text: str, score: float, *alternatives: Translation, **about: object) -> Translation:
    tokens = tuple(text)
    return Translation(text, score, score, tokens, (score,), finished=True, alternatives=alternatives, **about)  # type: ignore[arg-type]


def test_the_answer_near_to_all_wins_over_the_most_probable_and_the_others_stay_in_order() -> None:
    best = answer("zzzz", math.log(0.4), answer("abcd", math.log(0.3)), answer("abce", math.log(0.3)), unknown=("?",))
    (found,) = choose([best])
    assert (found.text, found.unknown) == ("abcd", ("?",))
    assert [other.text for other in found.alternatives] == ["zzzz", "abce"]
    assert all(other.alternatives == () and other.unknown == () for other in found.alternatives)
    value = 30 + 0.3 * sacrebleu.sentence_chrf("abcd", ["abce"]).score
    assert found.to_json()["chosen"] == {"candidates": 3, "expected_chrf": pytest.approx(value)}


def test_samples_weigh_the_same_whatever_their_probability() -> None:
    samples = answer("a", -0.1, answer("b", -9.0), answer("b", -9.0))
    assert choose([samples])[0].text == "a"
    assert choose([samples], sampled=True)[0].text == "b"


def test_an_answer_that_was_not_chosen_among_several_says_nothing_of_it() -> None:
    assert "chosen" not in answer("a", -1.0).to_json()
    (found,) = choose(translator().translate([" "]))
    assert (found.text, found.chosen) == ("", {})


@pytest.mark.parametrize("options", [{"num_beams": 4}, {"do_sample": True, "num_return_sequences": 6}])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(texts=st.lists(texts_of_the_alphabet, min_size=1, max_size=6), shuffle=st.randoms(use_true_random=False))
def test_the_choice_is_the_same_alone_and_in_any_batch(
    options: dict[str, int], texts: list[str], shuffle: random.Random
) -> None:
    decoding = with_candidates(translator().settings.decoding.override(options))
    shuffle.shuffle(texts)
    with BatchingTranslator(translator()) as batching:
        together = choose(batching.translate(texts, decoding=decoding), sampled=decoding.do_sample)
    for text, found in zip(texts, together, strict=True):
        (alone,) = choose(translator().translate([text], decoding=decoding), sampled=decoding.do_sample)
        assert found.text == alone.text
        assert bool(found.chosen) == bool(alone.chosen) == bool(text.strip())


def test_the_candidates_are_the_beam_unless_a_number_is_set() -> None:
    assert with_candidates(DecodingSettings(num_beams=7)).num_return_sequences == 7
    assert with_candidates(DecodingSettings(num_beams=7, num_return_sequences=3)).num_return_sequences == 3
    for one in (DecodingSettings(num_beams=1), DecodingSettings(do_sample=True)):
        with pytest.raises(UsageError, match="only one answer to choose from"):
            with_candidates(one)
