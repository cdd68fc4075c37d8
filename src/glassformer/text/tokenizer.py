"""Text to ids and back: normalize, split, look up; and the reverse."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import MissingExtraError, ModelFileError, TextError, UsageError, nearest
from glassformer.settings import SideSettings, TokenKind
from glassformer.text.code_points import N_CODE_POINTS, code_points
from glassformer.text.inputs import Input, Inputs, Source, cells_of, input_keys, input_tokens, listed, texts_of
from glassformer.text.normalization import location, normalize, original_column
from glassformer.text.saved import SavedTokenizer
from glassformer.text.segmenters import BYTES, MARK, Learned, Segmenter, segmenter
from glassformer.text.sentencepiece import sentencepiece
from glassformer.text.vocabulary import Vocabulary

_BATCH = 4096  # texts that are split at once; it limits memory and does not change the result


@final
class Tokenizer:
    """Text to ids and back. Created by `learn`, `ascii68` or `from_dict`; immutable afterwards."""

    def __init__(self, settings: SideSettings, vocabulary: Vocabulary, learned: Learned, inputs: Inputs = ()) -> None:
        """Create a tokenizer; `inputs` are those of a source that has several, with their tokens in `vocabulary`."""
        self.settings = settings
        self.vocabulary = vocabulary
        self.inputs = inputs
        self._learned = learned
        pieces = list(vocabulary.ordinary)
        _check_pieces(settings.kind, pieces, learned)
        is_imported = settings.kind == "sentencepiece"
        self._segmenter: Segmenter = (
            sentencepiece(learned) if is_imported else segmenter(settings.kind, pieces, learned)
        )
        if inputs and is_imported:
            raise UsageError("a SentencePiece model has one input", got=listed(inputs), expected="one text")
        self._input_ids = dict(zip(input_keys(inputs), vocabulary.input_ids, strict=True)) if inputs else {}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def split(self, text: Source) -> list[str]:
        """Return the pieces of the normalized text, without special tokens; unknown pieces are kept unchanged.

        Of a source with several inputs, the pieces of its texts.
        """
        parts = [normalize(part, self.settings) for part in texts_of(text, self.inputs)]
        return [piece for pieces in self._segmenter.split(parts) for piece in pieces]

    def encode(self, text: Source, *, where: str | None = None) -> list[int]:
        """Return the ids of the text, without <bos> and <eos>.

        A piece that is not in the vocabulary becomes <unk>. In a vocabulary without <unk>, a TextError names the first
        such character (or word) and its column, from 1, in the original text. `where` names the text in the error.
        """
        return self.encode_many([text], where=[where or ""])[0]

    def encode_many(self, sources: Sequence[Source], *, where: Sequence[str] | None = None) -> list[list[int]]:
        """Return the ids of many texts, as `encode` does for one, but faster.

        Raises TextError, which names text i by `where[i]` or else by its number from 1.
        """
        where = [f"text {row}" for row in range(1, len(sources) + 1)] if where is None else where
        if self.inputs:
            return self._encode_inputs(sources, where)
        texts, encoded = cast("Sequence[str]", sources), list[list[int]]()
        for start in range(0, len(texts), _BATCH):
            batch, names = texts[start : start + _BATCH], where[start : start + _BATCH]
            normalized = [normalize(text, self.settings, name) for text, name in zip(batch, names, strict=True)]
            encoded += map(self._ids, self._segmenter.split(normalized), batch, names)
        return encoded

    def frame_many(
        self, texts: Sequence[Source], where: Callable[[int], str]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the framed ids of many texts in one array, and the number of ids of each text.

        Raises the errors of `encode_many`, in which `where(i)` names text i.
        """
        if self.settings.kind == "characters" and not self.inputs:
            codes = code_points(cast("Sequence[str]", texts), self.settings)
            if codes is not None and (ids := self._id_of_code_point[codes]).min(initial=0) >= 0:
                ends = np.flatnonzero(codes == 0)
                ids[ends] = self.vocabulary.eos_id
                lengths = np.diff(ends, prepend=-1)
                if self.settings.bos:
                    ids, lengths = np.insert(ids, ends - lengths + 1, self.vocabulary.bos_id), lengths + 1
                return ids, lengths
        names = [where(row) for row in range(len(texts))]
        framed = list(map(self.frame, self.encode_many(texts, where=names)))
        return np.fromiter(chain.from_iterable(framed), np.int32), np.fromiter(map(len, framed), np.int64)

    @cached_property
    def _id_of_code_point(self) -> NDArray[np.int32]:
        """The id of each character by its code point; -1 for an unknown one without <unk>."""
        unknown = self.vocabulary.unk_id
        ids = np.full(N_CODE_POINTS, -1 if unknown is None else unknown, np.int32)
        for character, token_id in self.vocabulary.ordinary.items():
            ids[ord(character)] = token_id
        ids[0] = max(ids[0], 0)  # NUL ends a text
        return ids

    def _ids(self, pieces: list[str], text: str, where: str) -> list[int]:
        unknown = -1 if self.vocabulary.unk_id is None else self.vocabulary.unk_id
        id_of = self.vocabulary.ordinary
        ids = [id_of.get(piece, unknown) for piece in pieces]
        if -1 in ids:
            raise self._unknown_error(text, where)
        return ids

    def _encode_inputs(self, sources: Sequence[Source], where: Sequence[str]) -> list[list[int]]:
        """Return the ids of sources with several inputs: the texts, then the symbols of each feature."""
        rows = [self._cells(source, name) for source, name in zip(sources, where, strict=True)]
        encoded: list[list[int]] = [[] for _ in rows]
        for position, input_ in enumerate(self.inputs):
            cells = [row[position] for row in rows]
            if input_.kind == "feature":
                added = [self._symbol_ids(input_, cell, name) for cell, name in zip(cells, where, strict=True)]
            else:
                added = self.without_inputs().encode_many(cells, where=where)
            mark = [self._input_ids[input_.name, None]] if input_.kind == "text" and position else []
            for ids, added_ids in zip(encoded, added, strict=True):
                ids += [*mark, *added_ids]
        return encoded

    def names_of_inputs(self, source: Source) -> list[str]:
        """Return the name of the input of each id that `encode` returns; nothing for a single text."""
        names: list[str] = []
        for position, (input_, cell) in enumerate(zip(self.inputs, cells_of(source), strict=False)):
            is_text = input_.kind == "text"
            n_tokens = len(self.without_inputs().encode(cell)) if is_text else len(input_.symbols_of(cell))
            names += [input_.name] * (n_tokens + (is_text and position > 0))
        return names

    def _cells(self, source: Source, where: str) -> Sequence[str]:
        """Return the cells of a source. Raises TextError when they are not as many as the inputs."""
        cells = cells_of(source)
        if len(cells) != len(self.inputs):
            raise TextError(
                "a source does not have the inputs of the model",
                where=where or None,
                got=f"{len(cells)} of {len(self.inputs)} inputs",
                expected=listed(self.inputs),
            )
        return cells

    def _symbol_ids(self, feature: Input, cell: str, where: str) -> list[int]:
        """Return the ids of the symbols of a cell. Raises TextError for an unknown one without <unk>."""
        symbols = feature.symbols_of(cell)
        ids = [self._input_ids.get((feature.name, symbol), self.vocabulary.unk_id) for symbol in symbols]
        if None in ids:
            symbol = symbols[ids.index(None)]
            raise TextError(
                f"the symbol {symbol!r} of the feature {feature.name!r} is not in the vocabulary",
                where=where or None,
                hint=nearest(symbol, feature.symbols),
            )
        return ids  # type: ignore[return-value]  # none is None

    def frame(self, ids: Sequence[int]) -> list[int]:
        """Return the ids with <bos> before and <eos> after them; without <bos> where the settings say so."""
        start = [self.vocabulary.bos_id] if self.settings.bos else []
        return [*start, *ids, self.vocabulary.eos_id]

    def with_ends(self, settings: SideSettings) -> Tokenizer:
        """Return the same tokenizer for texts that begin with <bos>, and are trimmed, where `settings` say so."""
        changed = self.settings.model_copy(update={"bos": settings.bos, "trim": settings.trim})
        return self if changed == self.settings else Tokenizer(changed, self.vocabulary, self._learned, self.inputs)

    @cached_property
    def as_target(self) -> Tokenizer:
        """The tokenizer of the targets that share the vocabulary of this source."""
        return self.without_inputs().with_ends(self.settings.as_target())

    def without_inputs(self) -> Tokenizer:
        """Return the tokenizer with the same ids for single texts: itself, unless it has several inputs."""
        return self._only_text if self.inputs else self

    @cached_property
    def _only_text(self) -> Tokenizer:
        return Tokenizer(self.settings, self.vocabulary, self._learned)

    def with_pieces(self, pieces: Sequence[str], inputs: Inputs = ()) -> Tokenizer:
        """Return the same tokenizer with more ordinary pieces, whose ids follow all others except those of inputs.

        `inputs` replace those of the tokenizer, with more symbols.
        """
        inputs = inputs or self.inputs
        tokens = input_tokens(inputs) if inputs else self.vocabulary.input_tokens
        all_pieces = [*self.vocabulary.ordinary, *pieces]
        vocabulary = Vocabulary.from_pieces(all_pieces, self.vocabulary.specials, tokens)
        return Tokenizer(self.settings, vocabulary, self._learned, inputs)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids, without special tokens (<unk> included). Raises TextError for an invalid id.

        With the normalization NFD the text is returned in NFC, the usual form of files.
        """
        special = self.vocabulary.special_ids
        text = self._segmenter.join(self.tokens([token_id for token_id in ids if token_id not in special]))
        return unicodedata.normalize("NFC", text) if self.settings.normalization == "NFD" else text

    def added(self) -> dict[int, bytes]:
        """Return what each ordinary token adds to the text before it, in UTF-8, by its id.

        The text of an answer is all of these; a space at its start, where a token begins with one, is not part of it.
        """
        return {token_id: self._segmenter.added(piece) for piece, token_id in self.vocabulary.ordinary.items()}

    def tokens(self, ids: Iterable[int], unknown: Sequence[str] = ()) -> list[str]:
        """Return the written form of each id, special tokens included. Raises TextError for an invalid id.

        `unknown` is what the text has for each <unk>, in order.
        """
        listed, size = list(ids), len(self)
        invalid = next((token_id for token_id in listed if not 0 <= token_id < size), None)
        if invalid is not None:
            raise TextError(f"token id {invalid} is not in the vocabulary", expected=f"0 to {size - 1}")
        pieces, in_text = self.vocabulary.pieces, iter(unknown)
        return [
            next(in_text, pieces[token_id]) if token_id == self.vocabulary.unk_id else pieces[token_id]
            for token_id in listed
        ]

    def unknown(self, text: Source) -> list[str]:
        """Return the characters (or words) of the normalized text that are not in the vocabulary, in order.

        The symbols of features follow those of the texts, in their written form, `<tags=PST>`.
        """
        if isinstance(text, str):
            return [piece for piece, _ in self._unknown(text)]
        unknown: list[str] = []
        for input_, cell in zip(self.inputs, self._cells(text, "the text"), strict=True):
            if input_.kind == "text":
                unknown += self.without_inputs().unknown(cell)
            else:
                symbols = input_.symbols_of(cell)
                unknown += [input_.token(symbol) for symbol in symbols if (input_.name, symbol) not in self._input_ids]
        return unknown

    def _unknown(self, text: str) -> list[tuple[str, int]]:
        """Return each unknown piece and its start in the normalized text."""
        normalized = normalize(text, self.settings)
        pieces, spans = self._segmenter.split([normalized])[0], self._segmenter.spans(normalized)
        return [
            (normalized[start:end], start)
            for piece, (start, end) in zip(pieces, spans, strict=True)
            if self.vocabulary.lookup(piece) is None
        ]

    def _unknown_error(self, text: str, where: str) -> TextError:
        piece, start = self._unknown(text)[0]
        character = f"{piece[0]!r} (U+{ord(piece[0]):04X} {unicodedata.name(piece[0], 'without a name')})"
        piece_text = f"word {piece!r}" if self.settings.kind == "words" else f"character {character}"
        return TextError(
            f"the {piece_text} is not in the vocabulary",
            where=location(where, original_column(text, start, self.settings)),
            got=repr(text if len(text) <= 60 else text[:60] + "…"),
            hint="remove it, or train with a vocabulary that contains it or <unk> (the setting 'unknown')",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the whole tokenizer as JSON values.

        `kind`, `settings`, `pieces` (the ordinary ones, in order of their ids), `specials` (written form -> id), and
        for subwords `merges` (pairs of pieces) or `scores` (one for each ordinary piece), for SentencePiece its model.
        A source with several inputs has `inputs`; the target of a vocabulary that is shared with it `input_tokens`.
        """
        inputs: dict[str, Any] = {}
        if self.inputs:
            inputs = {"inputs": [input_.model_dump(mode="json") for input_ in self.inputs]}
        elif self.vocabulary.n_input_tokens:
            inputs = {"input_tokens": self.vocabulary.input_tokens}
        return {
            "kind": self.settings.kind,
            "settings": self.settings.model_dump(),
            "pieces": list(self.vocabulary.ordinary),
            "specials": self.vocabulary.specials,
            **self._learned,
            **inputs,
        }

    @classmethod
    def from_dict(cls, saved: object) -> Tokenizer:
        """Return the tokenizer that `to_dict` wrote.

        Nothing in it is trusted: raises ModelFileError for what is missing, of a wrong type or contradictory.
        """
        try:
            fields = SavedTokenizer.read(saved)
            inputs, tokens = fields.inputs_and_tokens()
            vocabulary = Vocabulary.from_pieces(fields.pieces, fields.specials, tokens)
            return cls(fields.settings, vocabulary, fields.learned(), inputs)
        except UsageError as error:
            what = f"the tokenizer in the model file is damaged: {error.what}"
            raise ModelFileError(what, got=error.got, expected=error.expected) from None


