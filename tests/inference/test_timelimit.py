"""A computation ends at the check after its time has passed, in every thread that works for it."""

from __future__ import annotations

import itertools

import pytest

from glassformer.errors import TimeLimitError
from glassformer.inference import timelimit
from glassformer.inference.timelimit import check_time_limit, time_limit
from glassformer.inference.translator import Translator
from tests.inference.test_translator import untrained


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> itertools.count[int]:
    """Each look at the clock is a second later."""
    seconds = itertools.count()
    monkeypatch.setattr(timelimit, "monotonic", lambda: next(seconds))
    return seconds


def test_the_check_after_the_last_second_raises_and_says_the_limit(clock: itertools.count[int]) -> None:
    with time_limit(3):
        for _ in range(3):
            check_time_limit()
        with pytest.raises(TimeLimitError, match="the computation took too long") as caught:
            check_time_limit()
    assert caught.value.expected == "at most 3 seconds"
    check_time_limit()


@pytest.fixture(scope="module")
def translator() -> Translator:
    """A model that was never trained."""
    return Translator(untrained(decoding={"max_new_tokens": 12}), device="cpu")


@pytest.mark.parametrize("num_beams", [1, 3])
def test_a_translation_ends_at_any_of_its_steps(
    translator: Translator, clock: itertools.count[int], num_beams: int
) -> None:
    with time_limit(1e9):
        started = next(clock)
        answer = translator.translate(["abc"], num_beams=num_beams)[0]
        n_checks = next(clock) - started - 1
    assert n_checks > len(answer.tokens), "one in each step, at least"
    for seconds in range(n_checks):
        with time_limit(seconds), pytest.raises(TimeLimitError):
            translator.translate(["abc"], num_beams=num_beams)
    with time_limit(n_checks):
        assert translator.translate(["abc"], num_beams=num_beams)[0] == answer


def test_scoring_ends_between_two_batches(translator: Translator) -> None:
    with time_limit(-1), pytest.raises(TimeLimitError):
        translator.score([("abc", "cba")])
