"""Pieces and their ids. Special tokens have ids too, but text never becomes one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from glassformer.errors import UsageError, nearest
from glassformer.text.segmenters import SPECIALS


@final
@dataclass(frozen=True)
class Vocabulary:
    """Pieces in the order of their ids, special tokens included. Created by `from_pieces`.

    `pieces[id]` is the written form. Special tokens may have any written form of `SPECIALS` and any ids; an ordinary
    piece may have the same written form as a special token. The last `n_input_tokens` are those of a source with
    several inputs (`inputs.py`).
    """

    pieces: tuple[str, ...]
    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int | None = None
    n_input_tokens: int = 0

    @classmethod
    def from_pieces(
        cls, pieces: Iterable[str], specials: Mapping[str, int], input_tokens: Sequence[str] = ()
    ) -> Vocabulary:
        """Create a vocabulary: special tokens at their ids, ordinary `pieces` in order at all other ids.

        `input_tokens` are the written forms of the tokens of a source with several inputs. They have the last ids, are
        special tokens, and may have the written form of another token.

        `specials` maps each written form to its id, for example `{"<pad>": 0, "<sos>": 1, "</s>": 2}`. <unk> is
        optional; without <bos>, <pad> is at the start of a target (MarianMT). Raises UsageError for a repeated piece,
        and for specials that are not valid.
        """
        ordinary = list(pieces)
        repeated = next((piece for piece, count in Counter(ordinary).items() if count > 1), None)
        if repeated is not None:
            raise UsageError("a piece is repeated in the vocabulary", got=repr(repeated))
        size = len(ordinary) + len(specials)
        ids = _special_roles(specials, size)
        written, rest = {at: form for form, at in specials.items()}, iter(ordinary)
        placed = tuple(written[at] if at in written else next(rest) for at in range(size))
        return cls(
            (*placed, *input_tokens),
            *(ids["pad"], ids.get("bos", ids["pad"]), ids["eos"], ids.get("unk")),
            n_input_tokens=len(input_tokens),
        )

    def __len__(self) -> int:
        return len(self.pieces)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """The ids of the special tokens, <unk> and those of inputs included."""
        return self._role_ids | frozenset(self.input_ids)

    @property
    def _role_ids(self) -> frozenset[int]:
        ids = (self.pad_id, self.bos_id, self.eos_id, self.unk_id)
        return frozenset(at for at in ids if at is not None)

    @property
    def input_ids(self) -> range:
        """The ids of the tokens of a source with several inputs."""
        return range(len(self.pieces) - self.n_input_tokens, len(self.pieces))

    @property
    def input_tokens(self) -> list[str]:
        """The written forms of the tokens of a source with several inputs, in the order of their ids."""
        return [self.pieces[at] for at in self.input_ids]

    @cached_property
    def forbidden_ids(self) -> tuple[int, ...]:
        """The ids that no answer contains: those of all special tokens except <eos>."""
        return tuple(sorted(self.special_ids - {self.eos_id}))

    @property
    def specials(self) -> dict[str, int]:
        """Written form -> id of the special tokens, in order of their ids, without those of inputs."""
        return {self.pieces[at]: at for at in sorted(self._role_ids)}

    @cached_property
    def ordinary(self) -> dict[str, int]:
        """Piece -> id of the ordinary pieces, in order of their ids."""
        return {piece: at for at, piece in enumerate(self.pieces) if at not in self.special_ids}

    def lookup(self, piece: str) -> int | None:
        """Return the id of an ordinary piece, or None. A special token is never returned."""
        return self.ordinary.get(piece)


def copied_ids(source: Vocabulary, target: Vocabulary) -> list[int]:
    """Return for each source token the id of the same ordinary piece of the target; -1 where there is none."""
    copied = [-1] * len(source)
    for piece, at in source.ordinary.items():
        copied[at] = target.ordinary.get(piece, -1)
    return copied


def _special_roles(specials: Mapping[str, int], size: int) -> dict[str, int]:
    """Return role -> id of the special tokens in a vocabulary of `size`. Raises UsageError when one is not valid."""
    given = ", ".join(specials) or "none"
    roles: dict[str, int] = {}
    for form, at in specials.items():
        role = next((role for role, forms in SPECIALS.items() if form in forms), None)
        if role is None:
            known_forms = [form for forms in SPECIALS.values() for form in forms]
            raise UsageError(f"{form!r} is not a special token", hint=nearest(form, known_forms))
        if role in roles:
            raise UsageError(f"two special tokens have the role of {SPECIALS[role][0]}", got=given)
        if not 0 <= at < size:
            raise UsageError(f"the id of {form} is outside the vocabulary", got=str(at), expected=f"0 to {size - 1}")
        if at in roles.values():
            raise UsageError("two special tokens have the same id", got=str(at))
        roles[role] = at
    for role in ("pad", "eos"):
        if role not in roles:
            raise UsageError("a special token is missing", got=given, expected=" or ".join(SPECIALS[role]))
    return roles
