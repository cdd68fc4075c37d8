"""Chunks: large where all rows are there, at once where rows come one by one, and never another order."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from queue import Queue

import pytest

from glassformer.jobs import chunks as rows_together
from glassformer.jobs.chunks import FIRST, LARGEST, arriving_chunks, chunks


@pytest.mark.parametrize("group", [chunks, arriving_chunks])
@pytest.mark.parametrize("n_rows", [0, 1, FIRST, FIRST + 1, 3 * FIRST])
def test_chunks_hold_every_row_once_in_order(group, n_rows):
    found = list(group(range(n_rows)))
    assert [row for chunk in found for row in chunk] == list(range(n_rows))
    assert all(found)


def test_chunks_grow_while_they_take_little_time(monkeypatch):
    assert [len(chunk) for chunk in chunks(range(30_000))] == [256, 1024, 4096, 16384, 8240]
    assert max(len(chunk) for chunk in chunks(range(100_000))) == LARGEST
    monkeypatch.setattr(rows_together, "GROWS_BELOW", 0.0)
    assert {len(chunk) for chunk in chunks(range(10 * FIRST))} == {FIRST}


def test_chunks_take_no_more_of_an_endless_source_than_they_yield():
    source = itertools.count()
    first = next(chunks(source))
    assert (len(first), next(source)) == (FIRST, FIRST)


def test_a_row_that_arrives_alone_is_not_kept_waiting_for_others():
    arrived: Queue[int] = Queue()
    found = arriving_chunks(iter(arrived.get, None))
    for row in range(3):  # each is answered before the next one is there
        arrived.put(row)
        assert next(found) == [row]


def test_what_is_there_is_one_chunk(monkeypatch):
    ready = threading.Event()

    def rows() -> Iterator[int]:
        yield 0
        ready.wait()
        yield from range(1, 50)

    found = arriving_chunks(rows())
    assert next(found) == [0]
    monkeypatch.setattr(rows_together, "DELAY", 600)
    ready.set()
    assert next(found) == list(range(1, 50))


def test_an_error_of_a_stream_comes_after_the_rows_before_it(monkeypatch):
    monkeypatch.setattr(rows_together, "DELAY", 600)

    def rows() -> Iterator[int]:
        yield from range(3)
        raise ValueError("damaged")

    found = arriving_chunks(rows())
    assert next(found) == [0, 1, 2]
    with pytest.raises(ValueError, match="damaged"):
        next(found)
