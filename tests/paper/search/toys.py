"""Toys for searches: another table of probabilities after every history of every sentence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glassformer.paper.search import LogProbs

BOS = 0  # what it is does not matter to a toy, since it is only ever read
Ids = tuple[int, ...]
Toy = Callable[[int, Ids], list[float]]
"""Sentence, ids so far -> log-probabilities of the next id."""


@dataclass(frozen=True)
class Histories:
    """The state of a toy: of each hypothesis of each sentence, the sentence's number and all ids so far."""

    lines: list[list[tuple[int, Ids]]]

    def select(self, rows: NDArray[np.int64]) -> Histories:
        flat = [each for line in self.lines for each in line]
        chosen = [[flat[row] for row in line] for line in rows.tolist()]
        assert all(len({sentence for sentence, _ in line}) == 1 for line in chosen), "a line mixes sentences"
        return Histories(chosen)


@dataclass
class Stepper:
    """The step function of a toy. It notes how many sentences and hypotheses each call had."""

    toy: Toy
    calls: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, last: NDArray[np.int64], state: Histories) -> tuple[LogProbs, Histories]:
        self.calls.append((last.shape[0], last.shape[1]))
        grown = [
            [(sentence, (*ids, token)) for (sentence, ids), token in zip(line, tokens, strict=True)]
            for line, tokens in zip(state.lines, last.tolist(), strict=True)
        ]
        log_probs = [[self.toy(sentence, ids[1:]) for sentence, ids in line] for line in grown]
        return LogProbs(np.array(log_probs)), Histories(grown)


def start(n_sentences: int) -> Histories:
    return Histories([[(sentence, ())] for sentence in range(n_sentences)])


def random_toy(seed: int, vocabulary: int, scale: float = 1.0, less_eos: float = 0.0) -> Toy:
    """Another distribution after every history of every sentence; `<eos>` is the last id."""
    known: dict[tuple[int, Ids], list[float]] = {}

    def toy(sentence: int, ids: Ids) -> list[float]:
        if (sentence, ids) not in known:
            logits = scale * np.random.default_rng([seed, sentence, *ids]).standard_normal(vocabulary)
            logits[-1] -= less_eos
            known[sentence, ids] = (logits - np.log(np.exp(logits).sum())).tolist()
        return known[sentence, ids]

    return toy


def total(toy: Toy, ids: Ids, sentence: int = 0) -> float:
    return sum(toy(sentence, ids[:at])[token] for at, token in enumerate(ids))


def all_answers(vocabulary: int, longest: int) -> Iterator[Ids]:
    """Every sequence of at most `longest` tokens that ends in <eos>, the last id, and every one of `longest` others."""
    for length in range(longest):
        yield from ((*ids, vocabulary - 1) for ids in itertools.product(range(vocabulary - 1), repeat=length))
    yield from itertools.product(range(vocabulary - 1), repeat=longest)
