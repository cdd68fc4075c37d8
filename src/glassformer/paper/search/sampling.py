"""Sampling: tokens drawn at random, from the whole distribution or its most probable part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from glassformer.paper.search.constraints import (
    Hypothesis,
    SearchConstraints,
    State,
    Step,
    best_first,
    check_finite,
    hypothesis,
)

if TYPE_CHECKING:
    from jaxtyping import Float


def draw_uniform(source_ids: Sequence[int], seed: int, n_steps: int, n_samples: int) -> Float[Tensor, "t K"]:
    """Return random numbers in [0, 1) for one sentence; they depend on the seed and the sentence alone."""
    digest = hashlib.sha256(repr((seed, tuple(source_ids))).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    return torch.rand((n_steps, n_samples), generator=generator)


def sample(
    step: Step,
    state: State,
    uniform: Float[Tensor, "N t K"],
    constraints: SearchConstraints,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    alpha: float = 0.0,
) -> list[list[Hypothesis]]:
    """Draw K answers for each of N sentences, best first; `uniform` has a number in [0, 1) for every token.

    Scores are log-probabilities of the model itself, before temperature and truncation. Raises NotFiniteError for a
    sentence without a token of finite log-probability.
    """
    n_sentences, _, n_samples = uniform.shape
    state = state.select(torch.arange(n_sentences)[:, None].expand(-1, n_samples))
    sentences = list(range(n_sentences))
    last = torch.full((n_sentences, n_samples), constraints.bos_id)
    ids, scores = [], []
    ended = torch.zeros((n_sentences, n_samples), dtype=torch.bool)
    for time in range(constraints.max_new_tokens):
        log_probs, state = step(last, state)
        log_probs = constraints.constrain(log_probs, time, sentences).cpu()
        check_finite(log_probs.max(dim=2).values, ~ended, sentences, time)
        cumulative = truncate(_cooled(log_probs, temperature), top_k, top_p).cumsum(dim=2)
        threshold = uniform[:, time, :, None].double() * cumulative[:, :, -1:]
        token = torch.searchsorted(cumulative, threshold, right=True).clamp(max=cumulative.shape[2] - 1)  # [N K 1]
        last = token[:, :, 0]
        ids.append(last)
        scores.append(log_probs.gather(2, token)[:, :, 0])
        ended |= last == constraints.eos_id
        if ended.all():
            break
    all_ids, all_scores = torch.stack(ids, 2).tolist(), torch.stack(scores, 2).tolist()
    return [
        best_first(
            _until_end(row, row_scores, constraints.eos_id, alpha) for row, row_scores in zip(*lines, strict=True)
        )
        for lines in zip(all_ids, all_scores, strict=True)
    ]


def _cooled(log_probs: Float[Tensor, "*N V"], temperature: float) -> Float[Tensor, "*N V"]:
    """Probabilities in float64. Relative to the maximum, they do not all underflow at a low temperature."""
    log_probs = log_probs.double()
    return ((log_probs - log_probs.max(dim=-1, keepdim=True).values) / temperature).softmax(dim=-1)


def truncate(probs: Float[Tensor, "*N V"], top_k: int, top_p: float) -> Float[Tensor, "*N V"]:
    """Zero all but the `top_k` most probable tokens (0: all), then all but the most probable that sum to `top_p`."""
    if 0 < top_k < probs.shape[-1]:
        probs = probs.masked_fill(probs < probs.topk(top_k, dim=-1).values[..., -1:], 0.0)
    if top_p < 1:
        ordered = probs.sort(dim=-1, descending=True).values
        before = ordered.cumsum(dim=-1) - ordered  # the sum of all more probable tokens
        kept = before < top_p * ordered.sum(dim=-1, keepdim=True)
        minimum = ordered.masked_fill(~kept, torch.inf).min(dim=-1, keepdim=True).values
        probs = probs.masked_fill(probs < minimum, 0.0)
    return probs


def _until_end(ids: list[int], scores: list[float], eos_id: int, alpha: float) -> Hypothesis:
    length = ids.index(eos_id) + 1 if eos_id in ids else len(ids)
    return hypothesis(ids[:length], scores[:length], eos_id, alpha)
