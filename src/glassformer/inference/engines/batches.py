"""Batches of texts of similar lengths, and the cores that compute them."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

BATCH_POSITIONS = 6144  # maximum of source positions times hypotheses in a batch of a search


def padded_length(length: int, n_positions: int | None = None) -> int:
    """Return `length` rounded up, by at most a sixteenth, and to at most the number of learned positions."""
    multiple = 1 + length // 16
    padded = -(-length // multiple) * multiple
    return max(length, min(padded, n_positions or padded))


def plan_equal_lengths(lengths: Sequence[int], width: int) -> list[list[int]]:
    """Return batches of row numbers: rows of one padded length, at most BATCH_POSITIONS of positions times `width`.

    The longest padded length is first; in a batch lengths rise, so that its last row is its longest.
    """
    by_length: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        by_length.setdefault(padded_length(length), []).append(row)
    batches = []
    for padded in sorted(by_length, reverse=True):
        rows = sorted(by_length[padded], key=lambda row: (lengths[row], row))
        size = max(1, BATCH_POSITIONS // (padded * width))
        batches += [rows[start : start + size] for start in range(0, len(rows), size)]
    return batches


def cores() -> int:
    """Return the number of cores to use: `OMP_NUM_THREADS`, by default all; at most what this process may use."""
    try:
        available = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        available = os.cpu_count() or 1
    setting = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return min(available, int(setting)) if setting.isdecimal() and int(setting) else available


@functools.cache
def _blas() -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController  # which looks at every library that is loaded

    return ThreadpoolController().select(user_api="blas")


class _OneThread:
    """One thread of BLAS while there is a search. It is a setting of the process: the last search restores it.

    threadpoolctl ignores all threads but the one that set OpenBLAS first, as long as that lives: it is released here.
    """

    def __init__(self) -> None:
        self._searches, self._lock = 0, threading.RLock()  # a search may end where another one is collected as garbage

    def __enter__(self) -> None:
        with self._lock:
            if not self._searches:
                self._limit = _blas().limit(limits=1)
            self._searches += 1

    def __exit__(self, *_error: object) -> None:
        with self._lock:
            self._searches -= 1
            if not self._searches:
                from threadpoolctl import OpenBLASController

                OpenBLASController.clear_controlling_thread(force=True)  # another thread may have begun
                self._limit.restore_original_limits()
                OpenBLASController.clear_controlling_thread()


ONE_THREAD = _OneThread()
"""`with ONE_THREAD`: for products of small matrices, where threads would mostly wait for each other."""


def on_every_core(work: Any, jobs: Sequence[Sequence[int]], *, needs_blas: bool = True) -> Iterator[Any]:
    """Yield `work(job)` for every job, in order; each core computes its own jobs, with one thread of BLAS.

    A job runs in a copy of the caller's context, so that its time limit holds there too.
    """
    with ONE_THREAD if needs_blas else contextlib.nullcontext():
        if min(cores(), len(jobs)) < 2:
            yield from map(work, jobs)
            return
        from concurrent.futures import ThreadPoolExecutor  # here, because few texts need none

        pool = ThreadPoolExecutor(cores())
        try:
            contexts = [copy_context() for _ in jobs]  # a context is entered by one thread at a time
            yield from pool.map(lambda context, job: context.run(work, job), contexts, jobs)
        finally:
            pool.shutdown(cancel_futures=True)
