"""Sampling: tokens drawn at random, from the whole distribution or its most probable part."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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


def draw_uniform(source_ids: Sequence[int], seed: int, n_steps: int, n_samples: int) -> Float[NDArray[Any], "t K"]:
    """Return random numbers in [0, 1) for one sentence, which depend on the seed and the sentence alone."""
    digest = hashlib.sha256(repr((seed, tuple(source_ids))).encode()).digest()
    generator = np.random.RandomState(int.from_bytes(digest[:4], "little"))
    bits = generator.randint(2**32, size=(n_steps, n_samples), dtype=np.uint32) % 2**24
    return bits.astype(np.float32) * np.float32(2**-24)


def sample(
    step: Step,
    state: State,
    uniform: Float[NDArray[Any], "N t K"],
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
    step, state = constraints.guided(step, state)
    n_sentences, _, n_samples = uniform.shape
    state = state.select(np.arange(n_sentences)[:, None].repeat(n_samples, axis=1))
    sentences = list(range(n_sentences))
    last = np.full((n_sentences, n_samples), constraints.bos_id)
    ids, scores = [], []
    ended = np.zeros((n_sentences, n_samples), dtype=bool)
    for time in range(constraints.max_new_tokens):
        unconstrained, state = step(last, state)
        log_probs = constraints.constrain(unconstrained, time, sentences).numpy()
        check_finite(log_probs.max(axis=2), ~ended, sentences, time)
        cumulative = truncate(_cooled(log_probs, temperature), top_k, top_p).cumsum(axis=2)
        threshold = uniform[:, time, :, None].astype(np.float64) * cumulative[:, :, -1:]
        last = (cumulative <= threshold).sum(axis=2).clip(max=cumulative.shape[2] - 1)
        ids.append(last)
        scores.append(np.take_along_axis(log_probs, last[:, :, None], axis=2)[:, :, 0])
        ended |= last == constraints.eos_id
        if ended.all():
            break
    all_ids, all_scores = np.stack(ids, 2).tolist(), np.stack(scores, 2).tolist()
    return [
        best_first(
            _until_end(row, row_scores, constraints.eos_id, alpha) for row, row_scores in zip(*lines, strict=True)
        )
        for lines in zip(all_ids, all_scores, strict=True)
    ]


def _cooled(log_probs: Float[NDArray[Any], "*N V"], temperature: float) -> Float[NDArray[Any], "*N V"]:
    """Probabilities in float64. Relative to the maximum, they do not all underflow at a low temperature."""
    log_probs = log_probs.astype(np.float64)
    with np.errstate(over="ignore", under="ignore"):  # -inf is a probability of 0
        probs = np.exp((log_probs - log_probs.max(axis=-1, keepdims=True)) / temperature)
    return probs / probs.sum(axis=-1, keepdims=True)  # type: ignore[no-any-return]


def truncate(probs: Float[NDArray[Any], "*N V"], top_k: int, top_p: float) -> Float[NDArray[Any], "*N V"]:
    """Zero all but the `top_k` most probable tokens (0: all), then all but the most probable that sum to `top_p`."""
    if 0 < top_k < probs.shape[-1]:
        probs = np.where(probs < np.partition(probs, -top_k, axis=-1)[..., -top_k, None], 0.0, probs)
    if top_p < 1:
        ordered = np.sort(probs, axis=-1)[..., ::-1]
        before = ordered.cumsum(axis=-1) - ordered  # the sum of all more probable tokens
        is_kept = before < top_p * ordered.sum(axis=-1, keepdims=True)
        minimum = np.where(is_kept, ordered, np.inf).min(axis=-1, keepdims=True)
        probs = np.where(probs < minimum, 0.0, probs)
    return probs


def _until_end(ids: list[int], scores: list[float], eos_id: int, alpha: float) -> Hypothesis:
    length = ids.index(eos_id) + 1 if eos_id in ids else len(ids)
    return hypothesis(ids[:length], scores[:length], eos_id, alpha)
