"""The ways of cutting a text that need no library: into characters, words or bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

from glassformer.errors import UsageError

Learned = Mapping[str, list[Any]]
"""What is learned beside the pieces: `merges` (pairs of pieces), `scores` (one for each piece) or nothing."""


class Cutter(Protocol):
    """One way of cutting a text into pieces. What no vocabulary can know comes out as it stands.

    It is made from the ordinary pieces of a vocabulary, in order, and what was learned beside them, and raises
    UsageError where these do not fit its kind.
    """

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        """The pieces of each text."""
        ...

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where each piece begins and ends in the text."""
        ...

    def join(self, pieces: Sequence[str]) -> str:
        """The text that the pieces make."""
        ...


@final
class Characters:
    """One Unicode code point is one piece."""

    def __init__(self, pieces: list[str], _learned: Learned) -> None:
        _check_pieces(pieces, lambda piece: len(piece) == 1, "one character each")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [list(text) for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at in range(len(text))]

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces)


@final
class Words:
    """What stands between white space is one piece; the white space itself is not kept."""

    def __init__(self, pieces: list[str], _learned: Learned) -> None:
        _check_pieces(pieces, lambda piece: piece.split() == [piece], "words without white space")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [text.split() for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [word.span() for word in re.finditer(r"\S+", text)]

    def join(self, pieces: Sequence[str]) -> str:
        return " ".join(pieces)


BYTES = [chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)]
"""The piece of each byte: printable ASCII as it is, the others like `<0xC3>`."""

_BYTE_OF = {piece: byte for byte, piece in enumerate(BYTES)}


@final
class Bytes:
    """One byte of the text in UTF-8 is one piece."""

    def __init__(self, pieces: list[str], _learned: Learned) -> None:
        if pieces != BYTES:
            raise UsageError("its pieces are not the 256 bytes", got=f"{len(pieces)} pieces")

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [[BYTES[byte] for byte in text.encode()] for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [(at, at + 1) for at, character in enumerate(text) for _ in character.encode()]

    def join(self, pieces: Sequence[str]) -> str:
        return bytes(_BYTE_OF[piece] for piece in pieces).decode(errors="replace")


def _check_pieces(pieces: list[str], fits: Callable[[str], bool], expected: str) -> None:
    for piece in pieces:
        if not fits(piece):
            raise UsageError("a piece does not fit its kind", got=repr(piece)[:80], expected=expected)
