"""Rows of a table as ids in flat arrays: in memory, or of a large table in files.

encode_training(table, held, tokenizers, settings)    all rows but some
encode_pairs(table, rows, tokenizers, settings)       some rows
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.splits import TrainedSources, sorted_hashes, source_hashes
from glassformer.data.stored import BLOCK_ROWS, GrowingArray, StoredPairs
from glassformer.data.tables import Pair, Table
from glassformer.errors import TableError
from glassformer.paper.settings import Settings
from glassformer.text import Tokenizer
from glassformer.text.blocks import BlockEncoder

Tokenizers = tuple[Tokenizer, Tokenizer]
Block = tuple[NDArray[np.int64], Sequence[Pair]]  # numbers of rows, and their pairs

_SIDES = ("source", "target")
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
    def pack(cls, sequences: Sequence[Sequence[int]]) -> Sequences:
        """Create the array from separate sequences of ids."""
        lengths = np.fromiter((len(sequence) for sequence in sequences), np.int64, len(sequences))
        ids = np.fromiter((i for sequence in sequences for i in sequence), np.int32, int(lengths.sum()))
        return cls(ids, _starts(lengths), lengths)

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


@dataclass(frozen=True)
class Encoded:
    """The ids of the rows that are kept, and the others: the index and the number of tokens of each, by side.

    `trained` are the sources of rows to train on.
    """

    corpus: Corpus
    too_long: tuple[list[tuple[int, int]], list[tuple[int, int]]]
    trained: TrainedSources = field(default_factory=lambda: TrainedSources.none(""))

    @cached_property
    def left_out(self) -> frozenset[int]:
        """The indices of the rows that are too long."""
        return frozenset(row for side in self.too_long for row, _ in side)


def encode_training(table: Table, held: NDArray[np.int64], tokenizers: Tokenizers, settings: Settings) -> Encoded:
    """Encode the rows of a table to train on, all but those `held` out.

    The ids of a large table are in files. Raises TableError when more than half of the rows are longer than a limit,
    TextError for a piece without an id.
    """
    is_stored = isinstance(table.pairs, StoredPairs)
    encoded, sizes = _encode(table, _blocks(table.pairs, held), tokenizers, settings, stored=is_stored)
    _check_lengths(sizes, settings, table.path)
    without = np.union1d(held, np.fromiter(encoded.left_out, np.int64))
    with closing(GrowingArray(np.uint64, stored=is_stored)) as hashes:
        for part in sorted_hashes(source_hashes(table.pairs), without):
            hashes.append(part)
        return replace(encoded, trained=TrainedSources(hashes.finish()))


def encode_pairs(table: Table, rows: NDArray[np.int64], tokenizers: Tokenizers, settings: Settings) -> Encoded:
    """Encode some rows of a table, in memory. Raises TextError for a piece without an id."""
    pairs = [table.pairs[row] for row in rows.tolist()]
    return _encode(table, [(rows, pairs)], tokenizers, settings, stored=False)[0]


def _blocks(pairs: Sequence[Pair], held: NDArray[np.int64]) -> Iterator[Block]:
    """Yield the rows that are not held out, some thousand at once."""
    for start in range(0, len(pairs), BLOCK_ROWS):
        block = pairs[start : start + BLOCK_ROWS]
        first, last = np.searchsorted(held, (start, start + len(block)))
        rows = np.delete(np.arange(start, start + len(block)), held[first:last] - start)
        yield rows, [block[i] for i in (rows - start).tolist()]


def _encode(
    table: Table, blocks: Iterable[Block], tokenizers: Tokenizers, settings: Settings, *, stored: bool
) -> tuple[Encoded, tuple[Counter[int], Counter[int]]]:
    """Encode rows, and keep those that are not too long: in files if `stored`, or in memory.

    Return also, of each side, how many rows have each number of tokens.
    """
    limits = settings.max_source_tokens, settings.max_target_tokens
    encoders = [BlockEncoder(tokenizer) for tokenizer in tokenizers]
    too_long, sizes = (list[tuple[int, int]](), list[tuple[int, int]]()), (Counter[int](), Counter[int]())
    with ExitStack() as files:
        arrays = [
            [files.enter_context(closing(GrowingArray(dtype, stored=stored))) for dtype in _dtypes(tokenizer)]
            for tokenizer in tokenizers
        ]
        for rows, pairs in blocks:
            where = partial(_location, table, rows)
            found = [encoder.encode([pair[side] for pair in pairs], where) for side, encoder in enumerate(encoders)]
            kept = np.ones(len(rows), np.bool_)
            for side, (_, lengths) in enumerate(found):
                n_tokens = lengths - tokenizers[side].settings.n_frame_tokens
                sizes[side].update(n_tokens.tolist())
                is_long = kept & (n_tokens > limits[side])
                too_long[side].extend(zip(rows[is_long].tolist(), n_tokens[is_long].tolist(), strict=True))
                kept &= ~is_long
            for (all_ids, all_starts, all_lengths), (ids, lengths) in zip(arrays, found, strict=True):
                all_starts.append(len(all_ids) + _starts(lengths[kept]))
                all_ids.append(ids[np.repeat(kept, lengths)])
                all_lengths.append(lengths[kept])
        source, target = (Sequences(*(array.finish() for array in side)) for side in arrays)
    return Encoded(Corpus(source, target), too_long), sizes


def _location(table: Table, rows: NDArray[np.int64], index: int) -> str:
    return table.location(int(rows[index]))


def _check_lengths(sizes: tuple[Counter[int], Counter[int]], settings: Settings, path: str) -> None:
    """Raise TableError when more than half of the rows are longer than a limit."""
    limits = settings.max_source_tokens, settings.max_target_tokens
    for side, counts, limit in zip(_SIDES, sizes, limits, strict=True):
        n_long = sum(count for size, count in counts.items() if size > limit)
        if 2 * n_long > counts.total():
            larger = int(1.25 * np.quantile(list(counts.elements()), 0.95)) + 1
            raise TableError(
                f"more than half of the {side}s are longer than the limit",
                where=path,
                got=f"{n_long:,} of {counts.total():,} have more than {limit} tokens",
                hint=f"--set data.max_{side}_length={larger} (and model.max_length, where positions are learned)",
            )


def _dtypes(tokenizer: Tokenizer) -> list[type[np.integer[Any]]]:
    """Return the type of each array of a side, in the order of the fields of `Sequences`."""
    return [np.uint16 if len(tokenizer) <= 2**16 else np.int32, np.int64, np.int32]
