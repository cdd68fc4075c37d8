r"""Arrays and pairs in files that are mapped into memory, for large tables, which may be larger than memory.

The files have no name, so that nothing is left of them when the process ends, however it does. Each side of the pairs
is one file of UTF-8 texts, each followed by NUL (which no kept text contains), and one of the positions at which they
start.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np

from glassformer.data.pairs import Pair, fingerprint_parts
from glassformer.data.splits import text_hashes
from glassformer.errors import RunError

FOLDER_VARIABLE = "GLASSFORMER_CACHE"
ON_DISK = Path("/var/tmp")
"""Where Unix has large temporary files: its /tmp is in memory on some systems."""

BLOCK_ROWS = 2**14
"""Rows that are encoded, or decoded, at once when all are iterated over."""


def folder_of_files() -> Path:
    """Return the folder of the files: that of the environment variable, or the one for large temporary files."""
    chosen = os.environ.get(FOLDER_VARIABLE) or (ON_DISK if ON_DISK.is_dir() else tempfile.gettempdir())
    return Path(chosen).expanduser()


@contextmanager
def _write_errors() -> Iterator[None]:
    """Raise RunError for the errors of the operating system inside the context."""
    try:
        yield
    except OSError as error:
        raise RunError(
            "cannot write the files of a large table",
            where=str(folder_of_files()),
            got=error.strerror or str(error),
            hint=f"free some space, or set {FOLDER_VARIABLE} to a folder that can be written; "
            "it takes about five times the size of a table with short texts",
        ) from None


class GrowingArray:
    """An array that is made in parts: in memory or, if it is `stored`, in a file that is mapped when it is whole.

    Raises RunError when the disk is full.
    """

    def __init__(self, dtype: Any, *, stored: bool) -> None:
        self._dtype, self._length = np.dtype(dtype), 0
        self._parts = [np.empty(0, dtype)]
        self._file: Any = None
        if stored:
            with _write_errors():
                folder_of_files().mkdir(parents=True, exist_ok=True)
                self._file = tempfile.TemporaryFile(dir=folder_of_files())  # noqa: SIM115, `close` closes it

    def __len__(self) -> int:
        return self._length

    def append(self, values: Any) -> None:
        """Append values of an array."""
        part = np.ascontiguousarray(values, self._dtype)
        self._length += len(part)
        if self._file is None:
            self._parts.append(part)
            return
        with _write_errors():
            self._file.write(part.data)

    def finish(self) -> Any:
        """Return the array, after which none can be appended. The pages of a file are read when they are used."""
        if self._file is None or not self._length:
            return np.concatenate(self._parts)
        with _write_errors():
            self._file.flush()
            return np.memmap(self._file, self._dtype, mode="r")

    def close(self) -> None:
        """Close the file, after an error too; what is mapped stays."""
        if self._file is not None:
            with _write_errors():
                self._file.close()


class StoredPairs(Sequence[Pair]):
    """Pairs in files, the `rows` of each, the hashes of their sources, and their fingerprint."""

    def __init__(self, kept: Iterable[tuple[int, Pair]]) -> None:
        """Write pairs, each with its row. Raises RunError when the disk is full."""
        kept, digest = iter(kept), hashlib.sha256()
        with ExitStack() as stack:

            def growing(dtype: Any) -> GrowingArray:
                return stack.enter_context(closing(GrowingArray(dtype, stored=True)))

            numbers, hashes = growing(np.int64), growing(np.uint64)
            sides = [(growing(np.uint8), growing(np.int64)) for _ in range(2)]  # texts, and where each begins
            for _, starts in sides:
                starts.append([0])
            while block := list(islice(kept, BLOCK_ROWS)):
                rows, pairs = zip(*block, strict=True)
                numbers.append(rows)
                hashes.append(text_hashes(pair.source for pair in pairs))
                digest.update(b"".join(fingerprint_parts(pairs)))
                for (texts, starts), side in zip(sides, zip(*pairs, strict=True), strict=True):
                    written = np.frombuffer("".join(f"{text}\0" for text in side).encode(), np.uint8)
                    starts.append(np.flatnonzero(written == 0) + 1 + len(texts))
                    texts.append(written)
            self.rows: Sequence[int] = memoryview(numbers.finish())  # whose items are Python's integers
            self.source_hashes = hashes.finish()
            self._texts, self._starts = zip(
                *((texts.finish(), starts.finish()) for texts, starts in sides), strict=True
            )
        self.fingerprint = digest.hexdigest()

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
