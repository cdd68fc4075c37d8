"""Packed ids against plain lists, and batches: every row once, within the budget, the same for the same seed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data.batches import plan_batches
from glassformer.data.corpus import spread
from tests.tiny import in_one_array

quick = settings(max_examples=50, deadline=None)
sequences = st.lists(st.lists(st.integers(0, 9), max_size=6), max_size=12)


@quick
@given(sequences, st.data())
def test_packed_sequences_are_read_one_by_one_or_in_any_order_and_counted(lists, data):
    packed = in_one_array(lists)
    assert len(packed) == len(lists)
    assert packed.lengths.tolist() == [len(row) for row in lists]
    assert [packed.ids[a : a + n].tolist() for a, n in zip(packed.starts, packed.lengths, strict=True)] == lists
    assert (packed.ids.dtype, packed.starts.dtype) == (np.int32, np.int64)
    rows = data.draw(st.lists(st.sampled_from(range(len(lists))), max_size=8)) if lists else []
    ids = packed.packed(np.array(rows, dtype=np.int64))
    assert (ids.tolist(), ids.dtype) == ([number for row in rows for number in lists[row]], np.int64)
    counts = Counter(number for row in lists for number in row)
    assert packed.counts(12) == [counts[number] for number in range(12)]


@pytest.mark.parametrize(
    ("n_rows", "max_rows", "expected"),
    [(0, 3, []), (1, 3, [0]), (3, 3, [0, 1, 2]), (9, 3, [0, 4, 8]), (10, 4, [0, 3, 6, 9]), (5, 1, [0])],
)
def test_spread_rows_are_evenly_spaced(n_rows: int, max_rows: int, expected: list[int]) -> None:
    assert spread(n_rows, max_rows).tolist() == expected


# Batches

lengths_of_rows = st.lists(st.tuples(st.integers(2, 30), st.integers(2, 30)), max_size=60)


def planned_row_by_row(lengths, batch_tokens, seed, epoch):
    """The definition: random order, a stable sort, row by row into the batch while it fits, batches in random order."""
    source, target = np.array(lengths, int).reshape(-1, 2).T
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(source))
    order = order[np.lexsort((source[order], target[order]))]
    plan = []
    for row in order.tolist():
        longest = max(max(lengths[other]) for other in [*(plan[-1] if plan else []), row])
        if plan and longest * (len(plan[-1]) + 1) <= batch_tokens:
            plan[-1].append(row)
        else:
            plan.append([row])
    return [plan[i] for i in generator.permutation(len(plan))]


@quick
@given(lengths_of_rows, st.integers(1, 200), st.integers(0, 3), st.integers(0, 3), st.sampled_from(["int64", "uint16"]))
def test_the_plan_is_the_one_made_row_by_row(lengths, batch_tokens, seed, epoch, dtype):
    source, target = np.array(lengths, dtype).reshape(-1, 2).T
    plan = plan_batches(source, target, batch_tokens, seed, epoch)
    assert [batch.tolist() for batch in plan] == planned_row_by_row(lengths, batch_tokens, seed, epoch)
    for batch in plan:  # within the budget on either side, padding included
        padded = len(batch) * max(max(source[batch].tolist()), max(target[batch].tolist()))
        assert padded <= batch_tokens or len(batch) == 1
