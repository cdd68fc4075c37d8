"""A saved tokenizer in a model file, checked field by field: nothing in the file is trusted."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassformer.errors import UsageError
from glassformer.settings import SideSettings, TokenKind
from glassformer.text.segmenters import Learned


class SavedTokenizer(BaseModel):
    """The fields of a saved tokenizer. The vocabulary and the segmenter check what is not checked here."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: TokenKind
    settings: SideSettings
    pieces: list[Annotated[str, Field(min_length=1)]]
    specials: dict[str, int]
    merges: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    scores: list[Annotated[float, Field(ge=-1e6, le=0)]] | None = None

    @classmethod
    def read(cls, saved: object) -> Self:
        """Check the fields. Raises UsageError for one that is missing, unknown or of a wrong type."""
        try:
            return cls.model_validate(saved)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            location = ".".join(map(str, first["loc"])) or "tokenizer"
            raise UsageError(
                f"{location!r} is not valid", got=repr(first["input"])[:80], expected=first["msg"]
            ) from None

    def learned(self) -> Learned:
        """Return merges, scores or nothing, as the settings require. Raises UsageError when they do not match."""
        if self.kind != self.settings.kind:
            raise UsageError(
                "the settings are for another kind of tokenizer", got=self.settings.kind, expected=self.kind
            )
        given = {name: part for name in ("merges", "scores") if (part := getattr(self, name)) is not None}
        required = {"bpe": "merges", "unigram": "scores"}[self.settings.algorithm]
        if list(given) != ([required] if self.kind == "subwords" else []):
            got = " and ".join(given) or "neither merges nor scores"
            expected = required if self.kind == "subwords" else "neither merges nor scores"
            raise UsageError("the learned values do not match the kind of tokenizer", got=got, expected=expected)
        return given
