"""Rows of a table as ids in flat arrays."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.tables import Table
from glassformer.settings import Settings
from glassformer.text import Tokenizer

Tokenizers = tuple[Tokenizer, Tokenizer]

_BLOCK_ROWS = 2**14  # rows that are encoded at once
_BLOCK = 2**20  # ids that are counted at once


@dataclass(frozen=True)
class Sequences:
    """Many id sequences in one array: row i is the `lengths[i]` ids from `ids[starts[i]]` on."""

    ids: NDArray[np.integer[Any]]
    lengths: NDArray[np.integer[Any]]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The position in `ids` at which each row starts."""
        return _starts(self.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

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
    starts: NDArray[np.int64] = lengths.cumsum(dtype=np.int64) - lengths
    return starts


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


@dataclass(frozen=True)
class Encoded:
    """The ids of the rows that are kept, and for each side index and number of tokens of each row that is too long.

    `n_tokens` are the numbers of tokens of all rows, by side.
    """

    corpus: Corpus
    too_long: list[list[tuple[int, int]]]
    n_tokens: list[NDArray[np.integer[Any]]]

    @cached_property
    def left_out(self) -> frozenset[int]:
        """The indices of the rows that are too long."""
        return frozenset(row for side in self.too_long for row, _ in side)


def encode(table: Table, rows: NDArray[np.int64], tokenizers: Tokenizers, settings: Settings) -> Encoded:
    """Encode some rows of a table. Raises TextError for a piece without an id."""
    limits = settings.max_source_tokens, settings.max_target_tokens
    fits = np.ones(len(rows), np.bool_)
    sides, too_long, all_tokens = list[Sequences](), list[list[tuple[int, int]]](), list[NDArray[np.integer[Any]]]()
    for side, (tokenizer, limit) in enumerate(zip(tokenizers, limits, strict=True)):
        sequences = _framed(table, rows, side, tokenizer)
        n_tokens = sequences.lengths - tokenizer.settings.n_frame_tokens
        is_long = fits & (n_tokens > limit)
        fits &= ~is_long
        sides.append(sequences)
        too_long.append(list(zip(rows[is_long].tolist(), n_tokens[is_long].tolist(), strict=True)))
        all_tokens.append(n_tokens)
    if not fits.all():
        sides = [Sequences(side.ids[np.repeat(fits, side.lengths)], side.lengths[fits]) for side in sides]
    return Encoded(Corpus(*sides), too_long, all_tokens)


def _framed(table: Table, rows: NDArray[np.int64], side: int, tokenizer: Tokenizer) -> Sequences:
    """Return the framed ids of one side of each row."""
    id_type = np.uint16 if len(tokenizer) <= 2**16 else np.int32
    all_ids, all_lengths = array(np.dtype(id_type).char), array("i")  # arrays that grow in place
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS].tolist()
        texts = [table.pairs[row][side] for row in block]
        ids, lengths = tokenizer.frame_many(texts, partial(_location, table, block))
        all_ids.frombytes(ids.astype(id_type).tobytes())
        all_lengths.frombytes(lengths.astype(np.int32).tobytes())
    return Sequences(np.asarray(all_ids), np.asarray(all_lengths))


def _location(table: Table, rows: Sequence[int], index: int) -> str:
    return table.location(rows[index])
