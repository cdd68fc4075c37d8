"""Memory: what a user set stays. Threads: each job has one, and all are set afterwards."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from glassformer.fast.threads import (
    KEPT_BY_ONEDNN,
    KEPT_BY_PYTORCH,
    KEPT_IN_LARGE_STEPS,
    LARGE_STEP,
    M_MMAP_THRESHOLD,
    M_TRIM_THRESHOLD,
    configure_memory,
    one_thread,
    run_apart,
)

VARIABLES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")


@pytest.fixture(params=[1, 3])
def n_cores(request: pytest.FixtureRequest) -> Iterator[int]:
    """As many threads as PyTorch is given."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def threads_of_a_new_thread() -> int:
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return seen[0]


# Memory


@pytest.fixture
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what is set is undone
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_no_variables")
@pytest.mark.parametrize(("numbers", "capacity"), [(0, KEPT_BY_ONEDNN), (LARGE_STEP, KEPT_IN_LARGE_STEPS)])
@pytest.mark.parametrize("by_user", ["", "5"])
def test_few_prepared_products_are_kept_but_as_many_as_a_user_wants(
    numbers: int, capacity: int, by_user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())  # another C library than glibc is not configured
    if by_user:
        monkeypatch.setenv(VARIABLES[0], by_user)
    configure_memory(numbers)
    assert [os.environ[name] for name in VARIABLES] == [by_user or str(KEPT_BY_PYTORCH), str(capacity)]


@pytest.mark.usefixtures("_no_variables")
@pytest.mark.parametrize("most", [2**40, 2**25], ids=["glibc 2.35", "glibc before"])
def test_glibc_keeps_as_much_freed_memory_as_it_will(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[int, int] = {}

    class Libc:
        def mallopt(self, parameter: int, value: int) -> int:
            if parameter == M_MMAP_THRESHOLD and value > most:
                return 0
            kept[parameter] = value
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda _name: Libc())
    configure_memory()
    assert kept == {M_MMAP_THRESHOLD: min(2**30, most), M_TRIM_THRESHOLD: 2**31 - 1}


def test_own_threads_compute_each_job_with_one_thread_of_openmp(n_cores: int) -> None:
    together = threading.Barrier(n_cores)

    def work(job: int) -> tuple[int, int, str]:
        together.wait(20)
        return job, torch.get_num_threads(), threading.current_thread().name

    found = run_apart(work, n_cores, n_cores)
    assert [each[:2] for each in found] == [(job, 1) for job in range(n_cores)]
    assert len({name for _, _, name in found}) == n_cores
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_cores, n_cores)


def test_two_that_compute_with_one_thread_at_the_same_time_leave_all_threads(n_cores: int) -> None:
    both, first_is_done = threading.Barrier(2), threading.Event()

    def compute(is_first: bool) -> int:
        with one_thread(), one_thread():
            both.wait(20)
            if not is_first:
                first_is_done.wait(20)
            n_threads = torch.get_num_threads()
        first_is_done.set()
        return n_threads

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(compute, (True, False))) == [1, 1]
    assert threads_of_a_new_thread() == n_cores
