"""The searches of an engine: the same answer alone and in any batch.

A product of several rows rounds differently than a product of one row, by less than UNCERTAIN in a sum of log-probs
in float32. So a text whose search kept or left a hypothesis by a smaller difference (`Hypothesis.margin`) is searched
again alone. Scores differ by rounding. Where each row is computed by itself (`is_exact`), nothing differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import NotFiniteError
from glassformer.inference.engines.batches import plan_equal_lengths
from glassformer.paper.search import Hypothesis, SearchConstraints, beam_search, greedy_search, sample
from glassformer.paper.search.constraints import State, Step
from glassformer.paper.search.sampling import draw_uniform
from glassformer.settings import DecodingSettings

UNCERTAIN = 5e-4
"""Margin (nats) below which a text is searched again alone; the rounding of a batch was below 5e-5."""


@dataclass
class Caches:
    """The state of a search: one cache for each model, changed in place."""

    caches: list[Any]

    def select(self, rows: NDArray[np.int64]) -> Caches:
        """Keep the hypotheses `rows` in all caches."""
        for cache in self.caches:
            cache.select(rows)
        return self


@dataclass(frozen=True)
class Searches:
    """Searches for the answers of `sources`, batch by batch; `constraints` are for all sources.

    `start(sources)` is the state before the first `step`. Errors have the number of the source.
    """

    start: Callable[[Sequence[Sequence[int]]], State]
    step: Step
    sources: Sequence[Sequence[int]]
    decoding: DecodingSettings
    constraints: SearchConstraints
    is_exact: bool = False

    def batches(self, width: int, rows: Sequence[int] | None = None) -> list[list[int]]:
        """Return batches of sources, by their numbers; `rows`: only these. A hypothesis counts as `width`.

        Each sample is drawn alone, so that it does not depend on the rounding of a batch.
        """
        rows = range(len(self.sources)) if rows is None else rows
        if self.decoding.do_sample:
            return [[row] for row in rows]
        width *= max(self.decoding.num_beams, self.decoding.num_return_sequences)
        batches = plan_equal_lengths([len(self.sources[row]) for row in rows], width)
        return [[rows[i] for i in batch] for batch in batches]

    def __call__(self, rows: Sequence[int]) -> list[list[Hypothesis]]:
        """Return the answers of some sources, by their numbers, best first."""
        answers = self._search(rows)
        if len(rows) > 1 and not self.is_exact:
            for i, row in enumerate(rows):
                if min(answer.margin for answer in answers[i]) < UNCERTAIN:
                    (answers[i],) = self._search([row])
        return answers

    def _search(self, rows: Sequence[int]) -> list[list[Hypothesis]]:
        forced = [self.constraints.prefixes[row] for row in rows] if self.constraints.prefixes else ()
        guide = self.constraints.guide and self.constraints.guide.of(rows)
        constraints = replace(self.constraints, prefixes=forced, guide=guide)
        try:
            return self._answers_to([self.sources[row] for row in rows], constraints)
        except NotFiniteError as error:
            raise error.moved_to(rows[error.row or 0]) from None

    def _answers_to(self, sources: Sequence[Sequence[int]], constraints: SearchConstraints) -> list[list[Hypothesis]]:
        decoding, state = self.decoding, self.start(sources)
        alpha, n_best = decoding.length_alpha, decoding.num_return_sequences
        if decoding.do_sample:
            uniform = [draw_uniform(ids, decoding.seed, constraints.max_new_tokens, n_best) for ids in sources]
            return sample(
                self.step,
                state,
                np.stack(uniform),
                constraints,
                temperature=decoding.temperature,
                top_k=decoding.top_k,
                top_p=decoding.top_p,
                alpha=alpha,
            )
        if decoding.num_beams == 1:
            return greedy_search(self.step, state, len(sources), constraints, alpha=alpha)
        num_beams = decoding.num_beams
        return beam_search(self.step, state, len(sources), constraints, num_beams=num_beams, alpha=alpha, n_best=n_best)
