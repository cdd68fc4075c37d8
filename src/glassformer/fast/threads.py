"""Memory and threads of a CPU: these settings save a fifth of the time and most of the memory.

The memory allocator is configured on Linux with glibc alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

from glassformer.paper.settings import Settings

KEPT_BY_PYTORCH, KEPT_BY_ONEDNN, KEPT_IN_LARGE_STEPS = 64, 256, 64
"""Capacities of the caches of prepared matrix products; by default 1,024 each, of about 0.5 MB."""

LARGE_STEP = 2**18  # numbers in the output of a layer, for all tokens of a batch
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>

PART = 2**16  # minimum of the numbers in the output of a layer, for the tokens that a core computes by itself

WARM_UP = 4
"""Trials of a number of threads before its time counts: PyTorch prepares the matrix products of each shape."""
TRIAL_COST = 0.005
"""Share of the time for trials of the number of threads that was slower lately."""

Job = TypeVar("Job")
Result = TypeVar("Result")


def configure_memory(numbers: int = 0) -> None:
    """Keep freed memory for the next step, and limit the prepared products that PyTorch and oneDNN keep.

    Each new shape of a batch prepares its matrix products again. In small steps that is much of the time, so more of
    them are kept; in large ones (at least LARGE_STEP `numbers` in the output of a layer) they take too much memory.
    Memory that is returned to the operating system and allocated again costs a page fault for every 4 KiB. The
    environment variables LRU_CACHE_CAPACITY and ONEDNN_PRIMITIVE_CACHE_CAPACITY are not changed if they are set.
    """
    kept = KEPT_IN_LARGE_STEPS if numbers >= LARGE_STEP else KEPT_BY_ONEDNN
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(KEPT_BY_PYTORCH))
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(kept))
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        if not mallopt(M_MMAP_THRESHOLD, 2**30):
            mallopt(M_MMAP_THRESHOLD, 2**25)  # the maximum of glibc before 2.35
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


class OwnThreads:
    """Threads that compute whole jobs, each with one thread of OpenMP, so that the results are the same on any number.

    OpenMP's threads spin as they wait for each other, and stand still next to a busy program; these wait for a lock.
    Where another program takes a core, one thread may be faster than several. The time decides: `run` takes the
    number that was faster lately, and tries the other one when that has cost less than TRIAL_COST of the time.
    """

    def __init__(self) -> None:
        self.n_cores = torch.get_num_threads()
        self._seconds: dict[int, float] = {}  # number of threads -> time for a unit of work, lately
        self._trials = Counter[int]()
        self._allowance = 0.0

    def run(self, work: Callable[[Job], Result], jobs: Sequence[Job], size: float) -> list[Result]:
        """Return `work(job)` for every job, in order. `size` is how much work they are, in any unit.

        The threads are kept for the next call, because PyTorch prepares its matrix products in each thread anew; the
        caller is one of them.
        """
        n_threads = self._choose(min(self.n_cores, len(jobs)), size)
        waiting, results = iter(range(len(jobs))), dict[int, Result]()

        def take_jobs() -> None:
            for i in waiting:  # of which each thread takes the next
                results[i] = work(jobs[i])

        begun = time.perf_counter()
        with one_thread():
            others = [_pool(n_threads - 1).submit(take_jobs) for _ in range(n_threads - 1)]
            try:
                take_jobs()
            finally:
                wait(others)
        for other in others:
            other.result()
        self._learn(n_threads, (time.perf_counter() - begun) / size, size)
        return [results[i] for i in range(len(jobs))]

    def _choose(self, most: int, size: float) -> int:
        for n_threads in (most, 1):
            if self._trials[n_threads] < WARM_UP:
                return n_threads
        fast, slow = sorted((most, 1), key=self._seconds.__getitem__)
        if (self._seconds[slow] - self._seconds[fast]) * size > self._allowance:
            return fast
        self._allowance = 0.0
        return slow

    def _learn(self, n_threads: int, seconds: float, size: float) -> None:
        before = self._seconds[n_threads] if self._trials[n_threads] >= WARM_UP else seconds
        self._seconds[n_threads] = (before + seconds) / 2
        self._trials[n_threads] += 1
        self._allowance += TRIAL_COST * seconds * size


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, "glassformer", take_one_thread)


_before = dict[int, int]()  # a Python thread in `one_thread` -> the threads of OpenMP when no thread was in it


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of OpenMP; several Python threads may do so at the same time."""
    own = threading.get_ident()
    if own in _before:
        yield
        return
    _before[own] = [*_before.values(), torch.get_num_threads()][0]
    take_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(_before.pop(own))  # also for threads started later


def take_one_thread() -> None:
    """Use one thread for what this Python thread computes from now on, whatever other Python threads set."""
    torch.get_num_threads()  # the first call in a Python thread takes what was set last anywhere
    torch.set_num_threads(1)


def _use_one_thread() -> None:
    """A forked process has none of its parent's threads, and OpenMP would wait for them forever."""
    torch.set_num_threads(1)
    _pool.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread)


def has_own_threads(settings: Settings, device: torch.device) -> bool:
    """Whether an update is computed by threads of its own, with one thread of OpenMP each.

    Not on a GPU, nor where a model recomputes its layers.
    """
    return device.type == "cpu" and not settings.training.recompute


def batch_parts(settings: Settings, device: torch.device) -> int:
    """Return the number of parts of a batch that are computed at the same time: training.batch_parts, or the cores.

    Where an update has no threads of its own, a batch is computed as one.
    """
    training = settings.training
    if not has_own_threads(settings, device):
        return 1
    if training.batch_parts:
        return training.batch_parts
    return max(1, min(torch.get_num_threads(), training.batch_tokens * settings.model.d_model // PART))