def library() -> Any:
    """Return the `tokenizers` library. Raises MissingExtraError when it is not installed."""
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("a subword vocabulary", package="tokenizers", extra="subwords") from None
    return tokenizers


def _check_pieces(kind: TokenKind, pieces: list[str], learned: Learned) -> None:
    """Raise UsageError for pieces or learned values that a kind cannot have, MissingExtraError without its library."""
    if kind == "bytes" and pieces != BYTES:
        raise UsageError("the pieces are not the 256 bytes", got=f"{len(pieces)} pieces")
    for piece in pieces if kind in ("characters", "words") else ():
        if not (len(piece) == 1 if kind == "characters" else piece.split() == [piece]):
            expected = "one character each" if kind == "characters" else "words without white space"
            what = "a piece is not valid for this kind of tokenizer"
            raise UsageError(what, got=repr(piece)[:80], expected=expected)
    if kind != "subwords":
        return
    library()
    if MARK not in pieces:
        raise UsageError(f"the piece {MARK!r}, which represents a space, is missing")
    known_pieces, merges = {*pieces, ""}, learned.get("merges", ())
    for left, right in merges:
        if not (left and right and {left, right, left + right} <= known_pieces):
            raise UsageError("a merge has a piece that is not in the vocabulary", got=repr((left, right))[:80])
    if len(set(map(tuple, merges))) < len(merges):
        raise UsageError("a merge is repeated")
    if "merges" not in learned and len(learned["scores"]) != len(pieces):
        got, expected = str(len(learned["scores"])), str(len(pieces))
        raise UsageError("the number of scores is not the number of pieces", got=got, expected=expected)
