"""Pieces and their ids. Special tokens have ids too, and no text ever finds one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

from glassformer.errors import UsageError, nearest

SPECIALS: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "<blank>"),
    "bos": ("<bos>", "<sos>", "<s>", "<start>"),
    "eos": ("<eos>", "</s>", "<end>"),
    "unk": ("<unk>",),
}
"""The part that a special token plays -> the forms in which it may be written, ours first."""


@final
@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids, and which of them are special. Made by `from_pieces`.

    `pieces[id]` is the written form. Special tokens are included as they were given, at any ids; an ordinary
    piece may be written in the same way as a special one.
    """

    pieces: tuple[str, ...]
    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int | None = None

    @classmethod
    def from_pieces(cls, pieces: Iterable[str], specials: Mapping[str, int]) -> Vocabulary:
        """The special tokens at their ids, and the ordinary `pieces` in order at all the other ids.

        `specials` gives the id of each written form, for instance `{"<pad>": 0, "<sos>": 1, "</s>": 2}`; all
        but <unk> are needed. Raises UsageError for a piece that is there twice and specials that do not fit.
        """
        ordinary = list(pieces)
        repeated = next((piece for piece, count in Counter(ordinary).items() if count > 1), None)
        if repeated is not None:
            raise UsageError("a vocabulary cannot hold a piece twice", got=repr(repeated))
        size = len(ordinary) + len(specials)
        ids = _special_parts(specials, size)
        written, rest = {at: form for form, at in specials.items()}, iter(ordinary)
        placed = tuple(written[at] if at in written else next(rest) for at in range(size))
        return cls(placed, ids["pad"], ids["bos"], ids["eos"], ids.get("unk"))

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens, <unk> among them."""
        ids = (self.pad_id, self.bos_id, self.eos_id, self.unk_id)
        return frozenset(at for at in ids if at is not None)

    @cached_property
    def forbidden_ids(self) -> tuple[int, ...]:
        """The ids that no answer holds: those of the special tokens but `<eos>`."""
        return tuple(sorted(self.special_ids - {self.eos_id}))

    @property
    def specials(self) -> dict[str, int]:
        """Written form -> id of the special tokens, by rising id."""
        return {self.pieces[at]: at for at in sorted(self.special_ids)}

    @cached_property
    def ordinary(self) -> dict[str, int]:
        """Piece -> id of all that are not special, by rising id."""
        return {piece: at for at, piece in enumerate(self.pieces) if at not in self.special_ids}

    def lookup(self, piece: str) -> int | None:
        """The id of an ordinary piece, or None; a special token is never found."""
        return self.ordinary.get(piece)


def _special_parts(specials: Mapping[str, int], size: int) -> dict[str, int]:
    """Part -> id of the special tokens in a vocabulary of `size`, or a UsageError for what does not fit."""
    given = ", ".join(specials) or "none"
    parts: dict[str, int] = {}
    for form, at in specials.items():
        part = next((part for part, forms in SPECIALS.items() if form in forms), None)
        if part is None:
            known = [form for forms in SPECIALS.values() for form in forms]
            raise UsageError(f"{form!r} is not a special token", hint=nearest(form, known))
        if part in parts:
            raise UsageError(f"two special tokens stand for {SPECIALS[part][0]}", got=given)
        if not 0 <= at < size:
            raise UsageError(f"the id of {form} lies outside the vocabulary", got=str(at), expected=f"0 to {size - 1}")
        if at in parts.values():
            raise UsageError("two special tokens have the same id", got=str(at))
        parts[part] = at
    for part in ("pad", "bos", "eos"):
        if part not in parts:
            raise UsageError("a special token is missing", got=given, expected=" or ".join(SPECIALS[part]))
    return parts
