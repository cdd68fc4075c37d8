"""Text to ids and back: normalise, cut, look up; and the same the other way."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from glassformer.errors import ModelFileError, TextError, UsageError
from glassformer.settings import SideSettings, TokenKind
from glassformer.text.cutters import Bytes, Characters, Cutter, Learned, Words
from glassformer.text.normal_form import given_column, normalise, place
from glassformer.text.saved import SavedTokenizer
from glassformer.text.subwords import Subwords
from glassformer.text.vocabulary import Vocabulary

_CUTTERS: dict[TokenKind, Callable[[list[str], Learned], Cutter]] = {
    "characters": Characters,
    "words": Words,
    "subwords": Subwords,
    "bytes": Bytes,
}

_BATCH = 4096  # texts that are cut at once; it bounds the memory and does not change the result


@final
class Tokenizer:
    """Text to ids and back. Made by `learn`, `ascii68` or `from_dict`, and never changed afterwards."""

    def __init__(self, settings: SideSettings, vocabulary: Vocabulary, learned: Learned) -> None:
        self.settings = settings
        self.vocabulary = vocabulary
        self._learned = learned
        self._cutter = _CUTTERS[settings.kind](list(vocabulary.ordinary), learned)

    def __len__(self) -> int:
        return len(self.vocabulary)

    def split(self, text: str) -> list[str]:
        """The text in its normal form as pieces, without special tokens; unknown ones stand as they are."""
        return self._cutter.split([normalise(text, self.settings)])[0]

    def encode(self, text: str, *, where: str | None = None) -> list[int]:
        """The ids of the text, without <bos> and <eos>.

        What the vocabulary does not have becomes <unk>. Where there is none, a TextError names the first
        such character (or word) and its column, from 1, in the text as given; `where` says where that stands.
        """
        normal = normalise(text, self.settings, where)
        return self._ids(self._cutter.split([normal])[0], text, where)

    def encode_many(self, texts: Sequence[str], *, where: Sequence[str] | None = None) -> list[list[int]]:
        """`encode` of each text, faster. A TextError names text i by `where[i]`, or else by its number, from 1.

        Raises UsageError when `where` is not as long as `texts`.
        """
        if where is not None and len(where) != len(texts):
            raise UsageError("each text needs a name of its own", got=f"{len(where)} names for {len(texts)} texts")
        encoded: list[list[int]] = []
        for start in range(0, len(texts), _BATCH):
            batch = texts[start : start + _BATCH]
            rows = range(start, start + len(batch))
            names = [f"text {row + 1}" if where is None else where[row] for row in rows]
            normal = [normalise(text, self.settings, name) for text, name in zip(batch, names, strict=True)]
            encoded += map(self._ids, self._cutter.split(normal), batch, names)
        return encoded

    def _ids(self, pieces: list[str], text: str, where: str | None) -> list[int]:
        unknown = -1 if self.vocabulary.unk_id is None else self.vocabulary.unk_id
        known = self.vocabulary.ordinary
        ids = [known.get(piece, unknown) for piece in pieces]
        if -1 in ids:
            raise self._unknown_error(text, where)
        return ids

    def frame(self, ids: Sequence[int]) -> list[int]:
        """`<bos> … <eos>` around the ids."""
        return [self.vocabulary.bos_id, *ids, self.vocabulary.eos_id]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without special tokens (also <unk>). Raises TextError for a wrong id.

        What is spelled in NFD comes out as people and files have it, in NFC.
        """
        special = self.vocabulary.special_ids
        text = self._cutter.join(self.tokens([at for at in ids if at not in special]))
        return unicodedata.normalize("NFC", text) if self.settings.normalization == "NFD" else text

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as people read it, special tokens too. Raises TextError for a wrong id."""
        pieces, listed = self.vocabulary.pieces, list(ids)
        try:
            if min(listed, default=0) >= 0:
                return [pieces[at] for at in listed]
        except IndexError:
            pass
        wrong = next(at for at in listed if not 0 <= at < len(self))
        raise TextError(f"there is no token with the id {wrong}", expected=f"0 to {len(self) - 1}")

    def unknown(self, text: str) -> list[str]:
        """The characters (or words) of the text, in its normal form, that the vocabulary lacks, in order."""
        return [piece for piece, _ in self._unknown(text)]

    def _unknown(self, text: str) -> list[tuple[str, int]]:
        """Each unknown piece, and where it begins in the normal form of the text."""
        normal = normalise(text, self.settings)
        pieces, spans = self._cutter.split([normal])[0], self._cutter.spans(normal)
        return [
            (normal[start:end], start)
            for piece, (start, end) in zip(pieces, spans, strict=True)
            if self.vocabulary.lookup(piece) is None
        ]

    def _unknown_error(self, text: str, where: str | None) -> TextError:
        piece, at = self._unknown(text)[0]
        character = f"{piece[0]!r} (U+{ord(piece[0]):04X} {unicodedata.name(piece[0], 'without a name')})"
        named = f"word {piece!r}" if self.settings.kind == "words" else f"character {character}"
        return TextError(
            f"the vocabulary does not have the {named}",
            where=place(where, given_column(text, at, self.settings)),
            got=repr(text if len(text) <= 60 else text[:60] + "…"),
            hint="leave it out, or train with a vocabulary that has it or an <unk> (the setting 'unknown')",
        )

    def to_dict(self) -> dict[str, Any]:
        """All that makes the tokenizer, fit for JSON.

        `kind`, `settings`, `pieces` (the ordinary ones, by rising id), `specials` (written form -> id), and
        for subwords `merges` (pairs of pieces) or `scores` (one for each ordinary piece).
        """
        return {
            "kind": self.settings.kind,
            "settings": self.settings.model_dump(),
            "pieces": list(self.vocabulary.ordinary),
            "specials": self.vocabulary.specials,
            **self._learned,
        }

    @classmethod
    def from_dict(cls, saved: object) -> Tokenizer:
        """The tokenizer that `to_dict` wrote.

        Nothing in it is trusted: a ModelFileError says what is missing, of a wrong type or contradictory.
        """
        try:
            form = SavedTokenizer.read(saved)
            return cls(form.settings, Vocabulary.from_pieces(form.pieces, form.specials), form.learned())
        except UsageError as error:
            what = f"the tokenizer in the model file is damaged: {error.what}"
            raise ModelFileError(what, got=error.got, expected=error.expected) from None
