"""The plan of batches: every row once, within the budget, the same for the same seed and epoch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.batches import padding_fraction, plan_batches

quick = settings(max_examples=50, deadline=None)
lengths_of_rows = st.lists(st.tuples(st.integers(2, 30), st.integers(2, 30)), min_size=1, max_size=60)


def planned(lengths, batch_tokens=100, seed=1, epoch=0):
    source, target = np.array(lengths).reshape(-1, 2).T
    return [batch.tolist() for batch in plan_batches(source, target, batch_tokens, seed, epoch)]


def skewed(n_rows):
    generator = np.random.default_rng(0)
    return [(int(length), int(length) + 1) for length in 2 + generator.geometric(0.1, n_rows)]


@quick
@given(lengths_of_rows, st.integers(1, 200), st.integers(0, 3), st.integers(0, 3))
def test_every_row_is_in_one_batch(lengths, batch_tokens, seed, epoch):
    plan = planned(lengths, batch_tokens, seed, epoch)
    assert sorted(row for batch in plan for row in batch) == list(range(len(lengths)))
    assert all(plan)


@quick
@given(lengths_of_rows, st.integers(1, 200))
def test_a_batch_stays_within_the_budget_on_either_side_padding_included(lengths, batch_tokens):
    for batch in planned(lengths, batch_tokens):
        for side in (0, 1):
            padded = len(batch) * max(lengths[row][side] for row in batch)
            assert padded <= batch_tokens or len(batch) == 1


def planned_row_by_row(lengths, batch_tokens, seed, epoch):
    """The definition: random order, a stable sort, then row by row into the batch while it fits."""
    source, target = np.array(lengths).reshape(-1, 2).T
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


def test_rows_of_similar_length_are_in_one_batch():
    lengths = skewed(1000)
    for batch in planned(lengths, batch_tokens=500):
        widths = [lengths[row][1] for row in batch]
        assert max(widths) - min(widths) <= 20
    in_order = [np.arange(start, min(start + 30, 1000)) for start in range(0, 1000, 30)]
    target = np.array(lengths)[:, 1]
    sorted_plan = [np.array(batch) for batch in planned(lengths, batch_tokens=500)]
    assert padding_fraction([target], sorted_plan) < 0.1 < padding_fraction([target], in_order)


@pytest.mark.parametrize("changed", [{"epoch": 1}, {"seed": 2}])
def test_another_epoch_or_seed_is_another_plan(changed):
    lengths = skewed(200)
    one, other = planned(lengths), planned(lengths, **changed)
    assert one != other
    assert sorted(map(sorted, one)) != sorted(map(sorted, other))


def test_seed_and_epoch_are_not_interchangeable():
    lengths = skewed(200)
    assert planned(lengths, seed=1, epoch=2) != planned(lengths, seed=2, epoch=1)


def test_batches_are_not_in_order_of_length():
    lengths = skewed(1000)
    longest = [max(lengths[row][1] for row in batch) for batch in planned(lengths, 500)]
    assert longest != sorted(longest)


def test_no_rows_make_no_batches():
    empty = np.empty(0, np.int64)
    assert plan_batches(empty, empty, 100, 1, 0) == []


def test_the_padding_fraction_is_counted_by_hand():
    batches = [np.array([0, 1]), np.array([2])]
    assert padding_fraction([np.array([3, 5, 7])], batches) == pytest.approx(2 / 17)
    assert padding_fraction([np.array([4, 4])], [np.array([0, 1])]) == 0
    assert padding_fraction([np.empty(0, np.int64)], []) == 0
