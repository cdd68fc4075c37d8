"""Sampling: chance that is spread evenly over [0, 1) must come out as the distribution itself."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from glassformer.paper.search import Hypothesis, LogProbs, SearchConstraints, greedy_search, sample
from glassformer.paper.search.sampling import draw_uniform, truncate

Floats = NDArray[np.float64]
distributions = st.lists(st.floats(0.01, 1), min_size=2, max_size=8).map(lambda parts: np.array(parts) / sum(parts))


class Last:
    """The state of a Markov chain needs no memory: the step function sees the last token."""

    def select(self, _rows: NDArray[np.int64]) -> Last:
        return self


def chain(table: Floats) -> object:
    """The step function of a Markov chain; `table[last]` holds the log-probabilities of the next token."""
    return lambda last, state: (LogProbs(table[last]), state)


def one_token(probs: Floats, uniform: Floats, **options: float) -> list[Hypothesis]:
    """Answers of one token; it is drawn from `probs`, by the chance of `uniform [K]`. <eos> is out of reach."""
    with np.errstate(divide="ignore"):
        row = np.log([*probs, 0.0])
    space = SearchConstraints(0, len(probs), (), 1)
    (answers,) = sample(chain(np.tile(row, (len(row), 1))), Last(), uniform[None, None, :], space, **options)  # type: ignore[arg-type]
    return answers


def shares(probs: Floats, **options: float) -> Floats:
    """How often each token comes, of 2,000 draws that are spread evenly over [0, 1)."""
    counts = Counter(answer.ids[0] for answer in one_token(probs, (np.arange(2000) + 0.5) / 2000, **options))
    return np.array([counts[token] / 2000 for token in range(len(probs))])


@settings(max_examples=25, deadline=None)
@given(probs=distributions, temperature=st.just(1.0) | st.floats(0.2, 5))
def test_tokens_come_as_often_as_they_are_likely_and_temperature_raises_that_to_a_power(
    probs: Floats, temperature: float
) -> None:
    powers = probs ** (1 / temperature)
    assert shares(probs, temperature=temperature) == pytest.approx(powers / powers.sum(), abs=1.1e-3)


def naive_truncate(probs: Floats, top_k: int, top_p: float) -> Floats:
    """Take the likeliest one by one until k are taken, then again until the mass is reached."""
    order = sorted(range(len(probs)), key=lambda token: -probs[token])
    order = order[: top_k or None]
    mass, kept = 0.0, []
    for token in order:
        if kept and mass >= top_p * probs[order].sum():
            break
        kept.append(token)
        mass += probs[token]
    return np.array([probs[token] if token in kept else 0.0 for token in range(len(probs))])


@settings(max_examples=50, deadline=None)
@given(
    weights=st.lists(st.integers(1, 1000), min_size=1, max_size=12, unique=True),
    top_k=st.integers(0, 14),
    top_p=st.floats(0.01, 1),
)
def test_truncation_keeps_the_likeliest(weights: list[int], top_k: int, top_p: float) -> None:
    probs = np.array(weights) / sum(weights)
    found = truncate(probs, top_k, top_p)
    assert found == pytest.approx(naive_truncate(probs, top_k, top_p), abs=0)


def random_chain(seed: int, vocabulary: int) -> Floats:
    logits = np.random.default_rng(seed).standard_normal((vocabulary, vocabulary))
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))  # type: ignore[no-any-return]


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    options=st.sampled_from([{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-6}, {"temperature": 1e-320}]),
)
def test_sampling_only_the_likeliest_token_is_greedy_search(seed: int, options: dict[str, float]) -> None:
    step, space = chain(random_chain(seed, 6)), SearchConstraints(0, 5, (0,), 7)
    uniform = np.stack([draw_uniform([seed, sentence], 1, 7, 3) for sentence in range(2)])
    assert np.array_equal(uniform[0], draw_uniform([seed, 0], 1, 7, 3))
    assert not any(np.array_equal(uniform[0], other) for other in (uniform[1], draw_uniform([seed, 0], 2, 7, 3)))
    ((greedy,),) = greedy_search(step, Last(), 1, space)  # type: ignore[arg-type]
    for answers in sample(step, Last(), uniform, space, **options):  # type: ignore[arg-type]
        assert [answer.ids for answer in answers] == [greedy.ids] * 3
        assert [answer.score for answer in answers] == pytest.approx([greedy.score] * 3)


@pytest.mark.parametrize("temperature", [0.5, 3.0, 1e300])
def test_scores_are_those_of_the_model_at_any_temperature(temperature: float) -> None:
    table, space = random_chain(7, 5), SearchConstraints(0, 4, (), 6)
    uniform = draw_uniform([1], 1, 6, 20)[None]
    (answers,) = sample(chain(table), Last(), uniform, space, temperature=temperature, alpha=0.6)  # type: ignore[arg-type]
    for answer in answers:
        ids = [*answer.ids, 4] if answer.finished else list(answer.ids)
        expected = [table[last, token].item() for last, token in zip([0, *ids], ids, strict=False)]
        assert answer.token_scores == pytest.approx(expected)
        assert answer.score == pytest.approx(sum(expected))
        assert answer.rank_score == pytest.approx(sum(expected) / ((5 + len(ids)) / 6) ** 0.6)


@pytest.mark.parametrize("temperature", [1e-320, 1.0, 1e300])
def test_the_ends_of_the_random_range_never_draw_an_impossible_token(temperature: float) -> None:
    ends = np.array([0.0, 1 - 2**-24])
    answers = one_token(np.array([0.0, 0.5, 0.5, 0.0]), ends, temperature=temperature)
    assert {answer.ids[0] for answer in answers} <= {1, 2}


def test_a_caller_for_whom_warnings_of_numpy_are_errors_gets_samples_too() -> None:
    with np.errstate(all="raise"):
        answers = one_token(np.array([0.001, 0.999]), np.array([0.5]), temperature=0.009)
    assert answers[0].ids == (1,)


def test_forbidden_tokens_are_never_drawn_and_prefixes_always_are() -> None:
    space = SearchConstraints(0, 5, (0, 3), 6, [[2, 4]])
    (answers,) = sample(chain(random_chain(2, 6)), Last(), draw_uniform([1], 1, 6, 200)[None], space, temperature=50.0)  # type: ignore[arg-type]
    assert {answer.ids[:2] for answer in answers} == {(2, 4)}
    assert {0, 3}.isdisjoint(token for answer in answers for token in answer.ids)
