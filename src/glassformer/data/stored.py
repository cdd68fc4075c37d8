r"""Pairs in files that are mapped into memory, for tables that are larger than memory.

Each side is one file of UTF-8 texts, each followed by NUL (which no kept text contains), and one of the positions at
which they start. `rows` and `hashes` are those of `Table.rows` and `splits.text_hash` of the sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from glassformer.data.cache import ArrayFile, close_all, mapped
from glassformer.data.splits import Hashes, text_hashes
from glassformer.data.tables import Pair, fingerprint_parts

BLOCK_ROWS = 2**14
"""Rows that are decoded at once when all are iterated over."""

_SIDES = ("source", "target")


class PackedPairs(NamedTuple):
    """Pairs as they are in the files: their rows, the texts of each side, their part of the fingerprint, the hashes."""

    rows: NDArray[np.int64]
    texts: tuple[bytes, bytes]
    fingerprinted: bytes
    hashes: Hashes

    @classmethod
    def of(cls, rows: Sequence[int], pairs: Sequence[Pair]) -> PackedPairs:
        """Pack pairs, and the row of each."""
        sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
        texts = tuple("".join(f"{text}\0" for text in side).encode() for side in (sources, targets))
        parts = b"".join(fingerprint_parts(pairs))
        return cls(np.array(rows, np.int64), (texts[0], texts[1]), parts, text_hashes(sources))


class PairsWriter:
    """Writes pairs into a folder. As a context it closes its files, after an error too."""

    def __init__(self, folder: Path) -> None:
        self.n_pairs = 0
        self._digest = hashlib.sha256()
        self._rows, self._hashes = ArrayFile(folder / "rows", np.int64), ArrayFile(folder / "hashes", np.uint64)
        self._texts = [ArrayFile(folder / f"{side}.texts", np.uint8) for side in _SIDES]
        self._starts = [ArrayFile(folder / f"{side}.starts", np.int64) for side in _SIDES]
        self._sizes = [0, 0]
        for file in self._starts:
            file.append([0])

    def append(self, packed: PackedPairs) -> None:
        """Write the next pairs."""
        self.n_pairs += len(packed.rows)
        self._digest.update(packed.fingerprinted)
        self._rows.append(packed.rows)
        self._hashes.append(packed.hashes)
        for side, texts in enumerate(packed.texts):
            written = np.frombuffer(texts, np.uint8)
            self._texts[side].append(written)
            self._starts[side].append(np.flatnonzero(written == 0) + 1 + self._sizes[side])
            self._sizes[side] += len(texts)

    def finish(self) -> str:
        """Finish the files; return the fingerprint of the pairs."""
        for file in self._files:
            file.close()
        return self._digest.hexdigest()

    @property
    def _files(self) -> tuple[ArrayFile, ...]:
        return (self._rows, self._hashes, *self._texts, *self._starts)

    def __enter__(self) -> PairsWriter:
        return self

    def __exit__(self, *_error: object) -> None:
        close_all(self._files)


class StoredPairs(Sequence[Pair]):
    """The pairs of a folder. `key` is that of their entry in the cache, `fingerprint` that of `tables.fingerprint`."""

    def __init__(self, folder: Path, key: str, fingerprint: str) -> None:
        self.key, self.fingerprint = key, fingerprint
        self.source_hashes: Hashes = mapped(folder / "hashes", np.uint64)
        self._texts = [mapped(folder / f"{side}.texts", np.uint8) for side in _SIDES]
        self._starts = [mapped(folder / f"{side}.starts", np.int64) for side in _SIDES]

    def __len__(self) -> int:
        return len(self.source_hashes)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return list(map(Pair, *(self.texts(side, start, stop) for side in (0, 1))))
            return [self[i] for i in range(start, stop, step)]
        index = range(len(self))[index]
        source, target = (self.texts(side, index, index + 1)[0] for side in (0, 1))
        return Pair(source, target)

    def __iter__(self) -> Iterator[Pair]:
        for start in range(0, len(self), BLOCK_ROWS):
            yield from self[start : start + BLOCK_ROWS]

    def texts(self, side: int, start: int, stop: int) -> list[str]:
        """Return the texts of consecutive pairs; side 0 is the source, 1 the target."""
        starts = self._starts[side]
        if start >= stop:
            return []
        return self._texts[side][starts[start] : starts[stop]].tobytes().decode().split("\0")[:-1]  # type: ignore[no-any-return]


def source_hashes(pairs: Sequence[Pair]) -> Hashes:
    """Return the hash of the source of each pair."""
    return pairs.source_hashes if isinstance(pairs, StoredPairs) else text_hashes(pair.source for pair in pairs)


class StoredInts(Sequence[int]):
    """Integers in a file, as Python's."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        return self._values[index].tolist()  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[int]:
        for start in range(0, len(self), BLOCK_ROWS):
            yield from self[start : start + BLOCK_ROWS]
