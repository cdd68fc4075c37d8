"""Checks of a vocabulary before a segmenter is made of it: its pieces and learned values fit the kind of token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from glassformer.errors import UsageError
from glassformer.paper.settings import TokenKind
from glassformer.text.segmenters import BYTES, MARK, Learned
from glassformer.text.subwords import library


def check_pieces(kind: TokenKind, pieces: Sequence[str], learned: Learned) -> None:
    """Raise UsageError for pieces or learned values that a kind cannot have, MissingExtraError without its library."""
    if kind == "bytes" and pieces != BYTES:
        raise UsageError("the pieces are not the 256 bytes", got=f"{len(pieces)} pieces")
    for piece in pieces if kind in ("characters", "words") else ():
        if not (len(piece) == 1 if kind == "characters" else piece.split() == [piece]):
            expected = "one character each" if kind == "characters" else "words without white space"
            what = "a piece is not valid for this kind of tokenizer"
            raise UsageError(what, got=repr(piece)[:80], expected=expected)
    if kind == "subwords":
        _check_subwords(pieces, learned)


def _check_subwords(pieces: Sequence[str], learned: Learned) -> None:
    if MARK not in pieces:
        raise UsageError(f"the piece {MARK!r}, which represents a space, is missing")
    library()
    if "merges" in learned:
        _check_merges(learned["merges"], dict.fromkeys([*pieces, ""]))
    elif len(learned["scores"]) != len(pieces):
        got, expected = str(len(learned["scores"])), str(len(pieces))
        raise UsageError("the number of scores is not the number of pieces", got=got, expected=expected)


def _check_merges(merges: Sequence[Sequence[str]], known: Mapping[str, None]) -> None:
    for left, right in merges:
        if not (left and right and left in known and right in known and left + right in known):
            raise UsageError("a merge has a piece that is not in the vocabulary", got=repr((left, right))[:80])
    if len(set(map(tuple, merges))) < len(merges):
        raise UsageError("a merge is repeated")
