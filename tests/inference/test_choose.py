"""The choice among several answers: against slow definitions, and with models that were never trained."""

from __future__ import annotations

import functools
import math
import random
import unicodedata
from collections.abc import Callable
from fractions import Fraction

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.errors import UsageError
from glassformer.inference.batching import BatchingTranslator
from glassformer.inference.choose import (
    UTILITIES,
    MinimumBayesRisk,
    ReverseModel,
    Rule,
    choose,
    default_utility,
    expected_utilities,
    first_best,
    with_candidates,
)
from glassformer.inference.translator import Translation, Translator
from glassformer.paper.search import length_penalty
from glassformer.paper.settings import DecodingSettings, Settings
from tests.inference.test_translator import texts_of_the_alphabet, translator, untrained


def slow_edits(a: str, b: str) -> int:
    """Levenshtein's distance by its recursive definition."""
    if not a or not b:
        return len(a) + len(b)
    change = slow_edits(a[1:], b[1:]) + (a[0] != b[0])
    return min(change, slow_edits(a[1:], b) + 1, slow_edits(a, b[1:]) + 1)


SLOW: dict[str, Callable[[str, str], float]] = {
    "exact_match": lambda answer, reference: int(answer == reference),
    "edit_distance": lambda answer, reference: -slow_edits(answer, reference),
    "chrf": lambda answer, reference: sacrebleu.sentence_chrf(answer, [reference]).score,
}


def slow_risk(texts: list[str], counts: list[int], utility: str) -> list[Fraction]:
    """The expected utility of each text in exact numbers; text i is right with the probability of its count."""
    texts = [unicodedata.normalize("NFC", text) for text in texts]
    measure = functools.cache(SLOW[utility])
    return [
        sum((Fraction(n) * Fraction(measure(text, other)) for other, n in zip(texts, counts, strict=True)), Fraction(0))
        / sum(counts)
        for text in texts
    ]


counted_texts = st.lists(st.tuples(st.text("abé\u0301 ", max_size=5), st.integers(1, 4)), min_size=1, max_size=7).map(
    lambda rows: tuple(map(list, zip(*rows, strict=True)))
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(rows=counted_texts, utility=st.sampled_from(sorted(UTILITIES)), unit=st.floats(-900, 0))
def test_the_choice_is_the_first_with_the_largest_expected_utility(
    rows: tuple[list[str], list[int]], utility: str, unit: float
) -> None:
    texts, counts = rows
    found = expected_utilities([(text, unit + math.log(n)) for text, n in zip(texts, counts, strict=True)], utility)
    exact = slow_risk(texts, counts, utility)
    assert found == pytest.approx([float(value) for value in exact], abs=1e-9)
    near = [abs(value - max(exact)) < Fraction(1, 10**8) for value in exact]  # chrF itself is rounded
    assert first_best(found) == near.index(True)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=counted_texts, utility=st.sampled_from(sorted(UTILITIES)))
def test_a_repeated_sample_counts_as_often_as_it_was_drawn(rows: tuple[list[str], list[int]], utility: str) -> None:
    texts, counts = rows
    drawn = [text for text, n in zip(texts, counts, strict=True) for _ in range(n)]
    repeated = expected_utilities([(text, 0.0) for text in drawn], utility)
    weighted = expected_utilities([(text, math.log(n)) for text, n in zip(texts, counts, strict=True)], utility)
    assert max(repeated) == pytest.approx(max(weighted), abs=1e-9)
    assert drawn[first_best(repeated)] == texts[first_best(weighted)]


def answer(text: str, score: float, *alternatives: Translation, **about: object) -> Translation:
    tokens = tuple(text)
    return Translation(text, score, score, tokens, (score,), finished=True, alternatives=alternatives, **about)  # type: ignore[arg-type]


def test_the_answer_near_to_all_wins_over_the_most_probable_and_the_others_stay_in_order() -> None:
    best = answer("zzzz", math.log(0.4), answer("abcd", math.log(0.3)), answer("abce", math.log(0.3)), unknown=("?",))
    (found,) = choose(["x"], [best], MinimumBayesRisk("edit_distance"))
    assert (found.text, found.unknown) == ("abcd", ("?",))
    assert [other.text for other in found.alternatives] == ["zzzz", "abce"]
    assert all(other.alternatives == () and other.unknown == () for other in found.alternatives)
    assert found.to_json()["chosen"] == {"rule": "edit_distance", "candidates": 3, "value": pytest.approx(-1.9)}
    assert choose(["x"], [best], MinimumBayesRisk("exact_match"))[0].text == "zzzz"


