"""Splits that cannot leak: rows of one source are never on two sides. Rows whose source was trained on are counted.

    hold_out(pairs, 0.1, 1000, seed)     the rows to train on, and those to validate on
    held_rows(hashes, 0.1, 1000, seed)   the second of these, from hashes of the sources alone
    split(pairs, 0.1, 0.1, seed)         the same for three parts, by source or by the groups of a column
    TrainedSources.of(sources)           the sources that a model was trained on, as hashes: 8 bytes for each

Sources are compared in NFC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from glassformer.data.pairs import Pair
from glassformer.errors import ModelFileError, TableError, UsageError
from glassformer.storage.container import read_tensors, write_tensors
from glassformer.text.inputs import Source, joined

Hashes = NDArray[np.uint64]

SOURCES_FORMAT = "glassformer-sources/1"
SOURCES_FILE = "sources.safetensors"
"""The name of the file in a run directory."""


def text_hash(source: Source) -> int:
    """Return a hash of 64 bits of a source or text in NFC: the same on every machine and in every version."""
    text = joined(source)
    text = text if text.isascii() else normalize("NFC", text)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def text_hashes(texts: Iterable[Source]) -> Hashes:
    """Return the hash of each text."""
    return np.fromiter(map(text_hash, texts), np.uint64)


def source_hashes(pairs: Sequence[Pair]) -> Hashes:
    """Return the hash of the source of each pair."""
    return text_hashes(pair.source for pair in pairs)


def hold_out(pairs: Sequence[Pair], fraction: float, max_rows: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the indices of the pairs to train on, and of the pairs to validate on. See `held_rows`."""
    held = held_rows(source_hashes(pairs), fraction, max_rows, seed)
    return np.delete(np.arange(len(pairs)), held).tolist(), held.tolist()


def held_rows(sources: Hashes, fraction: float, max_rows: int, seed: int) -> NDArray[np.int64]:
    """Return the indices of the rows to validate on, in order, from the hash of the source of each row.

    All rows of one source are on the same side, so that no validation source was trained on. Random sources are held
    out as long as their rows fit into `fraction` of all rows (at most `max_rows`, at least one). If none fits, the
    source with the fewest rows is held out. With a single source, or a fraction of 0, no row is held out.

    Two different texts have one hash with a probability of about n² / 2⁶⁵ among n texts: 3 in a million for ten
    million. They would be on the same side.
    """
    _, firsts, sizes = np.unique(sources, return_index=True, return_counts=True)
    if fraction == 0 or len(firsts) < 2:
        return np.empty(0, np.int64)
    in_order = np.argsort(firsts)  # of the first row of each source
    firsts, sizes = firsts[in_order], sizes[in_order]
    n_left = min(max_rows, max(1, round(fraction * len(sources))), len(sources) - 1)
    order = np.arange(len(firsts), dtype=np.int32)
    np.random.default_rng(seed).shuffle(order)
    smallest = int(sizes.min())
    groups: list[int] = []
    for group in order:
        if n_left < smallest:
            break
        if sizes[group] <= n_left:
            groups.append(int(group))
            n_left -= int(sizes[group])
    groups = groups or [int(sizes.argmin())]
    return np.flatnonzero(np.isin(sources, sources[firsts[groups]]))


def split(
    pairs: Sequence[Pair], valid: float, test: float, seed: int, groups: Sequence[str] | None = None
) -> dict[str, list[int]]:
    """Return the indices of the pairs to train on ("train"), to validate on ("valid") and to test on ("test").

    `valid` and `test` are fractions of all pairs below 1, or numbers of pairs; 0: no such part. Rows are held out as by
    `held_rows`, so no source is in two parts; with `groups`, the group of each pair, no group is either. Raises
    UsageError for other numbers and when no row would be left to train on, TableError for too few different sources.
    """
    sizes = {name: _size(name, value, len(pairs)) for name, value in (("test", test), ("valid", valid)) if value}
    if not sizes or sum(sizes.values()) >= len(pairs):
        got = " and ".join(f"{size:,} to {name}" for name, size in sizes.items())
        raise UsageError(
            "no row would be left to train on" if sizes else "there is no part to hold out",
            got=f"{got or 'none'}, of {len(pairs):,} rows",
            hint="--valid and --test are fractions below 1, or numbers of rows",
        )
    hashes = source_hashes(pairs) if groups is None else _connected(source_hashes(pairs), text_hashes(groups))
    left, parts = np.arange(len(pairs)), {}
    for name, size in sizes.items():
        held = held_rows(hashes[left], 1.0, size, seed)
        if not len(held):
            kind = "sources" if groups is None else "groups"
            raise TableError(
                f"the table has too few different {kind} to split it", expected=f"{len(sizes) + 1} or more"
            )
        parts[name] = left[held].tolist()
        left = np.delete(left, held)
    return {"train": left.tolist()} | {name: parts[name] for name in ("valid", "test") if name in parts}


