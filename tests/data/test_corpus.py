"""Packed ids against plain lists."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.corpus import Sequences, spread

quick = settings(max_examples=50, deadline=None)
sequences = st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=12)

# Sequences


@quick
@given(sequences)
def test_packed_sequences_can_be_read_one_by_one(lists):
    packed = Sequences.pack(lists)
    assert len(packed) == len(lists)
    assert packed.lengths.tolist() == [len(row) for row in lists]
    assert [packed.ids[a : a + n].tolist() for a, n in zip(packed.starts, packed.lengths, strict=True)] == lists
    assert (packed.ids.dtype, packed.starts.dtype) == (np.int32, np.int64)


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


@pytest.mark.parametrize(
    ("n_rows", "max_rows", "expected"),
    [(0, 3, []), (1, 3, [0]), (3, 3, [0, 1, 2]), (9, 3, [0, 4, 8]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])],
)
def test_spread_rows_are_evenly_spaced(n_rows: int, max_rows: int, expected: list[int]) -> None:
    assert spread(n_rows, max_rows).tolist() == expected
