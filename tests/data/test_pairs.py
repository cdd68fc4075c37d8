"""Pairs and texts from Python: only text is taken, and what is not is named by its row."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer.data.pairs import check_text, checked_pairs, checked_texts
from glassformer.data.tables import Pair
from glassformer.errors import UsageError


def test_any_pair_of_two_texts_is_accepted():
    expected = [Pair("a", "b"), Pair("c", "")]
    array = np.array([["a", "b"], ["c", ""]])
    for pairs in (expected, [["a", "b"], ["c", ""]], (pair for pair in expected), {("a", "b"): 1, ("c", ""): 2}, array):
        assert list(checked_pairs(pairs)) == expected


NO_PAIRS = ["cd", b"cd", None, ("c",), ("c", "d", "e"), ("c", None), (1, "d"), [], [["c"], ["d"]], {"c": "d", "e": "f"}]


@pytest.mark.parametrize("pair", [*NO_PAIRS, frozenset("cd")], ids=lambda pair: type(pair).__name__)
def test_a_pair_that_is_not_two_texts_is_an_error_with_its_row(pair):
    with pytest.raises(UsageError, match="row 2 of the pairs is not a pair") as caught:
        list(checked_pairs([("a", "b"), pair]))
    assert caught.value.got
    assert len(caught.value.got) <= 80
    assert caught.value.expected == "a source and a target, both text: (source, target)"


@pytest.mark.parametrize("values", ["ab", b"ab", None, 3, 2.5, object()], ids=lambda values: repr(values)[:20])
def test_values_that_are_not_iterable_or_are_text_are_an_error(values):
    with pytest.raises(UsageError, match="the pairs are not a list"):
        list(checked_pairs(values))
    with pytest.raises(UsageError, match="the prefixes are not a list"):
        checked_texts(values, "prefixes")


@pytest.mark.parametrize("text", [None, 3, b"a", float("nan"), ["a"]])
def test_a_value_that_is_not_text_is_an_error(text):
    with pytest.raises(UsageError, match="row 2 of the texts is not text"):
        checked_texts(["a", text], "texts")
    with pytest.raises(UsageError, match="the target is not text"):
        check_text(text, "target")
    assert checked_texts(("a", ""), "texts") == ["a", ""]
