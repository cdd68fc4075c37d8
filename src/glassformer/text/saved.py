"""A saved tokenizer in a model file, checked field by field: nothing in the file is trusted."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassformer.errors import UsageError, first_fault
from glassformer.settings import SideSettings, TokenKind
from glassformer.text.inputs import Input, Inputs, check_inputs, input_tokens
from glassformer.text.segmenters import Learned

_LEARNED = ("merges", "scores", "sentencepiece")


class SavedTokenizer(BaseModel):
    """The fields of a saved tokenizer. The vocabulary and the segmenter check what is not checked here."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    kind: TokenKind
    settings: SideSettings
    pieces: list[Annotated[str, Field(min_length=1)]]
    specials: dict[str, int]
    merges: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    scores: list[Annotated[float, Field(ge=-1e6, le=0)]] | None = None
    sentencepiece: dict[str, Any] | None = None
    inputs: list[Input] | None = None
    input_tokens: list[Annotated[str, Field(min_length=1)]] | None = None

    @classmethod
    def read(cls, saved: object) -> Self:
        """Check the fields. Raises UsageError for one that is missing, unknown or of a wrong type."""
        try:
            return cls.model_validate(saved)
        except ValidationError as error:
            place, got, expected = first_fault(error, whole="tokenizer")
            raise UsageError(f"{place!r} is not valid", got=got, expected=expected) from None

    def inputs_and_tokens(self) -> tuple[Inputs, list[str]]:
        """Return the inputs, and the tokens of inputs in the vocabulary. Raises UsageError when they are not valid."""
        if self.inputs is None:
            return (), self.input_tokens or []
        check_inputs(self.inputs)
        if self.input_tokens is not None:
            raise UsageError("the tokens of the inputs are given twice", got="inputs and input_tokens")
        return tuple(self.inputs), input_tokens(self.inputs)

    def learned(self) -> Learned:
        """Return merges, scores or nothing, as the settings require. Raises UsageError when they do not match."""
        if self.kind != self.settings.kind:
            raise UsageError(
                "the settings are for another kind of tokenizer", got=self.settings.kind, expected=self.kind
            )
        given = {name: part for name in _LEARNED if (part := getattr(self, name)) is not None}
        required = {
            "subwords": [{"bpe": "merges", "unigram": "scores"}[self.settings.algorithm]],
            "sentencepiece": ["sentencepiece"],
        }.get(self.kind, [])
        if list(given) != required:
            got, expected = (" and ".join(names) or "neither merges nor scores" for names in (given, required))
            raise UsageError("the learned values do not match the kind of tokenizer", got=got, expected=expected)
        return given
