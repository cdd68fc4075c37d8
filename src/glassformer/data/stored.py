r"""Pairs in files that are mapped into memory, for tables that are larger than memory.

Each side is one file of UTF-8 texts, each followed by NUL (which no kept text contains), and one of the positions at
which they start. `rows` and `hashes` are those of `Table.rows` and `splits.text_hash` of the sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np

from glassformer.data.cache import GrowingArray, mapped
from glassformer.data.pairs import Pair, fingerprint_parts
from glassformer.data.splits import text_hashes

BLOCK_ROWS = 2**14
"""Rows that are encoded, or decoded, at once when all are iterated over."""

_SIDES = ("source", "target")
_DTYPES: dict[str, type[np.integer[Any]]] = {
    "rows": np.int64,
    "hashes": np.uint64,
    **{f"{side}.texts": np.uint8 for side in _SIDES},
    **{f"{side}.starts": np.int64 for side in _SIDES},
}
"""The type of each file."""


def write_pairs(folder: Path, kept: Iterable[tuple[int, Pair]]) -> str:
    """Write pairs, each with its row, into a folder; return their fingerprint."""
    kept, digest = iter(kept), hashlib.sha256()
    with ExitStack() as stack:
        files = {name: stack.enter_context(closing(GrowingArray(_DTYPES[name], folder / name))) for name in _DTYPES}
        for side in _SIDES:
            files[f"{side}.starts"].append([0])
        while block := list(islice(kept, BLOCK_ROWS)):
            rows, pairs = zip(*block, strict=True)
            files["rows"].append(rows)
            files["hashes"].append(text_hashes(pair.source for pair in pairs))
            digest.update(b"".join(fingerprint_parts(pairs)))
            for side, texts in zip(_SIDES, zip(*pairs, strict=True), strict=True):
                written = np.frombuffer("".join(f"{text}\0" for text in texts).encode(), np.uint8)
                files[f"{side}.starts"].append(np.flatnonzero(written == 0) + 1 + len(files[f"{side}.texts"]))
                files[f"{side}.texts"].append(written)
    return digest.hexdigest()


class StoredPairs(Sequence[Pair]):
    """The pairs of a folder, and the row of each.

    `key` is that of their entry in the cache, `fingerprint` that of `pairs.fingerprint`.
    """

    def __init__(self, folder: Path, key: str, fingerprint: str) -> None:
        self.key, self.fingerprint = key, fingerprint
        arrays = {name: mapped(folder / name, dtype) for name, dtype in _DTYPES.items()}
        self.rows: Sequence[int] = memoryview(arrays["rows"])  # whose items are Python's integers
        self.source_hashes = arrays["hashes"]
        self._texts = [arrays[f"{side}.texts"] for side in _SIDES]
        self._starts = [arrays[f"{side}.starts"] for side in _SIDES]

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
                return list(map(Pair, *(self._block(side, start, stop) for side in (0, 1))))
            return [self[i] for i in range(start, stop, step)]
        index = range(len(self))[index]
        return self[index : index + 1][0]

    def __iter__(self) -> Iterator[Pair]:
        for start in range(0, len(self), BLOCK_ROWS):
            yield from self[start : start + BLOCK_ROWS]

    def _block(self, side: int, start: int, stop: int) -> list[str]:
        """Return the texts of consecutive pairs; side 0 is the source, 1 the target."""
        starts = self._starts[side]
        if start >= stop:
            return []
        return self._texts[side][starts[start] : starts[stop]].tobytes().decode().split("\0")[:-1]  # type: ignore[no-any-return]
