"""Pairs as ids in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
        """Create the array from separate sequences of ids."""
        lengths = np.fromiter((len(sequence) for sequence in sequences), np.int64, len(sequences))
        ids = np.fromiter((i for sequence in sequences for i in sequence), np.int32, int(lengths.sum()))
        return cls(ids, np.concatenate(([0], lengths.cumsum())))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """The number of ids of each sequence."""
        return np.diff(self.offsets)

    def packed(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ids of `rows`, one sequence after the other, without padding."""
        lengths = self.lengths[rows]
        starts = self.offsets[rows] - np.concatenate(([0], lengths.cumsum()[:-1]))
        indices = np.repeat(starts, lengths) + np.arange(int(lengths.sum()))
        return self.ids[indices].astype(np.int64)  # type: ignore[no-any-return]

    def counts(self, size: int) -> list[int]:
        """Return how often each id of a vocabulary of `size` occurs."""
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
        """Encode pairs. Raises TextError for a piece without an id; `where[i]` names pair i in it."""
        source = source_tokenizer.encode_many([pair.source for pair in pairs], where=where)
        target = target_tokenizer.encode_many([pair.target for pair in pairs], where=where)
        return cls(
            Sequences.pack([source_tokenizer.frame(ids) for ids in source]),
            Sequences.pack([target_tokenizer.frame(ids) for ids in target]),
        )


def spread(n_rows: int, max_rows: int) -> NDArray[np.int64]:
    """Return at most `max_rows` indices of `n_rows` rows, in order and evenly spaced: tables are often sorted."""
    return np.linspace(0, n_rows - 1, min(n_rows, max_rows)).astype(np.int64)
