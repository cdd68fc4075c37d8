"""Greedy search first, beam search only where it could change the best answer: the same answers in less time."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

from glassformer.paper.search.constraints import Hypothesis, length_penalty

ROUNDING = 1e-4  # what rounding may add to the log-probability of an answer
PROBE = 256  # sentences that show whether greedy search before a beam saves time

AnswerBatches = Generator[dict[int, list[Hypothesis]]]
"""Batches of answers, as they are found: row -> answers, best first."""

SearchRows = Callable[[Sequence[int], int], AnswerBatches]
"""`search_rows(rows, num_beams)` yields the answers for these sentences, as they are found."""


@dataclass
class GreedyFirst:
    """Whether greedy search comes first, decided by the first PROBE sentences of a search, or of a job of several.

    A job passes one GreedyFirst to all its searches. Its answers are then those of one search for all sentences.
    """

    tried: int = 0
    certain: int = 0

    @property
    def probes_left(self) -> int:
        """The number of sentences to try before the decision."""
        return PROBE - self.tried

    @property
    def saves_time(self) -> bool:
        """Whether greedy search was certain of more than a third of the sentences that were tried."""
        return 3 * self.certain > self.tried


def is_certain(answer: Hypothesis, alpha: float, longest: int) -> bool:
    """Whether no other answer of at most `longest` tokens can outrank this one.

    The others have the rest of the probability together. A beam would return this answer too: its beginnings have more
    than half of the probability, so they always have a slot. Within ROUNDING of a tie nothing is certain: a beam
    rounds its products differently.
    """
    rest = max(-math.expm1(answer.score), 1e-6)  # a smaller rest is lost in rounding
    return answer.finished and answer.rank_score > math.log(rest) / length_penalty(longest, alpha) + ROUNDING


def search_greedy_first(
    search_rows: SearchRows,
    n_sentences: int,
    longest: int,
    *,
    num_beams: int,
    alpha: float,
    state: GreedyFirst | None = None,
) -> AnswerBatches:
    """Yield the best answer of a beam for each sentence: the greedy one where no other answer can outrank it.

    An answer has at most `longest` tokens. After the first PROBE sentences, greedy search continues only if it was
    certain of more than a third of them. `state` has what earlier searches of the same job have shown, and is updated.
    """
    state = state or GreedyFirst()
    certain: set[int] = set()

    def search_certain(rows: Sequence[int]) -> AnswerBatches:
        for found in search_rows(rows, 1):
            fresh = {row: answers for row, answers in found.items() if is_certain(answers[0], alpha, longest)}
            if fresh:
                certain.update(fresh)
                yield fresh

    probed = min(state.probes_left, n_sentences)
    if probed:
        yield from search_certain(range(probed))
        state.tried += probed
        state.certain += len(certain)
    if probed < n_sentences and state.saves_time:
        yield from search_certain(range(probed, n_sentences))
    yield from search_rows([row for row in range(n_sentences) if row not in certain], num_beams)
