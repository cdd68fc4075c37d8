"""The answer to a row of a job: a translation, and what the job adds to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from glassformer.inference.translator import EMPTY, Translation

UNMATCHED = "no answer that is allowed starts with the prefix, within the maximum number of tokens"


@dataclass(frozen=True)
class JobAnswer(Translation):
    """The answer to a row of a job.

    `left_out` says why the answer is empty. `from_lexicon`: the answer is from a lexicon and not from the model.
    `alignment` are pairs of a source token and a token of the answer (numbers from 0), with `source_tokens`, if answers
    were to be aligned. The JSON has what is there of these, and null for the scores of a text that has no answer.
    """

    left_out: str = ""
    from_lexicon: bool = False
    source_tokens: tuple[str, ...] = ()
    alignment: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, answer: Translation) -> Self:
        """Return the answer of a model; one that is not allowed is left out."""
        return cls(**vars(answer), left_out="" if answer.is_allowed else UNMATCHED)

    @property
    def held_back(self) -> bool:
        """Whether the answer was left out because it is too uncertain: it has a confidence."""
        return bool(self.left_out) and self.confidence is not None

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        added = {
            "left_out": self.left_out,
            "from_lexicon": self.from_lexicon,
            "source_tokens": list(self.source_tokens),
            "alignment": [list(pair) for pair in self.alignment],
        }
        scores = {"score": None, "rank_score": None} if self.left_out and not self.held_back else {}
        return super().to_json() | scores | {name: value for name, value in added.items() if value}


NO_ANSWER = JobAnswer.of(EMPTY)
