"""Greedy search: the most probable token at every step."""

from __future__ import annotations

import numpy as np

from glassformer.paper.search.constraints import (
    Hypothesis,
    SearchConstraints,
    State,
    Step,
    check_finite,
    close_gaps,
    hypothesis,
)


def greedy_search(
    step: Step, state: State, n_sentences: int, constraints: SearchConstraints, *, alpha: float = 0.0
) -> list[list[Hypothesis]]:
    """Return one answer for each of N sentences. Finished sentences leave the batch in groups.

    Raises NotFiniteError for a sentence without a token of finite log-probability.
    """
    step, state = constraints.guided(step, state)
    ids = np.zeros((n_sentences, constraints.max_new_tokens), dtype=np.int64)
    scores = np.zeros((n_sentences, constraints.max_new_tokens), dtype=np.float32)
    margins = np.full(n_sentences, np.inf, dtype=np.float32)
    lengths = np.full(n_sentences, constraints.max_new_tokens)
    rows = np.arange(n_sentences)  # the sentences in the batch
    last = np.full((n_sentences, 1), constraints.bos_id)
    for time in range(constraints.max_new_tokens):
        alive = rows.tolist()
        log_probs, state = step(last, state)
        found = constraints.constrain(log_probs, time, alive).best(np.zeros(last.shape, dtype=np.float32), 2)
        last = found.token[:, :1]
        ids[rows, time], scores[rows, time] = last[:, 0], found.newest[:, 0]
        live = lengths[rows] == constraints.max_new_tokens
        check_finite(found.newest[:, :1], live[:, None], alive, time)
        if found.newest.shape[1] > 1:
            gaps = np.where(live, found.newest[:, 0] - found.newest[:, 1], np.inf)
            margins[rows] = np.minimum(margins[rows], gaps)
        lengths[rows[live & (last[:, 0] == constraints.eos_id)]] = time + 1
        stay = live & (last[:, 0] != constraints.eos_id)
        if not stay.any():
            break
        if (kept := close_gaps(stay)) is not None:
            state = state.select(kept[:, None])
            rows, last = rows[kept], last[kept]
    columns = ids[:, : time + 1], scores[:, : time + 1], lengths, margins
    answers = zip(*(column.tolist() for column in columns), strict=True)
    return [[hypothesis(line[:n], score[:n], constraints.eos_id, alpha, gap)] for line, score, n, gap in answers]
