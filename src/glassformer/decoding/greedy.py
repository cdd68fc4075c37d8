"""Greedy search: the likeliest token at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from glassformer.decoding.space import Hypothesis, SearchSpace, State, Step, hypothesis


def greedy_search(
    step: Step, state: State, n_sentences: int, space: SearchSpace, *, alpha: float = 0.0
) -> list[list[Hypothesis]]:
    """One answer for each of N sentences. A finished sentence leaves the batch."""
    found: list[list[Hypothesis]] = [[] for _ in range(n_sentences)]
    alive = list(range(n_sentences))
    last = torch.full((n_sentences, 1), space.bos_id)
    ids: Tensor = torch.empty((n_sentences, 0), dtype=torch.long)
    scores = torch.empty((n_sentences, 0))
    for time in range(space.max_new_tokens):
        log_probs, state = step(last, state)
        best, last = space.constrain(log_probs, time, alive).max(dim=2)  # both [N 1]
        best, last = best.cpu(), last.cpu()
        ids, scores = torch.cat((ids, last), 1), torch.cat((scores, best), 1)
        ended = (last[:, 0] == space.eos_id) | (time + 1 == space.max_new_tokens)
        if not ended.any():
            continue
        for line in ended.nonzero()[:, 0].tolist():
            found[alive[line]] = [hypothesis(ids[line].tolist(), scores[line].tolist(), space.eos_id, alpha)]
        stay = (~ended).nonzero()
        if not len(stay):
            break
        state = state.select(stay)
        alive = [alive[line] for line in stay[:, 0].tolist()]
        last, ids, scores = last[stay[:, 0]], ids[stay[:, 0]], scores[stay[:, 0]]
    return found
