"""Memory and threads of a CPU: these settings save a fifth of the time and most of the memory.

The memory allocator is configured on Linux with glibc alone.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

import torch

from glassformer.settings import Settings

KEPT_BY_PYTORCH, KEPT_BY_ONEDNN, KEPT_IN_LARGE_STEPS = 64, 256, 64
"""Capacities of the caches of prepared matrix products; by default 1,024 each, of about 0.5 MB."""

LARGE_STEP = 2**18  # numbers in the output of a layer, for all tokens of a batch
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of <malloc.h>

PART = 2**16  # minimum of the numbers in the output of a layer, for the tokens that a core computes by itself

Result = TypeVar("Result")


def configure_memory(numbers: int = 0) -> None:
    """Keep freed memory for the next step, and limit the prepared products that PyTorch and oneDNN keep.

    Each new shape of a batch prepares its matrix products again. In small steps that is much of the time, so more of
    them are kept; in large ones (at least LARGE_STEP `numbers` in the output of a layer) they take too much memory.
    Memory that is returned to the operating system and allocated again costs a page fault for every 4 KiB. The
    environment variables LRU_CACHE_CAPACITY and ONEDNN_PRIMITIVE_CACHE_CAPACITY are not changed if they are set.
    """
    n_products = KEPT_IN_LARGE_STEPS if numbers >= LARGE_STEP else KEPT_BY_ONEDNN
    os.environ.setdefault("LRU_CACHE_CAPACITY", str(KEPT_BY_PYTORCH))
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(n_products))
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        if not mallopt(M_MMAP_THRESHOLD, 2**30):
            mallopt(M_MMAP_THRESHOLD, 2**25)  # the maximum of glibc before 2.35
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def run_apart(work: Callable[[int], Result], n_jobs: int, n_threads: int) -> list[Result]:
    """Return `work(job)` for every job, in order, each with one thread of OpenMP: the same on any number of threads.

    OpenMP's threads spin as they wait for each other, and stand still next to a busy program; these wait for a lock.
    They are kept for the next call, because PyTorch prepares its matrix products in each thread again.
    """
    with one_thread():  # threads that are started later have all again
        jobs = [_pool(n_threads).submit(work, job) for job in range(n_jobs)]
        wait(jobs)  # also where one of them fails
    return [job.result() for job in jobs]


@cache
def _pool(n_threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, "glassformer", take_one_thread)


_before = dict[int, int]()  # a Python thread in `one_thread` -> the threads of OpenMP when no thread was in it


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread of OpenMP; several Python threads may do so at the same time."""
    thread = threading.get_ident()
    if thread in _before:
        yield
        return
    _before[thread] = [*_before.values(), torch.get_num_threads()][0]
    take_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(_before.pop(thread))  # also for threads started later


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


def batch_parts(settings: Settings, device: torch.device) -> int | None:
    """Return the number of parts of a batch that are computed at the same time: training.batch_parts, or the cores.

    None on a GPU, and where a model recomputes its layers: a batch is then computed as one, by all threads of OpenMP.
    """
    training = settings.training
    if device.type != "cpu" or training.recompute:
        return None
    if training.batch_parts:
        return training.batch_parts
    return max(1, min(torch.get_num_threads(), training.batch_tokens * settings.model.d_model // PART))
