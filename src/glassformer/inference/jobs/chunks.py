"""Rows in chunks: large ones where all rows are there, small ones where rows come one by one.

Answers do not depend on the chunks. Large chunks are faster, because the batches of a search have equal lengths.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import Empty, Queue
from threading import Thread
from typing import TypeVar

FIRST, LARGEST = 256, 16_384
"""Rows in the first chunk and in the largest."""

GROWTH = 4
GROWS_BELOW = 8.0
"""Seconds: while a chunk takes less, the next one is GROWTH times larger, so that no chunk takes much over a minute."""

DELAY = 0.05
"""Seconds that the first row of a chunk waits for others."""

Item = TypeVar("Item")


class _Size:
    """The size of the next chunk."""

    def __init__(self) -> None:
        self.rows = FIRST
        self._started = time.monotonic()

    def start(self) -> None:
        self._started = time.monotonic()

    def finish(self, n_rows: int) -> None:
        if n_rows >= self.rows:
            self.rows = next_size(self.rows, time.monotonic() - self._started)


def next_size(size: int, seconds: float) -> int:
    """Return the size of the chunk after one of `size` rows that took `seconds`."""
    return min(GROWTH * size, LARGEST) if seconds < GROWS_BELOW else size


def chunks(rows: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the rows in chunks that grow."""
    rows, size = iter(rows), _Size()
    while chunk := list(islice(rows, size.rows)):
        size.start()
        yield chunk
        size.finish(len(chunk))


def arriving_chunks(rows: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the rows of a stream as they come: what is there DELAY after the first row of a chunk, or a full chunk.

    A thread reads the rows; it waits when two of the largest chunks are there. An error of `rows` is raised after the
    rows before it.
    """
    arrived: Queue[Item | _End] = Queue(2 * LARGEST)
    Thread(target=_read, args=(rows, arrived), daemon=True).start()
    size = _Size()
    while True:
        item = arrived.get()
        chunk: list[Item] = []
        deadline = time.monotonic() + DELAY
        while not isinstance(item, _End):
            chunk.append(item)
            if len(chunk) >= size.rows:
                break
            try:
                item = arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                break
        if chunk:
            size.start()
            yield chunk
            size.finish(len(chunk))
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return


class _End:
    """The end of a stream, and the error that ended it, if any."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def _read(rows: Iterable[Item], arrived: Queue[Item | _End]) -> None:
    try:
        for row in rows:
            arrived.put(row)
    except BaseException as error:  # it is raised where the rows are used
        arrived.put(_End(error))
    else:
        arrived.put(_End())
