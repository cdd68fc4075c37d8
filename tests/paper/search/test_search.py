"""Greedy and beam search over toys: tables of probabilities, and a list-based beam as the oracle."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from glassformer.paper.search import (
    Hypothesis,
    LogProbs,
    SearchConstraints,
    Step,
    beam_search,
    best_first,
    greedy_search,
)
from glassformer.paper.search.log_probs import SORTED
from tests.paper.search.toys import BOS, Histories, Ids, Stepper, Toy, all_answers, random_toy, start, total


def beam(toy: Toy, space: SearchConstraints, n_sentences: int = 1, **options: float) -> list[list[Hypothesis]]:
    return beam_search(Stepper(toy), start(n_sentences), n_sentences, space, **options)  # type: ignore[arg-type]


def greedy(toy: Toy, space: SearchConstraints, n_sentences: int = 1) -> list[Hypothesis]:
    return [best for (best,) in greedy_search(Stepper(toy), start(n_sentences), n_sentences, space)]


def penalty(length: int, alpha: float) -> float:
    return math.pow((5 + length) / 6, alpha)


def rank(answer: tuple[Ids, float], alpha: float) -> float:
    ids, score = answer
    return score / penalty(len(ids), alpha)


def naive_beam(
    toy: Toy, space: SearchConstraints, num_beams: int, alpha: float, n_best: int, sentence: int = 0
) -> list[Ids]:
    """The documented rules with lists, one sentence at a time, never stopping early. Ids end in <eos> if finished."""
    prefix = space.prefixes[sentence] if space.prefixes else ()
    live: list[tuple[Ids, float]] = [((), 0.0)]
    finished: list[tuple[Ids, float]] = []
    for time in range(space.max_new_tokens):
        candidates = [
            ((*ids, token), score + log_prob)
            for ids, score in live
            for token, log_prob in enumerate(toy(sentence, ids))
            if log_prob > -math.inf and token not in space.forbidden and (time >= len(prefix) or token == prefix[time])
        ]
        candidates.sort(key=lambda candidate: -candidate[1])
        kept = candidates[: num_beams - len(finished)]
        finished += [each for each in kept if each[0][-1] == space.eos_id]
        live = [each for each in kept if each[0][-1] != space.eos_id]

    return [ids for ids, _ in sorted(finished + live, key=lambda each: -rank(each, alpha))[:n_best]]


def with_eos(answer: Hypothesis, space: SearchConstraints) -> Ids:
    return (*answer.ids, space.eos_id) if answer.finished else answer.ids


# Toys add in float64, the search in float32; two answers as good as each other but for that are rare, but not rarer
# than runs of a suite.
same_examples = partial(settings, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
alphas = st.sampled_from([0.0, 0.6, 1.0, 2.5])


A, B, X, Y, END = range(5)
NEVER = -math.inf
GARDEN_PATH: dict[Ids, dict[int, float]] = {(): {A: 0.6, B: 0.4}, (A,): {X: 0.5, Y: 0.5}, (B,): {X: 0.9, Y: 0.1}}


def garden_path(_sentence: int, ids: Ids) -> list[float]:
    """The likelier first token leads to the less likely answer."""
    chances = GARDEN_PATH.get(ids, {END: 1.0})
    return [math.log(chances[token]) if token in chances else NEVER for token in range(5)]


GARDEN_SPACE = SearchConstraints(BOS, END, (), max_new_tokens=3)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, alpha=alphas, scale=st.sampled_from([0.3, 1.0, 4.0]), less_eos=st.sampled_from([-3.0, 0.0, 6.0]))
def test_a_beam_that_holds_all_prefixes_is_an_exhaustive_search(
    seed: int, alpha: float, scale: float, less_eos: float
) -> None:
    vocabulary, longest = 4, 4
    toy = random_toy(seed, vocabulary, scale, less_eos)
    space = SearchConstraints(BOS, vocabulary - 1, (), longest)
    ((answer,),) = beam(toy, space, num_beams=vocabulary ** (longest - 1), alpha=alpha)
    best = max(rank((ids, total(toy, ids)), alpha) for ids in all_answers(vocabulary, longest))
    assert answer.rank_score == pytest.approx(best, abs=1e-5)


# --- Against the naive beam ---


@same_examples(max_examples=50)
@given(
    seed=seeds,
    vocabulary=st.integers(2, 6),
    longest=st.integers(1, 6),
    num_beams=st.integers(1, 7),
    data=st.data(),
    alpha=alphas,
    less_eos=st.sampled_from([-2.0, 0.0, 3.0]),
)
def test_stopping_early_and_batching_never_change_an_answer(
    seed: int, vocabulary: int, longest: int, num_beams: int, data: st.DataObject, alpha: float, less_eos: float
) -> None:
    n_best = data.draw(st.integers(1, num_beams))
    n_sentences = data.draw(st.integers(1, 30))  # above ten, some that are done stay in the batch
    forbidden = data.draw(st.sets(st.integers(0, vocabulary - 2), max_size=vocabulary - 2))
    prefix = st.lists(st.sampled_from(sorted({*range(vocabulary - 1)} - forbidden)), max_size=4)
    prefixes = data.draw(st.none() | st.lists(prefix, min_size=n_sentences, max_size=n_sentences))
    toy = random_toy(seed, vocabulary, 1.5, less_eos)
    space = SearchConstraints(BOS, vocabulary - 1, tuple(forbidden), longest, prefixes)
    found = beam(toy, space, n_sentences, num_beams=num_beams, alpha=alpha, n_best=n_best)
    for sentence, (answers, best) in enumerate(zip(found, greedy(toy, space, n_sentences), strict=True)):
        listed = [with_eos(answer, space) for answer in answers]
        assert listed == naive_beam(toy, space, num_beams, alpha, n_best, sentence)
        assert [with_eos(best, space)] == naive_beam(toy, space, 1, 0.0, 1, sentence)
        for ids, answer in zip(listed, answers, strict=True):
            scores = [toy(sentence, ids[:at])[token] for at, token in enumerate(ids)]
            assert answer.token_scores == pytest.approx(scores)
            assert answer.score == pytest.approx(sum(scores), abs=1e-5)
            assert answer.rank_score == pytest.approx(sum(scores) / penalty(len(ids), alpha), abs=1e-5)


@same_examples(max_examples=60)
@given(
    seed=seeds, num_beams=st.integers(1, 5), alpha=alphas, less_eos=st.sampled_from([-2.0, 0.0, 3.0]), data=st.data()
)
def test_what_is_smaller_than_half_the_margin_changes_no_answer(
    seed: int, num_beams: int, alpha: float, less_eos: float, data: st.DataObject
) -> None:
    longest, n_best = 5, data.draw(st.integers(1, num_beams))
    toy, space = random_toy(seed, 5, 1.5, less_eos), SearchConstraints(BOS, 4, (), longest)

    def searched(toy: Toy) -> list[Hypothesis]:
        if num_beams == 1:
            return greedy(toy, space)
        return beam(toy, space, num_beams=num_beams, alpha=alpha, n_best=n_best)[0]

    answers = searched(toy)
    margin = min(answer.margin for answer in answers)
    assert 0 < margin < math.inf
    size = 0.49 * margin / longest

    def disturbed(sentence: int, ids: Ids) -> list[float]:
        noise = np.random.default_rng([seed, *ids, 1]).choice([-size, size], 5)
        return (np.array(toy(sentence, ids)) + noise).tolist()  # type: ignore[no-any-return]

    assert [answer.ids for answer in searched(disturbed)] == [answer.ids for answer in answers]


def test_impossible_tokens_take_slots_but_never_become_answers() -> None:
    (answers,) = beam(garden_path, GARDEN_SPACE, num_beams=10, n_best=10)
    assert {answer.ids for answer in answers} == {(A, X), (A, Y), (B, X), (B, Y)}
    assert all(math.isfinite(answer.score) for answer in answers)


# --- How much work ---


def ends_after(length: int) -> Toy:
    """Sentence n ends, nearly surely, after n + `length` tokens."""

    def toy(sentence: int, ids: Ids) -> list[float]:
        sure, other = math.log(0.98), math.log(0.01)
        return [other, other, sure] if len(ids) >= sentence + length else [sure, other, other]

    return toy


@pytest.mark.parametrize("search", ["greedy", "beam"])
@pytest.mark.parametrize(
    ("n_sentences", "rows"),
    [(3, [3, 3, 2, 1]), (12, [12, 12, 12, *range(10, 0, -1)])],  # of twelve, the first leaves together with the second
)
def test_sentences_that_are_done_leave_the_batch_when_they_are_a_tenth_of_it(
    search: str, n_sentences: int, rows: list[int]
) -> None:
    stepper, space = Stepper(ends_after(1)), SearchConstraints(BOS, 2, (), 50)
    if search == "greedy":
        found = greedy_search(stepper, start(n_sentences), n_sentences, space)
    else:
        found = beam_search(stepper, start(n_sentences), n_sentences, space, num_beams=2)
    assert [len(answers[0].ids) for answers in found] == list(range(1, n_sentences + 1))
    assert [lines for lines, _ in stepper.calls] == rows


@pytest.mark.parametrize(("alpha", "steps", "length"), [(0.0, 2, 0), (5.0, 9, 9)])
def test_the_search_goes_on_while_a_longer_answer_can_still_win(alpha: float, steps: int, length: int) -> None:
    """The end has .4 at each step: the shortest answer is the likeliest, one without an end has the best rank."""

    def toy(_sentence: int, _ids: Ids) -> list[float]:
        return [math.log(0.6), math.log(0.4)]

    stepper, space = Stepper(toy), SearchConstraints(BOS, 1, (), 9)
    ((answer,),) = beam_search(stepper, start(1), 1, space, num_beams=3, alpha=alpha)
    assert len(answer.ids) == length
    assert with_eos(answer, space) == naive_beam(toy, space, 3, alpha, 1)[0]
    assert len(stepper.calls) == steps


def test_the_step_function_keeps_its_own_numbers() -> None:
    """It may return a view of its table; the search must not write into that."""
    table = np.log([[[0.2, 0.3, 0.5]]])
    before = table.copy()

    def step(last: NDArray[np.int64], state: Histories) -> tuple[LogProbs, Histories]:
        return LogProbs(np.broadcast_to(table, (*last.shape, 3))), state

    class Nothing:
        def select(self, _rows: NDArray[np.int64]) -> Nothing:
            return self

    look_up: Step = step
    space = SearchConstraints(BOS, 2, (1,), 2, [[0]])
    greedy_search(look_up, Nothing(), 1, space)
    beam_search(look_up, Nothing(), 1, space, num_beams=2)
    assert np.array_equal(table, before)


@pytest.mark.parametrize("vocabulary", [SORTED, SORTED + 1])
def test_the_best_of_more_extensions_than_there_are_is_all_of_them(vocabulary: int) -> None:
    values = np.random.default_rng(1).standard_normal((2, 1, vocabulary)).astype(np.float32)
    found = LogProbs(values).best(np.zeros((2, 1), dtype=np.float32), vocabulary + 1)
    assert (found.sums == -np.sort(-values[:, 0], axis=1)).all()


def test_answers_rank_by_their_score_and_finished_ones_first_where_it_is_equal() -> None:
    def answer(rank_score: float, finished: bool) -> Hypothesis:
        return Hypothesis((), (), -9.0, rank_score, finished)

    expected = [answer(-0.5, False), answer(-1.0, True), answer(-1.0, False), answer(-2.0, True)]
    assert best_first([expected[i] for i in (3, 1, 0, 2)]) == expected


@pytest.mark.parametrize("n_sentences", [1, 2, 7])
def test_how_many_hypotheses_a_step_has_depends_on_time_alone(n_sentences: int) -> None:
    """Otherwise a sentence would go through other kernels in a batch than alone, which round differently."""
    stepper, constraints = Stepper(random_toy(1, vocabulary=3)), SearchConstraints(BOS, 2, (), 8)
    beam_search(stepper, start(n_sentences), n_sentences, constraints, num_beams=7, alpha=3.0, n_best=7)
    widths = [width for _, width in stepper.calls]
    assert len(widths) > 4
    assert widths == [1, 3, 7, 7, 7, 7, 7, 7][: len(widths)]
