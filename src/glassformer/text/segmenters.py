"""Segmenters: a text as pieces (characters, words, bytes, subwords), and back. Exports have this file too.

It needs the standard library alone; for subwords, by BPE (Sennrich et al. 2016) or a unigram model (Kudo 2018), the
library `tokenizers`. What a vocabulary holds is checked before (`checks`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final

SPECIALS: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "<blank>"),
    "bos": ("<bos>", "<sos>", "<s>", "<start>"),
    "eos": ("<eos>", "</s>", "<end>"),
    "unk": ("<unk>",),
}
"""Role of a special token -> its allowed written forms, the default first."""

Learned = Mapping[str, Any]
"""Learned values in addition to the pieces: `merges` (pairs of pieces), `scores` (one for each piece), `sentencepiece`
(see `sentencepiece.py`), or nothing."""


class Segmenter(Protocol):
    """A method that splits a text into pieces. A piece that is not in the vocabulary is returned unchanged."""

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the pieces of each text."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the start and the end of each piece in the text, as indices of characters from 0."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """Return the text that the pieces form."""
        ...

    def added(self, piece: str) -> bytes:
        """Return what a piece adds to the text of the pieces before it, in UTF-8."""
        ...


@final
class Characters:
    """One piece per Unicode code point."""

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(text) for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index in range(len(text))]

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces)

    def added(self, piece: str) -> bytes:
        return piece.encode()


@final
class Words:
    """One piece per word: the text between white space. The white space itself is lost."""

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [text.split() for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [word.span() for word in re.finditer(r"\S+", text)]

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces)

    def added(self, piece: str) -> bytes:
        return f" {piece}".encode()


BYTES = [chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)]
"""The piece of each byte: a printable ASCII character, or a form like `<0xC3>`."""

_BYTE_OF = {piece: byte for byte, piece in enumerate(BYTES)}


@final
class Bytes:
    """One piece per byte of the text in UTF-8."""

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [[BYTES[byte] for byte in text.encode()] for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index, character in enumerate(text) for _ in character.encode()]

    def join(self, pieces: Sequence[str]) -> str:
        return bytes(_BYTE_OF[piece] for piece in pieces).decode(errors="replace")

    def added(self, piece: str) -> bytes:
        return bytes([_BYTE_OF[piece]])


# Subwords: a piece writes a space as "▁". The library gets marked texts: a "▁" for each space, and one at the start.

MARK = "▁"
# The two are exchanged, so that a "▁" in the text of a user is not lost.
_EXCHANGE = str.maketrans(f" {MARK}", f"{MARK} ")
# A piece is part of a word with the space before it, or of a run of other characters, such as punctuation.
CHUNK = rf"{MARK}?[\p{{L}}\p{{M}}\p{{N}}]+|{MARK}?[^{MARK}\p{{L}}\p{{M}}\p{{N}}]+|{MARK}"
# The library requires a piece for unknown characters; the empty one is equal to no other.
_NO_PIECE = ""


def mark(text: str) -> str:
    """Return the text with marks for spaces and one mark at the start: a word is then the same at every position."""
    return MARK + text.translate(_EXCHANGE) if text else ""


def of_chunks(model: Any) -> Any:
    """Return the library's tokenizer for a model: no normalizer, no special tokens, pieces within CHUNK."""
    import tokenizers as library

    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(CHUNK), "isolated")
    return tokenizer


@final
class Subwords:
    """Subwords as pieces, by `merges` or `scores`. All characters are kept, white space too.

    With BPE each unknown character is one unknown piece; with unigram a run of them is one.
    """

    def __init__(self, pieces: Sequence[str], learned: Learned) -> None:
        import tokenizers as library

        if learned.get("merges") is not None:
            ids = {piece: token_id for token_id, piece in enumerate([*pieces, _NO_PIECE])}
            merges = [(left, right) for left, right in learned["merges"]]
            self._inner = of_chunks(library.models.BPE(vocab=ids, merges=merges, unk_token=_NO_PIECE))
        else:
            scored = [*zip(pieces, learned["scores"], strict=True), (_NO_PIECE, 0.0)]
            self._inner = of_chunks(library.models.Unigram(scored, unk_id=len(pieces)))

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        marked = [mark(text) for text in texts]
        encoded = zip(marked, self._inner.encode_batch(marked), strict=True)
        return [[text[start:end] for start, end in encoding.offsets] for text, encoding in encoded]

    def spans(self, text: str) -> list[tuple[int, int]]:
        offsets = self._inner.encode(mark(text)).offsets
        return [(max(start - 1, 0), end - 1) for start, end in offsets]  # the mark at the start is not in the text

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).translate(_EXCHANGE).removeprefix(" ")

    def added(self, piece: str) -> bytes:
        return piece.translate(_EXCHANGE).encode()


def segmenter(kind: str, pieces: Sequence[str], learned: Learned) -> Segmenter:
    """Return the segmenter of a kind of token; `pieces` are in the order of their ids. SentencePiece is not here."""
    plain: dict[str, type[Segmenter]] = {"characters": Characters, "words": Words, "bytes": Bytes}
    return Subwords(pieces, learned) if kind == "subwords" else plain[kind]()
