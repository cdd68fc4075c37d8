"""Packed ids against plain lists; held-out rows by their promises."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.corpus import Corpus, Sequences, hold_out, spread
from glassformer.data.tables import Pair
from glassformer.errors import TextError
from glassformer.settings import SideSettings
from glassformer.text import learn

quick = settings(max_examples=50, deadline=None)
sequences = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=12)
tables = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40).map(
    lambda sources: [Pair(source, str(row)) for row, source in enumerate(sources)]
)
fractions = st.floats(0, 0.99)

# Sequences


@quick
@given(sequences)
def test_packed_sequences_can_be_read_one_by_one(lists):
    packed = Sequences.pack(lists)
    assert len(packed) == len(lists)
    assert packed.lengths.tolist() == [len(row) for row in lists]
    assert [packed.ids[a:b].tolist() for a, b in zip(packed.offsets, packed.offsets[1:], strict=False)] == lists
    assert (packed.ids.dtype, packed.offsets.dtype) == (np.int32, np.int64)


@quick
@given(sequences, st.data())
def test_rows_are_taken_one_after_the_other_in_any_order(lists, data):
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=8))
    ids = Sequences.pack(lists).packed(np.array(rows, dtype=np.int64))
    assert ids.tolist() == [number for row in rows for number in lists[row]]
    assert ids.dtype == np.int64


@quick
@given(sequences)
def test_ids_are_counted(lists):
    counts = Counter(number for row in lists for number in row)
    assert Sequences.pack(lists).counts(12) == [counts[number] for number in range(12)]


def test_no_sequences_can_be_packed_too():
    packed = Sequences.pack([])
    assert (len(packed), packed.lengths.tolist(), packed.counts(2)) == (0, [], [0, 0])


# Corpus


def test_both_sides_are_framed_and_stay_aligned():
    source = learn(["ab", "b"], SideSettings(kind="characters"))
    target = learn(["x y", "y"], SideSettings(kind="words"))
    corpus = Corpus.encode([Pair("ab", "y x"), Pair("b", "y"), Pair("bab", "x")], source, target)
    assert len(corpus) == 3
    # <pad> 0, <bos> 1, <eos> 2, <unk> 3; then a, b; then y (twice in the texts), x.
    assert corpus.source.ids.tolist() == [1, 4, 5, 2, 1, 5, 2, 1, 5, 4, 5, 2]
    assert corpus.target.ids.tolist() == [1, 4, 5, 2, 1, 4, 2, 1, 5, 2]
    assert corpus.source.lengths.tolist() == [4, 3, 5]
    assert corpus.target.lengths.tolist() == [4, 3, 3]


def test_a_text_that_cannot_be_encoded_is_named_by_its_number():
    known = learn(["ab"], SideSettings(kind="characters", unknown=False))
    with pytest.raises(TextError, match=r"the character 'z' .* is not in the vocabulary") as caught:
        Corpus.encode([Pair("ab", "ab"), Pair("az", "b")], known, known)
    assert caught.value.where == "text 2, column 2"


# Held-out rows


@quick
@given(tables, fractions, st.integers(1, 20), st.integers(0, 5))
def test_every_row_is_on_one_side_and_every_source_too(pairs, fraction, max_rows, seed):
    train, held = hold_out(pairs, fraction, max_rows, seed)
    assert sorted(train + held) == list(range(len(pairs)))
    assert train == sorted(train)
    assert held == sorted(held)
    assert train
    assert not {pairs[row].source for row in train} & {pairs[row].source for row in held}
    assert hold_out(pairs, fraction, max_rows, seed) == (train, held)


@quick
@given(tables, fractions, st.integers(1, 20), st.integers(0, 5))
def test_at_least_one_row_is_held_out_and_no_more_than_requested(pairs, fraction, max_rows, seed):
    held = hold_out(pairs, fraction, max_rows, seed)[1]
    counts = Counter(pair.source for pair in pairs)
    if fraction == 0 or len(counts) == 1:
        assert held == []
        return
    limit = min(max_rows, max(1, round(fraction * len(pairs))))
    assert 1 <= len(held) <= max(limit, min(counts.values()))


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5])
def test_of_different_sources_the_fraction_is_held_out_exactly(fraction):
    pairs = [Pair(str(row), "x") for row in range(1000)]
    assert len(hold_out(pairs, fraction, 10_000, seed=1)[1]) == 1000 * fraction
    assert len(hold_out(pairs, fraction, 7, seed=1)[1]) == 7


def test_a_source_with_too_many_rows_is_passed_over_for_one_that_fits():
    pairs = [Pair("often", str(row)) for row in range(99)] + [Pair("once", "x")]
    for seed in range(10):
        assert hold_out(pairs, 0.1, 1000, seed)[1] == [99]


def test_where_no_source_fits_the_rarest_is_held_out():
    pairs = [Pair("a", "1")] * 6 + [Pair("b", "2")] * 4
    for seed in range(10):
        assert hold_out(pairs, 0.1, 1000, seed)[1] == [6, 7, 8, 9]


def test_two_rows_are_one_to_train_on_and_one_to_validate_on():
    for fraction in (0.001, 0.5, 0.99):
        train, held = hold_out([Pair("a", "1"), Pair("b", "2")], fraction, 1000, seed=1)
        assert len(train) == len(held) == 1


def test_the_seed_decides_which_rows_are_held_out():
    pairs = [Pair(str(row), "x") for row in range(100)]
    chosen = {tuple(hold_out(pairs, 0.1, 1000, seed)[1]) for seed in range(10)}
    assert len(chosen) == 10
    assert len(set().union(*chosen)) > 50


def test_the_order_of_targets_does_not_matter():
    pairs = [Pair(str(row % 30), str(row)) for row in range(90)]
    others = [Pair(pair.source, str(random.Random(row).random())) for row, pair in enumerate(pairs)]
    assert hold_out(pairs, 0.2, 1000, seed=4) == hold_out(others, 0.2, 1000, seed=4)


def test_no_rows_are_held_out_of_an_empty_table():
    assert hold_out([], 0.1, 10, seed=1) == ([], [])


@pytest.mark.parametrize(
    ("n_rows", "max_rows", "expected"),
    [(0, 3, []), (1, 3, [0]), (3, 3, [0, 1, 2]), (9, 3, [0, 4, 8]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])],
)
def test_spread_rows_are_evenly_spaced(n_rows: int, max_rows: int, expected: list[int]) -> None:
    assert spread(n_rows, max_rows).tolist() == expected


def test_a_source_in_two_normal_forms_is_one_source() -> None:
    pairs = [Pair(form, "x") for word in ("fé", "gü", "hö") for form in (word, unicodedata.normalize("NFD", word))]
    train, held = hold_out(pairs, 0.4, 1000, seed=1)
    assert sorted(train + held) == list(range(6))
    assert {row // 2 for row in train}.isdisjoint({row // 2 for row in held})
