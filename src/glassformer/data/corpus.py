"""Pairs as ids, packed into flat arrays; and the rows that are held out for validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from glassformer.data.tables import Pair
from glassformer.text import Tokenizer


@dataclass(frozen=True)
class Sequences:
    """Many id sequences in one array: row i is `ids[offsets[i]:offsets[i + 1]]`."""

    ids: NDArray[np.int32]
    offsets: NDArray[np.int64]

    @classmethod
    def pack(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        lengths = np.fromiter((len(sequence) for sequence in sequences), np.int64, len(sequences))
        ids = np.fromiter((i for sequence in sequences for i in sequence), np.int32, int(lengths.sum()))
        return cls(ids, np.concatenate(([0], lengths.cumsum())))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.offsets)

    def packed(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """The ids of `rows`, one sequence after the other."""
        lengths = self.lengths[rows]
        starts = self.offsets[rows] - np.concatenate(([0], lengths.cumsum()[:-1]))
        where = np.repeat(starts, lengths) + np.arange(int(lengths.sum()))
        return self.ids[where].astype(np.int64)  # type: ignore[no-any-return]

    def counts(self, size: int) -> list[int]:
        """How often each id of a vocabulary of `size` occurs."""
        return np.bincount(self.ids, minlength=size).tolist()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Corpus:
    """Framed source and target ids of the same rows."""

    source: Sequences
    target: Sequences

    def __len__(self) -> int:
        return len(self.source)

    @classmethod
    def encode(
        cls,
        pairs: Sequence[Pair],
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        where: Sequence[str] | None = None,
    ) -> Corpus:
        """Raises TextError for a token that there is no id for; `where[i]` names pair i in it."""
        source = source_tokenizer.encode_many([pair.source for pair in pairs], where=where)
        target = target_tokenizer.encode_many([pair.target for pair in pairs], where=where)
        return cls(
            Sequences.pack([source_tokenizer.frame(ids) for ids in source]),
            Sequences.pack([target_tokenizer.frame(ids) for ids in target]),
        )


def hold_out(pairs: Sequence[Pair], share: float, most: int, seed: int) -> tuple[list[int], list[int]]:
    """Row numbers (from 0) to train on and to validate on, grouped by source.

    All rows of one source (in NFC) stand on one side, so that validation never asks for one that was trained on.
    Chance picks sources whose rows fit into `share` of all rows (at most `most`, at least one); where none
    fits, the source with the fewest rows is held out. With a single source, or a share of 0, nothing is.
    """
    rows_of: dict[str, list[int]] = {}
    for row, pair in enumerate(pairs):
        rows_of.setdefault(normalize("NFC", pair.source), []).append(row)
    groups = list(rows_of.values())
    if share == 0 or len(groups) < 2:
        return list(range(len(pairs))), []
    wanted = min(most, max(1, round(share * len(pairs))), len(pairs) - 1)
    held: set[int] = set()
    for index in np.random.default_rng(seed).permutation(len(groups)):
        if len(held) + len(groups[index]) <= wanted:
            held.update(groups[index])
    smallest = min(groups, key=len)
    held = held or set(smallest)
    return [row for row in range(len(pairs)) if row not in held], sorted(held)


def spread(n_rows: int, most: int) -> NDArray[np.int64]:
    """At most `most` of so many row numbers, in order and evenly far apart: tables are often sorted."""
    return np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64)
