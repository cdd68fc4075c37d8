"""A certain answer is the best of any beam: all answers of random toys are tried, which knows no bound.

A toy is a tree of distributions: another one after every history of every sentence. `<eos>` is the last token.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from glassformer.inference.engines import greedy_first
from glassformer.inference.engines.greedy_first import AnswerBatches, is_certain, search_greedy_first
from glassformer.paper.search import Hypothesis, SearchConstraints, beam_search, greedy_search
from glassformer.paper.search.constraints import hypothesis
from tests.paper.search.toys import BOS, Histories, Stepper, Toy, all_answers, random_toy

EOS, VOCABULARY = 3, 4

seeds = st.integers(0, 2**32 - 1)
alphas = st.sampled_from([0.0, 0.3, 0.6, 1.0, 2.5])
sureness = st.sampled_from([0.5, 2.0, 5.0])  # at the first nothing is certain, at the last nearly all is
every_case = settings(max_examples=40)


def toy_of(seed: int, sureness: float) -> Toy:
    return random_toy(seed, VOCABULARY, sureness)


def decoder(toy: Toy, longest: int, alpha: float):
    """A `search_rows(rows, num_beams)`."""
    space = SearchConstraints(BOS, EOS, (), longest)

    def search_rows(rows: Sequence[int], num_beams: int) -> AnswerBatches:
        if not rows:
            return
        step, state, n = Stepper(toy), Histories([[(row, ())] for row in rows]), len(rows)
        if num_beams == 1:
            found = greedy_search(step, state, n, space, alpha=alpha)
        else:
            found = beam_search(step, state, n, space, num_beams=num_beams, alpha=alpha)
        yield from ({row: answers} for row, answers in zip(rows, found, strict=True))

    return search_rows


def greedy(toy: Toy, longest: int, alpha: float) -> Hypothesis:
    return next(decoder(toy, longest, alpha)([0], 1))[0][0]


def ranked_answers(toy: Toy, longest: int, alpha: float) -> list[Hypothesis]:
    """Every answer, best first."""
    scores = {
        ids: [toy(0, ids[:at])[token] for at, token in enumerate(ids)] for ids in all_answers(VOCABULARY, longest)
    }
    answers = [hypothesis(ids, found, EOS, alpha) for ids, found in scores.items()]
    return sorted(answers, key=lambda answer: -answer.rank_score)


# Certainty


@every_case
@given(seeds, sureness, st.integers(1, 4), alphas)
def test_no_other_answer_outranks_a_certain_one(seed: int, sure: float, longest: int, alpha: float) -> None:
    toy = toy_of(seed, sure)
    answer = greedy(toy, longest, alpha)
    if is_certain(answer, alpha, longest):
        best, *others = ranked_answers(toy, longest, alpha)
        assert best.ids == answer.ids
        assert all(other.rank_score < best.rank_score for other in others)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.5])
def test_some_toys_are_certain_and_some_are_not(alpha: float) -> None:
    """So that the test above has something to say."""
    assert 20 < sum(is_certain(greedy(toy_of(seed, 5.0), 4, alpha), alpha, 4) for seed in range(100)) < 95


def answer_of(probability: float, length: int, alpha: float, finished: bool = True) -> Hypothesis:
    ids = [1] * (length - 1) + [EOS if finished else 1]
    return hypothesis(ids, [math.log(probability) / length] * length, EOS, alpha)


@pytest.mark.parametrize(
    ("probability", "length", "alpha", "longest", "expected"),
    [
        (0.501, 3, 0.0, 50, True),  # more than half of the probability, where there is no length penalty
        (0.500002, 3, 0.0, 50, False),  # within rounding of a half: a beam rounds otherwise, and the other one may win
        (0.7, 1, 1.0, 31, False),  # one of 31 tokens with all of the other 0.3: log 0.3 / 6 is above log 0.7
        (0.7, 1, 1.0, 13, True),  # a penalty of 3: log 0.3 / 3 = -0.401, below log 0.7 = -0.357
    ],
)
def test_an_answer_is_certain_where_a_longest_one_with_all_the_rest_does_not_outrank_it(
    probability: float, length: int, alpha: float, longest: int, expected: bool
) -> None:
    assert is_certain(answer_of(probability, length, alpha), alpha, longest) is expected
    assert not is_certain(answer_of(probability, length, alpha, finished=False), alpha, longest)


@pytest.mark.parametrize("score", [0.0, -1e-9, 1e-7])
def test_all_of_the_probability_is_certain_whatever_rounding_leaves(score: float) -> None:
    assert is_certain(hypothesis([1, EOS], [0.0, score], EOS, 0.6), 0.6, 100)


# Greedy search first


@every_case
@given(
    seed=seeds,
    sure=sureness,
    longest=st.integers(1, 5),
    alpha=alphas,
    num_beams=st.integers(2, 5),
    n_sentences=st.integers(0, 9),
    probe=st.integers(1, 9),
)
def test_the_answers_are_those_of_the_beam(
    seed: int, sure: float, longest: int, alpha: float, num_beams: int, n_sentences: int, probe: int
) -> None:
    search_rows = decoder(toy_of(seed, sure), longest, alpha)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy_first, "PROBE", probe)
        batches = list(search_greedy_first(search_rows, n_sentences, longest, num_beams=num_beams, alpha=alpha))
    assert sorted(row for found in batches for row in found) == list(range(n_sentences))
    expected = ChainMap(*search_rows(range(n_sentences), num_beams))
    for row, (answer,) in ChainMap(*batches).items():
        assert answer.ids == expected[row][0].ids
        assert answer.rank_score == pytest.approx(expected[row][0].rank_score, abs=1e-5)


@pytest.mark.parametrize(("n_certain", "goes_on"), [(2, False), (3, True)])
def test_greedy_search_goes_on_where_more_than_a_third_of_the_first_were_certain(
    n_certain: int, goes_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(greedy_first, "PROBE", 6)
    asked: list[tuple[list[int], int]] = []

    def search_rows(rows: Sequence[int], num_beams: int) -> AnswerBatches:
        asked.append((list(rows), num_beams))
        yield {row: [answer_of(0.9 if row < n_certain else 0.2, 2, 0.6)] for row in rows}

    found = list(search_greedy_first(search_rows, 10, 9, num_beams=4, alpha=0.6))
    assert sorted(row for answers in found for row in answers) == list(range(10))
    greedy_rows = [list(range(6)), list(range(6, 10))] if goes_on else [list(range(6))]
    assert asked == [*((rows, 1) for rows in greedy_rows), (list(range(n_certain, 10)), 4)]
