"""Segmenters that need no library: text is split into characters, words or bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from glassformer.errors import UsageError

Learned = Mapping[str, Any]
"""Learned values in addition to the pieces: `merges` (pairs of pieces), `scores` (one for each piece), `sentencepiece`
(see `sentencepiece.py`), or nothing."""


class Segmenter(Protocol):
    """A method that splits a text into pieces. A piece that is not in the vocabulary is returned unchanged.

    It is created from the ordinary pieces of a vocabulary, in the order of their ids, and the learned values. Raises
    UsageError when these are not valid for its kind.
    """

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
    """Segmenter with one piece per Unicode code point."""

    def __init__(self, pieces: list[str], _learned: Learned) -> None:
        _check_pieces(pieces, lambda piece: len(piece) == 1, "one character each")

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
    """Segmenter with one piece per word: the text between white space. The white space itself is lost."""

    def __init__(self, pieces: list[str], _learned: Learned) -> None:
        _check_pieces(pieces, lambda piece: piece.split() == [piece], "words without white space")

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
    """Segmenter with one piece per byte of the text in UTF-8."""

    def __init__(self, pieces: list[str], _learned: Learned) -> None:
        if pieces != BYTES:
            raise UsageError("the pieces are not the 256 bytes", got=f"{len(pieces)} pieces")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [[BYTES[byte] for byte in text.encode()] for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(index, index + 1) for index, character in enumerate(text) for _ in character.encode()]

    def join(self, pieces: Sequence[str]) -> str:
        return bytes(_BYTE_OF[piece] for piece in pieces).decode(errors="replace")

    def added(self, piece: str) -> bytes:
        return bytes([_BYTE_OF[piece]])


def _check_pieces(pieces: list[str], is_valid: Callable[[str], bool], expected: str) -> None:
    for piece in pieces:
        if not is_valid(piece):
            raise UsageError("a piece is not valid for this kind of tokenizer", got=repr(piece)[:80], expected=expected)
