"""A tokenizer as it stands in a model file. Nothing in it is trusted."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from glassformer.errors import UsageError
from glassformer.settings import SideSettings, TokenKind
from glassformer.text.cutters import Learned


class SavedTokenizer(BaseModel):
    """The form of a saved tokenizer; what is not checked here, the vocabulary and the cutter check."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: TokenKind
    settings: SideSettings
    pieces: list[Annotated[str, Field(min_length=1)]]
    specials: dict[str, int]
    merges: list[Annotated[list[str], Field(min_length=2, max_length=2)]] | None = None
    scores: list[Annotated[float, Field(ge=-1e6, le=0)]] | None = None

    @classmethod
    def read(cls, saved: object) -> Self:
        """Raises UsageError for a field that is missing, unknown or of a wrong type."""
        try:
            return cls.model_validate(saved)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            at = ".".join(map(str, first["loc"])) or "the whole"
            raise UsageError(f"{at!r} is wrong", got=repr(first["input"])[:80], expected=first["msg"]) from None

    def learned(self) -> Learned:
        """Merges, scores or nothing, as the settings call for; a UsageError for anything else."""
        if self.kind != self.settings.kind:
            raise UsageError("its settings are of another kind", got=self.settings.kind, expected=self.kind)
        given = {name: part for name in ("merges", "scores") if (part := getattr(self, name)) is not None}
        wanted = {"bpe": "merges", "unigram": "scores"}[self.settings.algorithm]
        if list(given) != ([wanted] if self.kind == "subwords" else []):
            there = " and ".join(given) or "neither merges nor scores"
            raise UsageError("it does not hold what its kind needs", got=there, expected=wanted)
        return given
