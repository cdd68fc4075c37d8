"""Pairs as ids in flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 2**20  # ids that are counted at once


@dataclass(frozen=True)
class Sequences:
    """Many id sequences in one array: row i is the `lengths[i]` ids from `ids[starts[i]]` on.

    The arrays are in memory, or in files that are mapped into memory, with ids and lengths of smaller types.
    """

    ids: NDArray[np.integer[Any]]
    starts: NDArray[np.int64]
    lengths: NDArray[np.integer[Any]]

    @classmethod
    def of(cls, ids: NDArray[np.integer[Any]], lengths: NDArray[np.integer[Any]]) -> Sequences:
        """Create sequences that follow one another."""
        return cls(ids, _starts(lengths), lengths)

    @classmethod
    def pack(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        """Create the array from separate sequences of ids."""
        lengths = np.fromiter((len(sequence) for sequence in sequences), np.int64, len(sequences))
        return cls.of(
            np.fromiter((i for sequence in sequences for i in sequence), np.int32, int(lengths.sum())), lengths
        )

    def __len__(self) -> int:
        return len(self.starts)

    def packed(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the ids of `rows`, one sequence after the other, without padding."""
        lengths = self.lengths[rows].astype(np.int64)
        starts = self.starts[rows] - _starts(lengths)
        indices = np.repeat(starts, lengths) + np.arange(int(lengths.sum()))
        return self.ids[indices].astype(np.int64)

    def counts(self, size: int) -> list[int]:
        """Return how often each id of a vocabulary of `size` occurs."""
        blocks = (self.ids[start : start + _BLOCK] for start in range(0, len(self.ids), _BLOCK))
        counts = sum((np.bincount(block, minlength=size) for block in blocks), np.zeros(size, np.int64))
        return counts.tolist()  # type: ignore[no-any-return]


def _starts(lengths: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    return np.concatenate(([0], lengths.cumsum(dtype=np.int64)[:-1])) if len(lengths) else np.empty(0, np.int64)


@dataclass(frozen=True)
class Corpus:
    """Framed source and target ids of the same rows."""

    source: Sequences
    target: Sequences

    def __len__(self) -> int:
        return len(self.source)


def spread(n_rows: int, max_rows: int) -> NDArray[np.int64]:
    """Return at most `max_rows` indices of `n_rows` rows, in order and evenly spaced: tables are often sorted."""
    return np.linspace(0, n_rows - 1, min(n_rows, max_rows)).astype(np.int64)
