"""A log-probability that is NaN, and a sentence without a finite one, are errors of every search."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glassformer.errors import EngineError, NotFiniteError
from glassformer.paper.search import (
    Hypothesis,
    SearchConstraints,
    beam_search,
    check_token_scores,
    greedy_search,
    sample,
)
from tests.paper.search.toys import Stepper, start

SPACE = SearchConstraints(bos_id=0, eos_id=3, forbidden=(), max_new_tokens=4)
FINE = [math.log(0.2), math.log(0.3), math.log(0.4), math.log(0.1)]
ENDS = [-50.0, -50.0, -50.0, -1e-9]


def search(kind: str, table: dict[tuple[int, int], list[float]], n: int = 3) -> list[list[Hypothesis]]:
    """Search with these log-probabilities by sentence and time, or else FINE."""
    step = Stepper(lambda sentence, ids: table.get((sentence, len(ids)), FINE))
    if kind == "greedy":
        return greedy_search(step, start(n), n, SPACE)
    if kind == "sample":
        return sample(step, start(n), np.random.default_rng(1).random((n, SPACE.max_new_tokens, 2)), SPACE)
    return beam_search(step, start(n), n, SPACE, num_beams=3)


NAN = [math.nan] * 4
ONE_NAN = [*FINE[:2], math.nan, FINE[3]]
NOTHING = [-math.inf] * 4


@pytest.mark.parametrize("kind", ["greedy", "beam", "sample"])
@pytest.mark.parametrize(("row", "shown"), [(NAN, "nan"), (ONE_NAN, "nan"), (NOTHING, "-inf")])
@pytest.mark.parametrize("time", [0, 2])
def test_the_sentence_is_named(kind, row, shown, time):
    for sentence in range(3):
        with pytest.raises(NotFiniteError, match="the model computes numbers that are not finite") as caught:
            search(kind, {(sentence, time): row})
        assert caught.value.row == sentence
        assert caught.value.where == f"text {sentence + 1}"
        assert caught.value.got == f"a log-probability of {shown} after {time} tokens"
        assert caught.value.hint
        assert isinstance(caught.value, EngineError)


@pytest.mark.parametrize("kind", ["greedy", "beam"])
def test_what_is_computed_for_a_sentence_that_has_ended_does_not_matter(kind):
    """The first of three ends at once, and keeps its place for a while."""
    table = {(0, 0): ENDS} | {(0, t): NAN for t in range(1, 4)}
    found = search(kind, table, n=30)
    assert found[0][0].ids == ()


def test_a_sentence_with_an_answer_may_run_out_of_tokens():
    table = {(0, 0): [FINE[0], -math.inf, -math.inf, math.log(0.1)]} | {(0, t): NOTHING for t in range(1, 4)}
    ((best,),) = search("beam", table, n=1)
    assert (best.ids, best.finished) == ((), True)


@pytest.mark.parametrize(
    ("wrong", "at"), [([math.nan, -1.0], 0), ([-1.0, -2.0, -math.inf], 2), ([math.inf, -math.inf], 0)]
)
def test_the_score_of_a_given_target_is_finite(wrong, at):
    assert check_token_scores([[-1.0], []]) == [[-1.0], []]
    with pytest.raises(NotFiniteError) as caught:
        check_token_scores([[-1.0], wrong, [math.nan]])
    assert caught.value.row == 1
    assert caught.value.got == f"a log-probability of {wrong[at]} after {at} tokens"
