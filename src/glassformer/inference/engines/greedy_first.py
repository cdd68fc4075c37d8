"""Greedy search first, beam search only where it could change the best answer: the same answers in less time."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence

from glassformer.paper.search.constraints import Hypothesis, length_penalty

ROUNDING = 1e-4  # what rounding may add to the log-probability of an answer
PROBE = 256  # sentences of a search that show whether greedy search before a beam saves time

AnswerBatches = Generator[dict[int, list[Hypothesis]]]
"""Batches of answers, as they are found: row -> answers, best first."""

SearchRows = Callable[[Sequence[int], int], AnswerBatches]
"""`search_rows(rows, num_beams)` yields the answers for these sentences, as they are found."""


def is_certain(answer: Hypothesis, alpha: float, longest: int) -> bool:
    """Whether no other answer of at most `longest` tokens can outrank this one.

    All other answers together have the rest of the probability. A beam would return this one too: its starts have more
    than half of the probability, so they always have a slot. Within ROUNDING of a tie nothing is certain: a beam
    rounds its products differently.
    """
    p_others = max(-math.expm1(answer.score), 1e-6)  # a smaller rest is lost in rounding
    return answer.finished and answer.rank_score > math.log(p_others) / length_penalty(longest, alpha) + ROUNDING


def search_greedy_first(
    search_rows: SearchRows, n_sentences: int, longest: int, *, num_beams: int, alpha: float
) -> AnswerBatches:
    """Yield the best answer of a beam for each sentence: the greedy one where no other answer can outrank it.

    An answer has at most `longest` tokens. After the first PROBE sentences, greedy search continues only if it was
    certain of more than a third of them.
    """
    certain: set[int] = set()

    def search_certain(rows: Sequence[int]) -> AnswerBatches:
        for batch in search_rows(rows, 1):
            fresh = {row: answers for row, answers in batch.items() if is_certain(answers[0], alpha, longest)}
            if fresh:
                certain.update(fresh)
                yield fresh

    yield from search_certain(range(min(PROBE, n_sentences)))
    if n_sentences > PROBE and 3 * len(certain) > PROBE:
        yield from search_certain(range(PROBE, n_sentences))
    yield from search_rows([row for row in range(n_sentences) if row not in certain], num_beams)
