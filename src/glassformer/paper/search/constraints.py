"""Shared by all searches: the step function, the constraints on answers, and hypotheses.

Axes: N sentences · K hypotheses of a sentence · V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import NotFiniteError
from glassformer.paper.search.guide import Guide
from glassformer.paper.search.log_probs import LogProbs

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


class State(Protocol):
    """The state of the step function for N sentences with K hypotheses each."""

    def select(self, rows: Int[NDArray[Any], "N2 K2"]) -> Self:
        """Keep the hypotheses `rows`, numbered 0 … N·K-1; each line of `rows` stays within one sentence.

        The lines may be in another order than the sentences were.
        """
        ...


Step = Callable[[NDArray[np.int64], Any], tuple[LogProbs, Any]]
"""`step(last_ids [N K], state) -> (log_probs [N K V], state)`: log-probabilities of all next tokens."""


@dataclass(frozen=True)
class SearchConstraints:
    """Constraints on answers.

    `forbidden` ids never appear in an output. `prefixes`, one for each sentence, are forced; their tokens count in the
    score. An answer has at most `max_new_tokens` tokens, with the prefix and `<eos>`. A `guide` says which answers are
    accepted, those cut off at this limit included.
    """

    bos_id: int
    eos_id: int
    forbidden: tuple[int, ...]
    max_new_tokens: int
    prefixes: Sequence[Sequence[int]] = ()
    guide: Guide | None = None

    def guided(self, step: Step, state: Any) -> tuple[Step, Any]:
        """Return the step function and its first state, with -inf for what the guide does not allow."""
        return (step, state) if self.guide is None else self.guide.guided(step, state, self.max_new_tokens)

    def constrain(self, log_probs: LogProbs, time: int, sentences: Sequence[int]) -> LogProbs:
        """Return the log-probabilities with -inf for what prefixes and `forbidden` exclude."""
        prefixes = ((line, self.prefixes[sentence]) for line, sentence in enumerate(sentences if self.prefixes else ()))
        return log_probs.allowing(self.forbidden, {line: ids[time] for line, ids in prefixes if time < len(ids)})


@dataclass(frozen=True)
class Hypothesis:
    """An answer of a search.

    `ids` without `<bos>` and `<eos>`; `token_scores` are the log-probabilities of every token (with `<eos>` where it
    was reached), `score` their sum, `rank_score` the sum over the length penalty. `finished`: `<eos>` was reached.
    `margin` (nats) is the smallest difference between two scores that decided the search: where it is larger than
    rounding can be, another rounding gives the same answer.
    """

    ids: tuple[int, ...]
    token_scores: tuple[float, ...]
    score: float
    rank_score: float
    finished: bool
    margin: float = field(default=math.inf, compare=False)


def check_finite(
    scores: Float[NDArray[Any], "N K"], live: Bool[NDArray[Any], "N K"], sentences: Sequence[int], time: int
) -> None:
    """Raise NotFiniteError, with the number of the sentence, where a live hypothesis has no finite score.

    The scores are maxima: NaN counts as larger than any number, so that a maximum shows it.
    """
    if math.isfinite(float(scores.sum())):
        return
    for line, slot in np.argwhere(live & ~np.isfinite(scores)).tolist():
        raise NotFiniteError.at(
            sentences[line], f"a log-probability of {float(scores[line, slot])} after {time} tokens"
        )


def check_token_scores(scores: list[list[float]]) -> list[list[float]]:
    """Return the scores of the tokens of targets. Raises NotFiniteError for a score that is not finite."""
    for row, line in enumerate(scores):
        if not math.isfinite(sum(line)):
            time = next((i for i, score in enumerate(line) if not math.isfinite(score)), len(line))
            raise NotFiniteError.at(row, f"a log-probability of {(*line, sum(line))[time]} after {time} tokens")
    return scores


def close_gaps(stay: Bool[NDArray[Any], " N"]) -> Int[NDArray[Any], " M"] | None:
    """Return the sentences that stay, in their new order: the last ones move to the places of those that ended.

    None while fewer than a tenth have ended, because moving costs about as much as it saves.
    """
    staying = stay.nonzero()[0]
    if len(staying) > 0.9 * len(stay):
        return None
    n_in_place = int(stay[: len(staying)].sum())
    order = np.arange(len(staying))
    order[~stay[: len(staying)]] = staying[n_in_place:]
    return order


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^alpha (Wu et al. 2016, equation 14); `length` counts every generated token, `<eos>` too."""
    return float(((5 + length) / 6) ** alpha)


def rank_key(finished: bool, rank_score: float) -> tuple[float, bool]:
    """Return the key that sorts answers by falling `rank_score`. Ties: finished answers are first."""
    return -rank_score, not finished


def best_first(answers: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Return the answers sorted by `rank_key`."""
    return sorted(answers, key=lambda answer: rank_key(answer.finished, answer.rank_score))


def hypothesis(
    ids: Sequence[int], token_scores: Sequence[float], eos_id: int, alpha: float, margin: float = math.inf
) -> Hypothesis:
    """Build the hypothesis of generated `ids`, which end in `<eos>` when it is finished."""
    finished = bool(ids) and ids[-1] == eos_id
    score = sum(token_scores)
    return Hypothesis(
        ids=tuple(ids[:-1] if finished else ids),
        token_scores=tuple(token_scores),
        score=score,
        rank_score=score / length_penalty(max(1, len(ids)), alpha),
        finished=finished,
        margin=margin,
    )
