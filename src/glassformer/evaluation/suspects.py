"""Rows of a table whose target is probably wrong, according to a model that learned from the other rows.

A model learns what most rows say, and a wrong target is improbable to it unless it has learned the row by heart. So a
row is suspect when the model gives another answer that is more probable to it; rows are ordered by this margin,
log p(answer) − log p(target). A second right answer has a small margin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.evaluation.metrics import exact_matches
from glassformer.text.inputs import Source

if TYPE_CHECKING:
    from glassformer.data.pairs import Pair
    from glassformer.inference.translator import Translator


@dataclass(frozen=True)
class Suspect:
    """A row (its index from 0), the answer of the model, and the log-probabilities (nats) of target and answer."""

    index: int
    source: Source
    target: str
    answer: str
    score: float
    answer_score: float

    @property
    def margin(self) -> float:
        """How much more probable the answer is than the target (nats)."""
        return self.answer_score - self.score

    def to_json(self) -> dict[str, Any]:
        """Return plain strings and numbers, without the index."""
        return {"margin": self.margin} | {name: value for name, value in asdict(self).items() if name != "index"}


def suspects(translator: Translator, pairs: Sequence[Pair], *, where: Sequence[str] | None = None) -> list[Suspect]:
    """Return the suspect rows, the largest margin first; answers are those of greedy search.

    `where[i]` names pair i in errors. Raises the errors of `Translator.translate` and `Translator.score`.
    """
    answers = translator.translate([pair.source for pair in pairs], where=where, num_beams=1)
    same = exact_matches([answer.text for answer in answers], [pair.target for pair in pairs])
    rows = np.flatnonzero(same == 0).tolist()
    scores = translator.score(
        [pairs[row] for row in rows], where=None if where is None else [where[row] for row in rows]
    )
    suspects = [
        Suspect(row, *pairs[row], answers[row].text, scored.score, answers[row].score)
        for row, scored in zip(rows, scores, strict=True)
    ]
    return sorted((suspect for suspect in suspects if suspect.margin > 0), key=lambda suspect: -suspect.margin)
