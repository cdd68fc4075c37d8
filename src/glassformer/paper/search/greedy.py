"""Greedy search: the most probable token at every step."""

from __future__ import annotations

import math

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
    ids: list[list[int]] = [[] for _ in range(n_sentences)]
    scores: list[list[float]] = [[] for _ in range(n_sentences)]
    margins = [math.inf] * n_sentences
    rows = list(range(n_sentences))  # the sentences in the batch
    stay = [True] * n_sentences
    last = np.full((n_sentences, 1), constraints.bos_id)
    for time in range(constraints.max_new_tokens):
        log_probs, state = step(last, state)
        two_best = constraints.constrain(log_probs, time, rows).best(np.zeros(last.shape, dtype=np.float32), 2)
        best = zip(rows, two_best.token.tolist(), two_best.newest.tolist(), strict=True)
        for line, (row, tokens, newest) in enumerate(best):
            if stay[line]:
                if not math.isfinite(newest[0]):
                    check_finite(two_best.newest[:, :1], np.array(stay)[:, None], rows, time)
                ids[row].append(tokens[0])
                scores[row].append(newest[0])
                margins[row] = min([margins[row], *(newest[0] - second for second in newest[1:])])
                stay[line] = tokens[0] != constraints.eos_id
        if not any(stay):
            break
        last = two_best.token[:, :1]
        if not all(stay) and (order := close_gaps(np.array(stay))) is not None:
            state, last = state.select(order[:, None]), last[order]
            rows, stay = [rows[line] for line in order.tolist()], [True] * len(order)
    answers = zip(ids, scores, margins, strict=True)
    return [[hypothesis(line, line_scores, constraints.eos_id, alpha, gap)] for line, line_scores, gap in answers]
