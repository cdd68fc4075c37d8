"""Beam search only where greedy search is not certain: the same best answers, several times sooner."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing

from glassformer.decoding.space import Hypothesis, length_penalty
from glassformer.settings import DecodingSettings

PROBE = 256  # sentences that show whether greedy search is worth its time before a beam

Found = Generator[dict[int, list[Hypothesis]]]
"""The answers for some sentences, best first, then for others."""

Tell = Callable[[Mapping[int, list[Hypothesis]]], None]
"""Who is told the answers of some sentences, by their numbers."""

Decode = Callable[[Sequence[int], int], Found]
"""`decode(rows, num_beams)`: the answers for these sentences, as they are found."""


def is_certain(answer: Hypothesis, alpha: float, longest: int) -> bool:
    """Whether no other answer of at most `longest` tokens can outrank this one.

    All others share the rest of the probability. A beam would return this answer too: its beginnings have more than
    half of the probability, and so they always have a slot.
    """
    rest = max(-math.expm1(answer.score), 1e-6)  # of what is smaller, rounding leaves nothing
    return answer.finished and answer.rank_score > math.log(rest) / length_penalty(longest, alpha)


def decode_certain_first(decode: Decode, n_sentences: int, decoding: DecodingSettings, longest: int) -> Found:
    """The best answer of a beam for each sentence. Where no other answer can outrank greedy search's, it is that one.

    Greedy search goes on after the first sentences if it was certain of a third of them.
    """
    certain: set[int] = set()

    def decode_certain(rows: Sequence[int]) -> Found:
        for found in decode(rows, 1):
            fresh = {row: each for row, each in found.items() if is_certain(each[0], decoding.length_alpha, longest)}
            if fresh:
                certain.update(fresh)
                yield fresh

    probed = min(PROBE, n_sentences)
    yield from decode_certain(range(probed))
    if 3 * len(certain) > probed:
        yield from decode_certain(range(probed, n_sentences))
    yield from decode([row for row in range(n_sentences) if row not in certain], decoding.num_beams)


def collect(found: Found, n_sentences: int, tell: Tell | None) -> list[list[Hypothesis]]:
    """The answers for all sentences in order; `tell` gets each share of them as it is found."""
    done: dict[int, list[Hypothesis]] = {}
    with closing(found):  # so that an error of `tell` ends the search
        for fresh in found:
            done |= fresh
            if tell is not None:
                tell(fresh)
    return [done[row] for row in range(n_sentences)]
