"""Beam search only where greedy search is not certain: the same best answers, several times sooner."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from glassformer.decoding.space import Hypothesis, length_penalty
from glassformer.settings import DecodingSettings

PROBE = 256  # sentences that show whether greedy search is worth its time before a beam

Decode = Callable[[Sequence[int], int], dict[int, list[Hypothesis]]]
"""`decode(rows, num_beams)`: the answers for some sentences, best first."""


def is_certain(answer: Hypothesis, alpha: float, longest: int) -> bool:
    """Whether no other answer of at most `longest` tokens can outrank this one.

    All others share the rest of the probability. A beam would return this answer too: its beginnings have more than
    half of the probability, and so they always have a slot.
    """
    rest = max(-math.expm1(answer.score), 1e-6)  # of what is smaller, rounding leaves nothing
    return answer.finished and answer.rank_score > math.log(rest) / length_penalty(longest, alpha)


def decode_certain_first(
    decode: Decode,
    n_sentences: int,
    decoding: DecodingSettings,
    longest: int,
    tell: Callable[[dict[int, list[Hypothesis]]], None],
) -> dict[int, list[Hypothesis]]:
    """The best answer of a beam for each sentence. Where no other answer can outrank greedy search's, it is that one.

    Greedy search goes on after the first sentences if it was certain of a third of them. `tell` gets what needed no
    beam.
    """

    def decode_certain(rows: Sequence[int]) -> dict[int, list[Hypothesis]]:
        found = decode(rows, 1)
        certain = {row: answers for row, answers in found.items() if is_certain(answers[0], alpha, longest)}
        tell(certain)
        return certain

    alpha, probed = decoding.length_alpha, min(PROBE, n_sentences)
    done = decode_certain(range(probed))
    if 3 * len(done) > probed:
        done |= decode_certain(range(probed, n_sentences))
    return done | decode([row for row in range(n_sentences) if row not in done], decoding.num_beams)
