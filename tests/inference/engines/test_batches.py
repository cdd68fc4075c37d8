"""Jobs on every core: their order, their errors, and who stops asking."""

from __future__ import annotations

import threading
import time

import pytest

from glassformer.errors import TimeLimitError
from glassformer.inference.engines import batches
from glassformer.inference.engines.batches import on_every_core
from glassformer.inference.timelimit import check_time_limit, time_limit

each_way = pytest.mark.parametrize("needs_blas", [True, False])


@pytest.fixture(params=[1, 3])
def n_cores(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(batches, "cores", lambda: request.param)
    return int(request.param)


@each_way
def test_results_are_in_the_order_of_the_jobs(n_cores: int, needs_blas: bool) -> None:
    def work(job: list[int]) -> int:
        time.sleep(0.01 * (5 - job[0]))  # the last is done first
        return job[0] ** 2

    assert list(on_every_core(work, [[i] for i in range(6)], needs_blas=needs_blas)) == [0, 1, 4, 9, 16, 25]


def test_each_core_has_jobs_of_its_own(n_cores: int) -> None:
    """All wait for each other, which only works where all are there at once."""
    together = threading.Barrier(n_cores)

    def work(_job: list[int]) -> str:
        together.wait(timeout=600)
        return threading.current_thread().name

    assert len(set(on_every_core(work, [[0]] * 2 * n_cores))) == n_cores


@pytest.mark.parametrize(("n_jobs", "wrong"), [(1, 0), (50, 3)])
def test_the_error_of_a_job_is_raised_after_the_results_before_it(n_cores: int, n_jobs: int, wrong: int) -> None:
    def work(job: list[int]) -> int:
        if job == [wrong]:
            raise ValueError("a job is wrong")
        return job[0]

    results, found = on_every_core(work, [[i] for i in range(n_jobs)]), []
    with pytest.raises(ValueError, match="a job is wrong"):
        found.extend(results)
    assert found == [*range(wrong)]


@each_way
def test_who_stops_asking_stops_the_work(n_cores: int, needs_blas: bool) -> None:
    done: list[int] = []

    def work(job: list[int]) -> None:
        time.sleep(0.005)
        done.extend(job)

    results = on_every_core(work, [[i] for i in range(1000)], needs_blas=needs_blas)
    next(results)
    results.close()
    assert 1 <= len(done) < 500


def test_jobs_have_the_time_limit_of_their_caller(n_cores: int) -> None:
    with time_limit(-1), pytest.raises(TimeLimitError):
        list(on_every_core(lambda _job: check_time_limit(), [[0]] * 4))
