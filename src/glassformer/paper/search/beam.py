"""Beam search: the `num_beams` most probable hypotheses at every step.

A finished hypothesis keeps its slot and is not extended, so that a sentence has `num_beams` hypotheses in total,
finished and live. The search of a sentence stops when no live hypothesis can outrank the last of the `n_best` answers,
or at `max_new_tokens`; the live ones that still can are then answers too, cut off at this limit. Answers are ranked by
their sum of log-probabilities over the length penalty.

What is as wide as the vocabulary stays on the device where the step function left it; the rest is on the CPU.

Axes: N sentences · K live hypotheses of a sentence · C candidates of a sentence · V vocabulary · t tokens so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

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


@dataclass
class _Beam:
    """The live hypotheses of N sentences. A slot without a hypothesis has the score -inf."""

    ids: Tensor  # [N K t]
    token_scores: Tensor  # [N K t]
    scores: Tensor  # [N K]

    def select(self, lines: Tensor) -> _Beam:
        return _Beam(self.ids[lines], self.token_scores[lines], self.scores[lines])


def beam_search(
    step: Step,
    state: State,
    n_sentences: int,
    constraints: SearchConstraints,
    *,
    num_beams: int,
    alpha: float = 0.0,
    n_best: int = 1,
) -> list[list[Hypothesis]]:
    """Return the `n_best` answers, best first, of each of N sentences. Finished sentences leave the batch in groups.

    Raises NotFiniteError for a sentence with a log-probability that is NaN, or without a finite one.
    """
    found: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    alive = list(range(n_sentences))
    beam = _Beam(
        ids=torch.empty((n_sentences, 1, 0), dtype=torch.long),
        token_scores=torch.empty((n_sentences, 1, 0)),
        scores=torch.zeros((n_sentences, 1)),
    )
    last = torch.full((n_sentences, 1), constraints.bos_id)
    stay = torch.ones(n_sentences, dtype=torch.bool)
    for time in range(constraints.max_new_tokens):
        log_probs, state = step(last, state)
        log_probs = constraints.constrain(log_probs, time, alive)
        slots = stay * torch.tensor([num_beams - len(found[sentence]) for sentence in alive])
        parents, beam = _extend(beam, log_probs, slots, num_beams)
        best = beam.scores[:, :1]  # -inf where no candidate is left, which is an error only without an answer
        unanswered = torch.tensor([not found[sentence] for sentence in alive])
        check_finite(best, (stay & (unanswered | best[:, 0].isnan()))[:, None], alive, time)

        ended = beam.ids[:, :, -1] == constraints.eos_id
        for line, slot in (ended & beam.scores.isfinite()).nonzero().tolist():
            found[alive[line]].append(_take(beam, line, slot, constraints.eos_id, alpha))
        beam.scores = beam.scores.masked_fill(ended, -torch.inf)

        best_live = beam.scores.max(dim=1).values.tolist()
        lines = zip(best_live, alive, strict=True)
        stay = torch.tensor(
            [_can_improve(live, found[sentence], n_best, constraints.max_new_tokens, alpha) for live, sentence in lines]
        )
        if not stay.any() or time + 1 == constraints.max_new_tokens:
            break
        if (kept := close_gaps(stay)) is not None:
            parents, beam = parents[kept], beam.select(kept)
            alive, stay = [alive[line] for line in kept.tolist()], stay[kept]
        state = state.select(parents)
        last = beam.ids[:, :, -1]

    for line in stay.nonzero()[:, 0].tolist():  # the limit cut off their live hypotheses
        live = beam.scores[line].isfinite().nonzero()[:, 0].tolist()
        found[alive[line]] += [_take(beam, line, slot, constraints.eos_id, alpha) for slot in live]
    return [best_first(answers)[:n_best] for answers in found]


def _extend(beam: _Beam, log_probs: Tensor, slots: Tensor, num_beams: int) -> tuple[Tensor, _Beam]:
    """The best `slots[n]` extensions of each sentence, and the row (n·K + k) of the hypothesis each one extends.

    C does not depend on `slots`, so that ties of one sentence are not broken differently because of another.
    """
    n_sentences, n_live, vocabulary = log_probs.shape
    totals = (beam.scores.to(log_probs.device)[:, :, None] + log_probs).flatten(1)  # [N K·V]
    scores, flat = totals.topk(min(num_beams, totals.shape[1]), dim=1)  # [N C]
    newest = log_probs.flatten(1).gather(1, flat)
    scores, flat, newest = scores.cpu(), flat.cpu(), newest.cpu()
    scores = scores.masked_fill(torch.arange(scores.shape[1]) >= slots[:, None], -torch.inf)
    parent, token = flat // vocabulary, flat % vocabulary
    history = parent[:, :, None].expand(-1, -1, beam.ids.shape[2])  # [N C t]
    extended = _Beam(
        ids=torch.cat((beam.ids.gather(1, history), token[:, :, None]), dim=2),
        token_scores=torch.cat((beam.token_scores.gather(1, history), newest[:, :, None]), dim=2),
        scores=scores,
    )
    return parent + torch.arange(n_sentences)[:, None] * n_live, extended


def _take(beam: _Beam, line: int, slot: int, eos_id: int, alpha: float) -> Hypothesis:
    return hypothesis(beam.ids[line, slot].tolist(), beam.token_scores[line, slot].tolist(), eos_id, alpha)


def _can_improve(best_live: float, finished: list[Hypothesis], n_best: int, max_new_tokens: int, alpha: float) -> bool:
    """Whether a live hypothesis can still enter the `n_best`.

    Its sum only falls, and the length penalty is largest at the maximum length.
    """
    if best_live == -torch.inf:
        return False
    if len(finished) < n_best:
        return True
    worst = sorted((answer.rank_score for answer in finished), reverse=True)[n_best - 1]
    return best_live / length_penalty(max_new_tokens, alpha) > worst