def _connected(sources: Hashes, groups: Hashes) -> Hashes:
    """Return a number for each row, equal for rows of one source or one group, directly or through other rows."""
    sides = [np.unique(hashes, return_inverse=True)[1] for hashes in (sources, groups)]
    numbers, before = np.arange(len(sources)), None
    while before is None or (numbers != before).any():
        before = numbers
        for side in sides:
            smallest = np.full(len(sources), len(sources))
            np.minimum.at(smallest, side, numbers)
            numbers = smallest[side]
    return numbers.astype(np.uint64)


def _size(name: str, value: float, total: int) -> int:
    if not 0 < value < 2**53 or (value >= 1 and value != int(value)):
        raise UsageError(
            "this is not the size of a part",
            where=f"--{name}",
            got=f"{value:g}",
            expected="a fraction below 1, a number of rows, or 0 for none",
        )
    return int(value) if value >= 1 else max(1, round(value * total))


@dataclass(frozen=True)
class TrainedSources:
    """The sources that a model was trained on, as sorted hashes. `unknown` says why there may be others, or is empty.

    They are in a separate file in the run directory, 8 bytes for each; the model file has their digest only. A hash has
    64 bits: if ten million sources were trained on and a million others are looked up, one of these is taken for a
    trained one with a probability of one in two million.
    """

    hashes: Hashes
    unknown: str = ""

    @classmethod
    def of(cls, sources: Iterable[Source]) -> TrainedSources:
        """Return the hashes of these sources."""
        return cls(np.unique(text_hashes(sources)))

    @classmethod
    def none(cls, unknown: str) -> TrainedSources:
        """Return no sources, with the reason why the sources are not known."""
        return cls(np.empty(0, np.uint64), unknown)

    @classmethod
    def of_model(cls, model: Path | None, digest: str | None) -> TrainedSources:
        """Return the sources of the model at a path, whose record of its training data has this digest.

        The file is looked for next to the model and, for a checkpoint, next to its folder.
        """
        if model is None or digest is None:
            return cls.none("the model has no record of the sources that it was trained on")
        files = [folder / SOURCES_FILE for folder in (model.parent, model.parent.parent)]
        for file in filter(Path.is_file, files):
            try:
                trained = cls.load(file)
            except ModelFileError as error:
                return cls.none(f"{file} cannot be read: {error.what}")
            if trained.digest == digest:
                return trained
        return cls.none(f"the {SOURCES_FILE} of its run is not next to the model")

    @classmethod
    def load(cls, path: Path) -> TrainedSources:
        """Read the file of `save`. Raises ModelFileError."""
        tensors, parts = read_tensors(path, SOURCES_FORMAT)
        hashes, unknown = tensors.get("hashes"), parts.get("unknown")
        if tensors.keys() != {"hashes"} or hashes is None or hashes.dtype != np.uint64 or hashes.ndim != 1:
            raise ModelFileError("the file has no hashes of sources", where=str(path))
        if not isinstance(unknown, str) or not (hashes[1:] > hashes[:-1]).all():
            raise ModelFileError("the hashes of sources are not valid", where=str(path))
        return cls(hashes, unknown)

    def save(self, path: Path) -> None:
        """Write the file atomically. Raises RunError when it cannot be written."""
        write_tensors(path, SOURCES_FORMAT, {"hashes": self.hashes}, {"unknown": self.unknown})

    @property
    def digest(self) -> str:
        """SHA-256 of the hashes and of `unknown`."""
        digest = hashlib.sha256(np.ascontiguousarray(self.hashes, "<u8").data)
        digest.update(self.unknown.encode())
        return digest.hexdigest()

    def __or__(self, other: TrainedSources) -> TrainedSources:
        return TrainedSources(np.union1d(self.hashes, other.hashes), self.unknown or other.unknown)

    def contains(self, sources: Iterable[Source]) -> NDArray[np.bool_]:
        """Return whether each source was trained on."""
        hashes = text_hashes(sources)
        if not len(self.hashes):
            return np.zeros(len(hashes), dtype=bool)
        positions = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return self.hashes[positions] == hashes  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Overlap:
    """How many rows of a table have a source that was trained on. `table` is its path, or empty for held-out rows."""

    table: str
    rows: int
    total: int

    @classmethod
    def of(cls, trained: TrainedSources, table: str, pairs: Sequence[Pair]) -> Overlap:
        """Count the rows."""
        return cls(table, int(trained.contains(pair.source for pair in pairs).sum()), len(pairs))
