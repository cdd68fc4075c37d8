"""Jobs on every core: their order, their errors, the number of threads afterwards. Memory: what a user set stays."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator

import pytest
import torch

from glassformer.paper.kernels.cpu import (
    KEPT_BY_ONEDNN,
    KEPT_BY_PYTORCH,
    KEPT_IN_LARGE_STEPS,
    LARGE_STEP,
    M_MMAP_THRESHOLD,
    M_TRIM_THRESHOLD,
    WARM_UP,
    OwnThreads,
    configure_memory,
    on_every_core,
    split_batches,
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


def test_results_stand_in_the_order_of_the_jobs(n_cores: int) -> None:
    def work(job: int) -> int:
        time.sleep(0.01 * (5 - job))  # the last is done first
        return job * job

    assert list(on_every_core(work, range(6))) == [0, 1, 4, 9, 16, 25]


def test_each_core_works_at_jobs_of_its_own_with_one_thread(n_cores: int) -> None:
    """All wait for each other, which only works where all are there at once."""
    together = threading.Barrier(n_cores)

    def work(_job: int) -> tuple[str, int]:
        together.wait(timeout=600)
        return threading.current_thread().name, torch.get_num_threads()

    found = list(on_every_core(work, range(2 * n_cores)))
    assert len({name for name, _ in found}) == n_cores
    assert {threads for _, threads in found} == {1}


@pytest.mark.parametrize("jobs", [[], [7]])
def test_a_single_job_has_one_thread_too(n_cores: int, jobs: list[int]) -> None:
    found = list(on_every_core(lambda job: (job, threading.current_thread(), torch.get_num_threads()), jobs))
    assert found == [(job, threading.current_thread(), 1) for job in jobs]
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_cores, n_cores)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_job_keeps_one_thread_while_another_search_ends(n_cores: int, n_jobs: int) -> None:
    """A search that ends gives its threads back, also while another one is at work in another Python thread."""
    n_at_once = min(n_jobs, n_cores)
    begun, ended = threading.Barrier(n_at_once + 1), threading.Event()
    found: list[int] = []

    def work(job: int) -> int:
        if job < n_at_once:
            begun.wait(20)
            ended.wait(20)
        return torch.get_num_threads()

    search = threading.Thread(target=lambda: found.extend(on_every_core(work, range(n_jobs))))
    search.start()
    begun.wait(20)
    torch.set_num_threads(n_cores)
    ended.set()
    search.join(20)
    assert found == [1] * n_jobs


@pytest.mark.parametrize(
    ("sizes", "n", "least", "expected"),
    [
        ([8], 2, 4, [4, 4]),
        ([8], 2, 5, [8]),
        ([9], 4, 2, [2, 2, 2, 3]),
        ([3, 10], 3, 1, [3, 5, 5]),
        ([2, 3], 2, 1, [2, 3]),
        ([1], 5, 1, [1]),
        ([], 5, 1, []),
    ],
)
def test_large_batches_are_halved_until_each_core_has_one(
    sizes: list[int], n: int, least: int, expected: list[int]
) -> None:
    numbers = iter(range(100))
    batches = [[next(numbers) for _ in range(size)] for size in sizes]
    shared = split_batches(batches, n, least)
    assert sorted(map(len, shared)) == sorted(expected)
    assert [row for rows in shared for row in rows] == [row for rows in batches for row in rows]


@pytest.mark.parametrize(("n_jobs", "wrong"), [(1, 0), (50, 3)])
def test_the_error_of_a_job_is_raised_after_the_results_before_it(n_cores: int, n_jobs: int, wrong: int) -> None:
    def work(job: int) -> int:
        if job == wrong:
            raise ValueError("a job is wrong")
        return job

    results, found = on_every_core(work, range(n_jobs)), []
    with pytest.raises(ValueError, match="a job is wrong"):
        found.extend(results)
    assert found == [*range(wrong)]
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_cores, n_cores)


def test_who_stops_asking_stops_the_work(n_cores: int) -> None:
    done: list[int] = []

    def work(job: int) -> None:
        time.sleep(0.005)
        done.append(job)

    results = on_every_core(work, range(1000))
    next(results)
    results.close()
    assert 1 <= len(done) < 500
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_cores, n_cores)


# Memory


@pytest.fixture
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that what is set is undone
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("_no_variables")
def test_few_prepared_products_are_kept_but_as_many_as_a_user_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLES[0], "5")
    configure_memory()
    assert [os.environ[name] for name in VARIABLES] == ["5", str(KEPT_BY_ONEDNN)]


@pytest.mark.usefixtures("_no_variables")
def test_large_steps_keep_fewer_prepared_products() -> None:
    configure_memory(LARGE_STEP)
    assert [os.environ[name] for name in VARIABLES] == [str(KEPT_BY_PYTORCH), str(KEPT_IN_LARGE_STEPS)]


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


@pytest.mark.usefixtures("_no_variables")
def test_another_c_library_is_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    configure_memory()
    assert [os.environ[name] for name in VARIABLES] == [str(KEPT_BY_PYTORCH), str(KEPT_BY_ONEDNN)]


def test_own_threads_compute_each_job_with_one_thread_of_openmp(n_cores: int) -> None:
    threads, together = OwnThreads(), threading.Barrier(n_cores)

    def work(job: int) -> tuple[int, int, str]:
        together.wait(20)
        return job, torch.get_num_threads(), threading.current_thread().name

    found = threads.run(work, range(n_cores), 1.0)
    assert [each[:2] for each in found] == [(job, 1) for job in range(n_cores)]
    assert len({name for _, _, name in found}) == n_cores
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (n_cores, n_cores)


def test_the_number_of_threads_that_was_faster_lately_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone two threads take 1 s where one takes 2; beside another program they take 8; then they are alone again."""
    now, taken = [0.0], list[int]()
    monkeypatch.setattr("glassformer.paper.kernels.cpu.time.perf_counter", lambda: now[0])
    threads = OwnThreads()
    threads.n_cores, choose = 2, threads._choose
    monkeypatch.setattr(threads, "_choose", lambda *given: taken.append(choose(*given)) or taken[-1])

    def runs(number: int, seconds: dict[int, float]) -> list[int]:
        for _ in range(number):
            threads.run(lambda job: now.__setitem__(0, now[0] + job * seconds[taken[-1]]), [0, 1], 1.0)
        return taken[-number:]

    alone, beside = {1: 2.0, 2: 1.0}, {1: 2.0, 2: 8.0}
    assert runs(8, alone) == [2] * WARM_UP + [1] * WARM_UP
    assert runs(30, alone) == [2] * 30
    assert runs(30, beside)[3:].count(2) <= 1
    assert runs(1000, alone)[-1] == 2
