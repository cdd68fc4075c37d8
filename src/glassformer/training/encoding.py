"""Rows of a table as ids: in memory, or of a large table in files of the cache.

encode_rows(pairs, held, tokenizers, limits)          all rows but those that are held out
stored_rows(pairs, held, settings, tokenizers)        the same of `StoredPairs`, with their tokenizers, from the cache
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.cache import ArrayFile, cached, close_all, key_of, mapped
from glassformer.data.corpus import Corpus, Sequences, spread
from glassformer.data.splits import Hashes, TrainedSources, held_rows, sorted_hashes
from glassformer.data.stored import BLOCK_ROWS, StoredPairs, source_hashes
from glassformer.data.tables import Pair, Table
from glassformer.errors import TableError
from glassformer.paper.settings import Settings
from glassformer.ship.storage.modelfile import tokenizers_from_dict, tokenizers_to_dict
from glassformer.text import Tokenizer, grow_both, learn_both
from glassformer.text.blocks import BlockEncoder

Tokenizers = tuple[Tokenizer, Tokenizer]

LEARNED_ROWS = 1_000_000
"""Rows from which words and subwords are learned in a larger table. Characters are those of all rows."""

_SIDES = ("source", "target")
_COUNTED_KINDS = ("characters", "bytes")


@dataclass(frozen=True)
class Encoded:
    """The ids of the rows that are kept, and the others: the index and the number of tokens of each, by side.

    `counts` is how often each id of each side occurs. Of the rows to train on also the sources, and notes about a large
    table.
    """

    corpus: Corpus
    tokenizers: Tokenizers
    too_long: tuple[list[tuple[int, int]], list[tuple[int, int]]]
    counts: tuple[list[int], list[int]]
    trained: TrainedSources = field(default_factory=lambda: TrainedSources.none(""))
    notes: tuple[str, ...] = ()

    @cached_property
    def left_out(self) -> frozenset[int]:
        """The indices of the rows that are too long."""
        return frozenset(row for side in self.too_long for row, _ in side)


def held_out_rows(table: Table, settings: Settings) -> NDArray[np.int64]:
    """Return the rows of a table that are held out for validation; see `splits.held_rows`."""
    choice = settings.data.valid_fraction, settings.data.max_valid_rows, settings.training.seed
    if not isinstance(table.pairs, StoredPairs):
        return held_rows(source_hashes(table.pairs), *choice)
    hashes = table.pairs.source_hashes
    key = key_of("split", {"table": table.pairs.key, "choice": choice})
    entry = cached(key, lambda _: {"held": held_rows(hashes, *choice).tolist()})
    return np.array(entry.description["held"], np.int64)


def encode_training(
    table: Table, held: NDArray[np.int64], settings: Settings, given: Tokenizers | None, *, grow: bool = False
) -> Encoded:
    """Encode the rows of a table to train on, all but those `held` out, with tokenizers that are given or learned.

    With `grow` the given ones get the characters or words that they lack. Raises TableError when more than half of the
    rows are longer than a limit, TextError for a piece without an id.
    """
    if isinstance(table.pairs, StoredPairs):
        return _from_cache(table, table.pairs, held, settings, given, grow=grow)
    encoded = _encode_rows(table, held, _tokenizers(table, held, settings, given, grow=grow), settings, None)
    sources = np.concatenate(list(_trained_parts(table, held, encoded)))
    notes = _sample_notes(table, held, settings, given)
    return replace(encoded, trained=TrainedSources(sources), notes=notes)


def encode_pairs(table: Table, rows: NDArray[np.int64], tokenizers: Tokenizers, settings: Settings) -> Encoded:
    """Encode some rows of a table, in memory. Raises TextError for a piece without an id."""
    encoding = _Encoding(tokenizers, settings, None)
    pairs = [table.pairs[row] for row in rows.tolist()]
    encoding.add([[pair[side] for pair in pairs] for side in (0, 1)], rows, table.location)
    return encoding.finish()


def _encode_rows(
    table: Table, held: NDArray[np.int64], tokenizers: Tokenizers, settings: Settings, folder: Path | None
) -> Encoded:
    encoding, pairs = _Encoding(tokenizers, settings, folder), table.pairs
    try:
        for start in range(0, len(pairs), BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, len(pairs))
            first, last = np.searchsorted(held, (start, stop))
            rows = np.delete(np.arange(start, stop), held[first:last] - start)
            encoding.add([_texts(pairs, side, start, stop, rows - start) for side in (0, 1)], rows, table.location)
        encoding.check_lengths(table.path)
        return encoding.finish()
    finally:
        encoding.close()


def _trained_parts(table: Table, held: NDArray[np.int64], encoded: Encoded) -> Iterator[Hashes]:
    without = np.union1d(held, np.fromiter(encoded.left_out, np.int64))
    return sorted_hashes(source_hashes(table.pairs), without)


def _texts(pairs: Sequence[Pair], side: int, start: int, stop: int, chosen: NDArray[np.int64]) -> list[str]:
    block = pairs[start:stop]
    texts = pairs.texts(side, start, stop) if isinstance(pairs, StoredPairs) else [pair[side] for pair in block]
    return texts if len(chosen) == len(texts) else [texts[i] for i in chosen.tolist()]


class _Encoding:
    """Encodes blocks of rows, and writes those that are not too long."""

    def __init__(self, tokenizers: Tokenizers, settings: Settings, folder: Path | None) -> None:
        self._tokenizers = tokenizers
        self._encoders = [BlockEncoder(tokenizer) for tokenizer in tokenizers]
        self._frames = [tokenizer.settings.n_frame_tokens for tokenizer in tokenizers]
        self._limits = (settings.max_source_tokens, settings.max_target_tokens)
        self._sinks = [_Sink(folder, side, len(tokenizer)) for side, tokenizer in zip(_SIDES, tokenizers, strict=True)]
        self._counts = [np.zeros(1, np.int64), np.zeros(1, np.int64)]  # rows of each length
        self._too_long: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])

    def add(self, texts: Sequence[list[str]], rows: NDArray[np.int64], where: Callable[[int], str]) -> None:
        """Encode the texts of both sides of some rows."""
        found = [
            encoder.encode(side, lambda i: where(int(rows[i])))
            for encoder, side in zip(self._encoders, texts, strict=True)
        ]
        kept = np.ones(len(rows), np.bool_)
        for side, (_, lengths) in enumerate(found):
            n_tokens = lengths - self._frames[side]
            counts = np.bincount(n_tokens, minlength=len(self._counts[side]))
            counts[: len(self._counts[side])] += self._counts[side]
            self._counts[side] = counts
            is_long = kept & (n_tokens > self._limits[side])
            self._too_long[side].extend(zip(rows[is_long].tolist(), n_tokens[is_long].tolist(), strict=True))
            kept &= ~is_long
        for sink, (ids, lengths) in zip(self._sinks, found, strict=True):
            sink.append(ids if kept.all() else ids[np.repeat(kept, lengths)], lengths[kept])

    def check_lengths(self, path: str) -> None:
        """Raise TableError when more than half of the rows are longer than a limit."""
        for side, counts, limit in zip(_SIDES, self._counts, self._limits, strict=True):
            n_rows, n_long = int(counts.sum()), int(counts[limit + 1 :].sum())
            if 2 * n_long > n_rows:
                larger = int(1.25 * np.quantile(np.repeat(np.arange(len(counts)), counts), 0.95)) + 1
                raise TableError(
                    f"more than half of the {side}s are longer than the limit",
                    where=path,
                    got=f"{n_long:,} of {n_rows:,} have more than {limit} tokens",
                    hint=f"--set data.max_{side}_length={larger} (and model.max_length, where positions are learned)",
                )

    def close(self) -> None:
        """Close the files, after an error too."""
        close_all(file for sink in self._sinks for file in sink.files)

    def finish(self) -> Encoded:
        source, target = (sink.finish() for sink in self._sinks)
        counts = source.counts(len(self._tokenizers[0])), target.counts(len(self._tokenizers[1]))
        return Encoded(Corpus(source, target), self._tokenizers, self._too_long, counts)


class _Sink:
    """The sequences of one side, in memory or in files."""

    def __init__(self, folder: Path | None, side: str, size: int) -> None:
        self._folder, self._side, self._size = folder, side, size
        self._blocks: list[tuple[NDArray[np.int32], NDArray[np.int64]]] = []
        self.files: list[ArrayFile] = []
        if folder is not None:
            self.files = [ArrayFile(folder / f"{side}.{name}", dtype) for name, dtype in _dtypes(size).items()]
        self._n_ids = 0

    def append(self, ids: NDArray[np.int32], lengths: NDArray[np.int64]) -> None:
        if not self.files:
            self._blocks.append((ids, lengths))
            return
        ends = lengths.cumsum()
        for file, values in zip(self.files, (ids, self._n_ids + ends - lengths, lengths), strict=True):
            file.append(values)
        self._n_ids += len(ids)

    def finish(self) -> Sequences:
        for file in self.files:
            file.close()
        if self._folder is not None:
            return _mapped_sequences(self._folder, self._side, self._size)
        none: tuple[Any, ...] = (np.empty(0, np.int32), np.empty(0, np.int64))
        ids, lengths = (np.concatenate(blocks) for blocks in zip(none, *self._blocks, strict=True))
        return Sequences.of(ids, lengths)


def _dtypes(size: int) -> dict[str, type[np.integer[Any]]]:
    """Return the type of each file of a side with a vocabulary of `size`."""
    return {"ids": np.uint16 if size <= 2**16 else np.int32, "id_starts": np.int64, "lengths": np.int32}


def _mapped_sequences(folder: Path, side: str, size: int) -> Sequences:
    return Sequences(*(mapped(folder / f"{side}.{name}", dtype) for name, dtype in _dtypes(size).items()))


# Large tables


def _from_cache(
    table: Table,
    pairs: StoredPairs,
    held: NDArray[np.int64],
    settings: Settings,
    given: Tokenizers | None,
    *,
    grow: bool,
) -> Encoded:
    """Return what `encode_training` does, in files of the cache."""
    parts = {
        "table": pairs.key,
        "held": hashlib.sha256(held.tobytes()).hexdigest(),
        "tokens": settings.tokens.model_dump(),
        "given": None if given is None else tokenizers_to_dict(*given),
        "grow": grow,
        "limits": [settings.max_source_tokens, settings.max_target_tokens],
    }
    key = key_of("tokens", parts)

    def write(folder: Path) -> dict[str, Any]:
        tokenizers = _tokenizers(table, held, settings, given, grow=grow)
        encoded = _encode_rows(table, held, tokenizers, settings, folder)
        with closing(ArrayFile(folder / "trained", np.uint64)) as file:
            for part in _trained_parts(table, held, encoded):
                file.append(part)
        counted = {"too_long": encoded.too_long, "counts": encoded.counts}
        return {"tokenizers": tokenizers_to_dict(*tokenizers)} | counted

    entry = cached(key, write)
    tokenizers = tokenizers_from_dict(entry.description["tokenizers"])
    if given is not None and [len(each) for each in given] == [len(each) for each in tokenizers]:
        tokenizers = given  # which grew by nothing
    source, target = (_mapped_sequences(entry.folder, *each) for each in zip(_SIDES, map(len, tokenizers), strict=True))
    by_source, by_target = ([(row, n) for row, n in side] for side in entry.description["too_long"])
    damaged = ("the ids in the cache were damaged, and were computed again",) * entry.was_damaged
    return Encoded(
        Corpus(source, target),
        tokenizers,
        (by_source, by_target),
        (entry.description["counts"][0], entry.description["counts"][1]),
        TrainedSources(mapped(entry.folder / "trained", np.uint64)),
        (*damaged, *_sample_notes(table, held, settings, given)),
    )


# Tokenizers


def _tokenizers(
    table: Table, held: NDArray[np.int64], settings: Settings, given: Tokenizers | None, *, grow: bool
) -> Tokenizers:
    if given is not None:
        return grow_both(given, _Others(table.pairs, held), settings.tokens) if grow else given
    n_rows = len(table.pairs) - len(held)
    if _is_sampled(n_rows, settings):
        rows = np.delete(np.arange(len(table.pairs), dtype=np.int32), held)[spread(n_rows, LEARNED_ROWS)]
        return learn_both([table.pairs[row] for row in rows.tolist()], settings.tokens, table.inputs)
    return learn_both(_Others(table.pairs, held), settings.tokens, table.inputs)


def _sample_notes(
    table: Table, held: NDArray[np.int64], settings: Settings, given: Tokenizers | None
) -> tuple[str, ...]:
    """Return a note if tokens are learned from a sample of rows."""
    n_rows = len(table.pairs) - len(held)
    if given is not None or not _is_sampled(n_rows, settings):
        return ()
    return (f"the tokens are learned from {LEARNED_ROWS:,} of {n_rows:,} rows, evenly spaced",)


def _is_sampled(n_rows: int, settings: Settings) -> bool:
    kinds = {settings.tokens.source.kind, settings.tokens.target.kind}
    return n_rows > LEARNED_ROWS and not kinds <= set(_COUNTED_KINDS)


@dataclass(frozen=True)
class _Others(Iterable[Pair]):
    """All pairs but some."""

    pairs: Sequence[Pair]
    without: NDArray[np.int64]

    def __iter__(self) -> Iterator[Pair]:
        without = set(self.without.tolist())
        return (pair for index, pair in enumerate(self.pairs) if index not in without)
