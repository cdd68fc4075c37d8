"""What a job does with the probability of its answers: it adds it, or holds answers back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from glassformer.errors import UsageError
from glassformer.inference.confidence import check_calibrated
from glassformer.inference.translator import Translation
from glassformer.paper.settings import DecodingSettings
from glassformer.ship.storage.modelfile import ModelFile


@dataclass(frozen=True)
class Confidence:
    """Each answer has its probability, and one below `minimum` is left empty.

    `n_answers` are the answers to keep for each text, since the search has to return all of its beam.
    """

    minimum: float
    n_answers: int

    @classmethod
    def of(
        cls,
        model_files: Sequence[ModelFile],
        decoding: DecodingSettings,
        *,
        minimum: float = 0.0,
        **search: bool,
    ) -> Self:
        """Check a request; `search` are the further arguments of `check_calibrated`.

        Raises UsageError for a search that has no probability, and for a minimum that is none.
        """
        if not 0 <= minimum <= 1:
            what, expected = "the minimum confidence is not a probability", "a number from 0 to 1"
            raise UsageError(what, got=f"{minimum:g}", expected=expected)
        check_calibrated(model_files, decoding, **search)
        return cls(minimum, decoding.num_return_sequences)

    def applied(self, answer: Translation) -> Translation:
        """Return an answer as it was requested, from one with all answers of its beam."""
        if answer.probability is None:  # an empty text, or one that was left out
            return answer
        changes: dict[str, Any] = {"alternatives": answer.alternatives[: self.n_answers - 1]}
        if answer.probability < self.minimum:
            parts = ("tokens", "token_scores", "alternatives", "source_tokens", "alignment")
            reason = f"right with a probability of {answer.probability:.3f}, below {self.minimum:g}"
            changes |= dict.fromkeys(parts, ()) | {"text": "", "left_out": reason}
        return replace(answer, **changes)
