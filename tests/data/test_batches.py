"""The plan of batches: every row once, within the budget, the same for the same seed and epoch."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from glassformer.data.batches import plan_batches

quick = settings(max_examples=50, deadline=None)
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