def test_samples_weigh_the_same_whatever_their_probability() -> None:
    samples = answer("a", -0.1, answer("b", -9.0), answer("b", -9.0))
    assert choose(["x"], [samples], MinimumBayesRisk("exact_match"))[0].text == "a"
    assert choose(["x"], [samples], MinimumBayesRisk("exact_match", sampled=True))[0].text == "b"


def test_an_answer_that_was_not_chosen_among_several_says_nothing_of_it() -> None:
    assert "chosen" not in answer("a", -1.0).to_json()
    (found,) = choose([" "], translator().translate([" "]), MinimumBayesRisk())
    assert (found.text, found.chosen) == ("", {})


@functools.cache
def reverse(seed: int = 3) -> Translator:
    return Translator(untrained(seed), device="cpu")


@pytest.mark.parametrize("rule", [*map(MinimumBayesRisk, UTILITIES), ReverseModel(reverse())], ids=lambda one: one.name)
@pytest.mark.parametrize("options", [{"num_beams": 4}, {"do_sample": True, "num_return_sequences": 6}])
@settings(max_examples=10, deadline=None, derandomize=True)
@given(texts=st.lists(texts_of_the_alphabet, min_size=1, max_size=6), shuffle=st.randoms(use_true_random=False))
def test_the_choice_is_the_same_alone_and_in_any_batch(
    rule: Rule, options: dict[str, int], texts: list[str], shuffle: random.Random
) -> None:
    decoding = with_candidates(translator().settings.decoding.override(options))
    shuffle.shuffle(texts)
    with BatchingTranslator(translator()) as batching:
        together = choose(texts, batching.translate(texts, decoding=decoding), rule)
    for text, found in zip(texts, together, strict=True):
        (alone,) = choose([text], translator().translate([text], decoding=decoding), rule)
        assert found.text == alone.text
        assert bool(found.chosen) == bool(alone.chosen) == bool(text.strip())


def test_a_reverse_model_adds_its_score_after_the_length_penalty() -> None:
    (before,) = translator().translate(["abc"], num_beams=5, num_return_sequences=5)
    candidates = [before, *before.alternatives]
    alpha = reverse().settings.decoding.length_alpha
    scored = [reverse().score([(one.text, "abc")])[0] for one in candidates]
    sums = [
        one.rank_score + 2.5 * pair.score / length_penalty(len(pair.tokens), alpha) if one.text else -math.inf
        for one, pair in zip(candidates, scored, strict=True)
    ]
    (found,) = choose(["abc"], [before], ReverseModel(reverse(), 2.5))
    assert found.text == candidates[sums.index(max(sums))].text
    assert found.chosen["value"] == pytest.approx(max(sums), abs=1e-4)
    (unweighted,) = choose(["abc"], [before], ReverseModel(reverse(), 0.0))
    assert unweighted.text == next(one.text for one in candidates if one.text)


def test_a_candidate_that_the_reverse_model_cannot_read_comes_last() -> None:
    strict = ReverseModel(Translator(untrained(side={"unknown": False}, data={"max_source_length": 3}), device="cpu"))
    candidates = answer("aaaa", -1.0, answer("?", -1.0), answer(" ", -1.0), answer("ab", -50.0))
    (found,) = choose(["abc"], [candidates], strict)
    assert (found.text, found.chosen["candidates"]) == ("ab", 4)
    (kept,) = choose(["abc"], [answer("?", -1.0, answer("aaaa", -1.0))], strict)
    assert (kept.text, kept.chosen) == ("?", {})


def test_a_model_that_cannot_be_the_reverse_is_refused() -> None:
    other = Translator(untrained(alphabet="xyz"), device="cpu")
    with pytest.raises(UsageError, match="most characters are not in the source vocabulary of the reverse") as caught:
        ReverseModel.of(other, translator().model_file)
    assert caught.value.got == "12 of 12"
    assert ReverseModel.of(reverse(), translator().model_file, 0.5).weight == 0.5


def test_the_candidates_are_the_beam_unless_a_number_is_set() -> None:
    assert with_candidates(DecodingSettings(num_beams=7)).num_return_sequences == 7
    assert with_candidates(DecodingSettings(num_beams=7, num_return_sequences=3)).num_return_sequences == 3
    for one in (DecodingSettings(num_beams=1), DecodingSettings(do_sample=True)):
        with pytest.raises(UsageError, match="only one answer to choose from"):
            with_candidates(one)


def test_the_utility_follows_the_metric_of_the_model_and_another_one_is_named() -> None:
    def of(metric: str) -> str:
        return default_utility(Settings.model_validate({"training": {"metric": metric}}))

    assert [of("exact_match"), of("token_error_rate"), of("bleu")] == ["exact_match", "edit_distance", "chrf"]
    with pytest.raises(UsageError, match="there is no utility 'chrF'"):
        MinimumBayesRisk("chrF")
