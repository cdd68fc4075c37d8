"""Rows in chunks: large ones where all rows are there, small ones where rows come one by one.

Answers do not depend on the chunks. Large chunks are faster, because the batches of a search have equal lengths.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
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


def chunks(rows: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the rows in chunks that grow."""
    rows = iter(rows)
    return _growing(lambda size: list(islice(rows, size)))


def arriving_chunks(rows: Iterable[Item]) -> Iterator[list[Item]]:
    """Yield the rows of a stream as they come: what is there DELAY after the first row of a chunk, or a full chunk.

    A thread reads the rows; it waits when two of the largest chunks are there. An error of `rows` is raised after the
    rows before it.
    """
    arrived: Queue[tuple[Item] | BaseException] = Queue(2 * LARGEST)
    ended: list[BaseException] = []  # by an error of the rows, or by StopIteration

    def read() -> None:
        try:
            for row in rows:
                arrived.put((row,))
        except BaseException as error:  # it is raised where the rows are used
            arrived.put(error)
        else:
            arrived.put(StopIteration())

    def take(size: int) -> list[Item]:
        chunk: list[Item] = []
        deadline: float | None = None
        while not ended and len(chunk) < size:
            try:
                item = arrived.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
            except Empty:
                break
            deadline = deadline or time.monotonic() + DELAY
            if isinstance(item, BaseException):
                ended.append(item)
            else:
                chunk += item
        if not chunk and not isinstance(ended[0], StopIteration):
            raise ended[0]
        return chunk

    Thread(target=read, daemon=True).start()
    return _growing(take)


def _growing(take: Callable[[int], list[Item]]) -> Iterator[list[Item]]:
    """Yield chunks until one is empty; `take(size)` returns one of at most `size` rows."""
    size = FIRST
    while chunk := take(size):
        started = time.monotonic()
        yield chunk
        if len(chunk) == size and time.monotonic() - started < GROWS_BELOW:
            size = min(GROWTH * size, LARGEST)
