"""Segmentation by SentencePiece, for models that were imported. It needs the extra `sentencepiece`.

The model is plain data (`SentencePieceModel`: pieces, scores, rules, switches), so that a model file shows what cuts a
text, and programs in other languages can cut it too. `sentencepiece_cut` gives it to the library.

A piece that is not in the vocabulary of the translation model becomes <unk>: the two vocabularies are not the same. A
text can begin with the code of a target language, as in ">>fra<< Good morning": the code is one piece, as in MarianMT.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassformer.errors import MissingExtraError, UsageError, first_fault
from glassformer.text.segmenters import Learned
from glassformer.text.sentencepiece_cut import Cutter

_LONGEST = 10_000  # characters of a piece or of a rule

_Text = Annotated[str, Field(min_length=1, max_length=_LONGEST)]
_Score = Annotated[float, Field(ge=-1e30, le=1e30)]
_Index = Annotated[int, Field(ge=0)]


class SentencePieceModel(BaseModel):
    """A SentencePiece model as plain data.

    `pieces` and their `scores` (natural logarithms of probabilities for unigram, ranks for BPE); `user_defined` are the
    indices of pieces that are never cut, `unused` those of pieces that are only on the way to others. `rules` map text
    to its normalized form: the compiled map of the library, in base64. `dummy_prefix`: a "▁" is put before a
    text; `fold_spaces`: a run of white space is one "▁", and none is at the ends; `escape_spaces`: a space is a "▁".
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    algorithm: Annotated[str, Field(pattern="^(unigram|bpe)$")]
    pieces: list[_Text]
    scores: list[_Score]
    user_defined: list[_Index] = []
    unused: list[_Index] = []
    rules: str = ""
    dummy_prefix: bool = True
    fold_spaces: bool = True
    escape_spaces: bool = True

    @classmethod
    def read(cls, saved: object) -> Self:
        """Check the fields. Raises UsageError for one that is missing, unknown, of a wrong type or contradictory."""
        try:
            model = cls.model_validate(saved)
        except ValidationError as error:
            place, got, expected = first_fault(error, "sentencepiece")
            raise UsageError(f"{place!r} is not valid", got=got, expected=expected) from None
        if not model.pieces or len(set(model.pieces)) < len(model.pieces):
            raise UsageError("a piece of the SentencePiece model is repeated, or it has none")
        if len(model.scores) != len(model.pieces):
            got = f"{len(model.scores)} scores for {len(model.pieces)} pieces"
            raise UsageError("the SentencePiece model needs a score for each piece", got=got)
        if max((*model.user_defined, *model.unused), default=0) >= len(model.pieces):
            raise UsageError("the SentencePiece model names a piece that it does not have")
        return model


def sentencepiece(learned: Learned) -> Cutter:
    """Return the segmenter of an imported model. Raises UsageError for one that is not valid, MissingExtraError."""
    try:
        return Cutter(SentencePieceModel.read(learned["sentencepiece"]).model_dump())
    except ImportError:
        raise MissingExtraError("an imported model", package="sentencepiece", extra="sentencepiece") from None
    except ValueError as error:
        raise UsageError("the SentencePiece model is not valid", got=str(error)) from None
