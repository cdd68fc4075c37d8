"""Beam search: the `num_beams` most probable hypotheses at every step.

A finished hypothesis keeps its slot and is not extended, so that a sentence has `num_beams` hypotheses in total,
finished and live. The search of a sentence stops when no live hypothesis can outrank the last of the `n_best` answers,
or at `max_new_tokens`; the live ones that still can are then answers too, cut off at this limit. Answers are ranked by
their sum of log-probabilities over the length penalty.

Axes: N sentences · K live hypotheses of a sentence · C candidates of a sentence · V vocabulary · t tokens so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.paper.search.constraints import (
    Hypothesis,
    SearchConstraints,
    State,
    Step,
    best_first,
    check_finite,
    close_gaps,
    hypothesis,
    length_penalty,
)
from glassformer.paper.search.log_probs import Extensions

Observe = Callable[[Extensions, NDArray[np.int64], NDArray[np.float64]], None]
"""`observe(candidates, slots, hopes)`: the 2·`num_beams` best candidates of a step [N C]; how many of them, the first
ones, were kept [N]; by how much a live hypothesis can at best still win [N]: where not above 0, the search ends."""


@dataclass
class _Beam:
    """The live hypotheses of N sentences. A slot without a hypothesis has the score -inf."""

    ids: NDArray[np.int64]  # [N K t]
    token_scores: NDArray[np.float32]  # [N K t]
    scores: NDArray[np.float32]  # [N K]

    def select(self, lines: NDArray[Any]) -> _Beam:
        return _Beam(self.ids[lines], self.token_scores[lines], self.scores[lines])

    def extend(self, best: Extensions) -> _Beam:
        """Return these extensions as hypotheses, each with one token more: [N K t] -> [N K t+1]."""
        lines = np.arange(len(self.ids))[:, None]
        return _Beam(
            ids=np.concatenate((self.ids[lines, best.parent], best.token[:, :, None]), axis=2),
            token_scores=np.concatenate((self.token_scores[lines, best.parent], best.newest[:, :, None]), axis=2),
            scores=best.sums.copy(),
        )


def beam_search(
    step: Step,
    state: State,
    n_sentences: int,
    constraints: SearchConstraints,
    *,
    num_beams: int,
    alpha: float = 0.0,
    n_best: int = 1,
    observe: Observe | None = None,
) -> list[list[Hypothesis]]:
    """Return the `n_best` answers, best first, of each of N sentences. Finished sentences leave the batch in groups.

    `observe` is called after each step.

    Raises NotFiniteError for a sentence with a log-probability that is NaN, or without a finite one.
    """
    step, state = constraints.guided(step, state)
    answers: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    alive = list(range(n_sentences))
    margins = [math.inf] * n_sentences
    beam = _Beam(
        ids=np.empty((n_sentences, 1, 0), dtype=np.int64),
        token_scores=np.empty((n_sentences, 1, 0), dtype=np.float32),
        scores=np.zeros((n_sentences, 1), dtype=np.float32),
    )
    last = np.full((n_sentences, 1), constraints.bos_id)
    stay = np.ones(n_sentences, dtype=bool)
    for time in range(constraints.max_new_tokens):
        log_probs, state = step(last, state)  # [N K V]
        n_candidates = 2 * num_beams if observe else num_beams + 1
        candidates = constraints.constrain(log_probs, time, alive).best(beam.scores, n_candidates)  # [N C]
        slots = stay * np.array([num_beams - len(answers[sentence]) for sentence in alive])
        for line in stay.nonzero()[0].tolist():
            margins[alive[line]] = min(margins[alive[line]], _gap(candidates.sums[line], slots[line]))
        extensions = Extensions(*(values[:, :num_beams] for values in candidates))
        parents = extensions.parent + np.arange(len(alive))[:, None] * last.shape[1]
        beam = beam.extend(extensions)
        beam.scores[np.arange(beam.scores.shape[1]) >= slots[:, None]] = -np.inf
        best = beam.scores[:, :1]  # -inf where no candidate is left, which is an error only without an answer
        unanswered = np.array([not answers[sentence] for sentence in alive])
        check_finite(best, (stay & (unanswered | np.isnan(best[:, 0])))[:, None], alive, time)

        ended = beam.ids[:, :, -1] == constraints.eos_id
        for line, slot in np.argwhere(ended & np.isfinite(beam.scores)).tolist():
            answers[alive[line]].append(_hypothesis_at(beam, line, slot, constraints.eos_id, alpha))
        beam.scores[ended] = -np.inf

        lines = zip(beam.scores.max(axis=1).tolist(), alive, strict=True)
        hopes = np.array(
            [_hope(live, answers[sentence], n_best, constraints.max_new_tokens, alpha) for live, sentence in lines]
        )
        for line in stay.nonzero()[0].tolist():
            margins[alive[line]] = min(margins[alive[line]], abs(float(hopes[line])))
        stay = hopes > 0
        if observe is not None:
            observe(candidates, slots, hopes)
        if not stay.any() or time + 1 == constraints.max_new_tokens:
            break
        if (order := close_gaps(stay)) is not None:
            parents, beam = parents[order], beam.select(order)
            alive, stay = [alive[line] for line in order.tolist()], stay[order]
        state = state.select(parents)
        last = beam.ids[:, :, -1]

    for line in stay.nonzero()[0].tolist():  # the limit cut off their live hypotheses
        live = np.isfinite(beam.scores[line]).nonzero()[0].tolist()
        answers[alive[line]] += [_hypothesis_at(beam, line, slot, constraints.eos_id, alpha) for slot in live]
    return [_ranked(finished, n_best, margin) for finished, margin in zip(answers, margins, strict=True)]


def _gap(sums: NDArray[np.float32], n_kept: int) -> float:
    """The difference between the last hypothesis that is kept and the first one left out; infinite without that one."""
    is_any_left = n_kept < len(sums) and np.isfinite(sums[n_kept])
    return float(sums[n_kept - 1] - sums[n_kept]) if is_any_left else math.inf


def _ranked(answers: list[Hypothesis], n_best: int, margin: float) -> list[Hypothesis]:
    """The `n_best` answers, best first, with the margin of the search and of their ranks."""
    ranked = best_first(answers)
    ranks = [answer.rank_score for answer in ranked[: n_best + 1]]
    margin = min([margin, *(better - worse for better, worse in pairwise(ranks))])
    return [replace(answer, margin=margin) for answer in ranked[:n_best]]


def _hypothesis_at(beam: _Beam, line: int, slot: int, eos_id: int, alpha: float) -> Hypothesis:
    return hypothesis(beam.ids[line, slot].tolist(), beam.token_scores[line, slot].tolist(), eos_id, alpha)


def _hope(best_live: float, finished: list[Hypothesis], n_best: int, max_new_tokens: int, alpha: float) -> float:
    """By how much a live hypothesis can at best outrank the last of the `n_best`.

    Its sum only falls, and the length penalty is largest at the maximum length.
    """
    if best_live == -np.inf:
        return -math.inf
    if len(finished) < n_best:
        return math.inf
    worst = sorted((answer.rank_score for answer in finished), reverse=True)[n_best - 1]
    return best_live / length_penalty(max_new_tokens, alpha) - worst
