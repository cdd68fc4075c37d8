"""Several processes of a server on one socket."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from glassformer import Translator
from tests.ship.server.serving import GUARD, Running, commanded, read_answer

TEXTS = ["1845-01-05", "1999-12-31"]


@dataclasses.dataclass
class Serving:
    """A server with two workers, and the number of its translations."""

    running: Running
    n_answers: int = 0

    @property
    def workers(self) -> list[psutil.Process]:
        assert self.running.process.pid is not None
        return workers_of(self.running.process.pid)

    def said(self) -> str:
        return self.running.said.read_text("utf-8")

    def translate(self) -> list[list[object]]:
        with self.running.post("/api/translate", {"texts": TEXTS}) as opened:
            status, answer = read_answer(opened)
        assert status == 200
        self.n_answers += 1
        return [[one["text"], one["score"]] for one in answer["translations"]]

    def n_counted(self) -> int:
        """The number of translations of all workers, as /metrics has it."""
        found = re.search(r'route="/api/translate",status="200"} (\d+)\.0\n', self.running.text("/metrics"))
        return int(found[1]) if found else 0


def workers_of(number: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(number).children() if "spawn_main" in " ".join(child.cmdline())]


@contextlib.contextmanager
def started(model_path: Path) -> Iterator[Serving]:
    with commanded("serve", model_path, "--port", "0", "--workers", "2") as running:
        serving = Serving(running)
        try:
            serving.translate()
            yield serving
        finally:
            for worker in serving.workers if running.process.is_alive() else []:
                worker.kill()


@pytest.fixture(scope="module")
def servers(model_path: Path) -> Iterator[Callable[[], Serving]]:
    """The server of the test before, or another one where that test ended it: an import of torch for each worker."""
    with contextlib.ExitStack() as stack:
        found: list[Serving] = []

        def current() -> Serving:
            if not found or not found[-1].running.process.is_alive():
                found.append(stack.enter_context(started(model_path)))
            return found[-1]

        yield current


@pytest.fixture
def serving(servers: Callable[[], Serving]) -> Serving:
    return servers()


def eventually(is_true: object) -> None:
    end = time.monotonic() + GUARD
    while not is_true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_every_worker_gives_the_answers_of_translate_and_their_metrics_are_summed(serving, model_path):
    expected = [[answer.text, answer.score] for answer in Translator.load(model_path).translate(TEXTS)]
    assert len(serving.workers) == 2
    for _ in range(20):
        assert serving.translate() == expected
    assert serving.n_answers > 20
    eventually(lambda: serving.n_counted() == serving.n_answers)  # a request is counted after its answer was sent


def test_a_worker_that_dies_is_replaced_and_the_others_answer(serving):
    eventually(lambda: serving.n_counted() == serving.n_answers)
    first = serving.workers[0]
    first.kill()
    eventually(lambda: f"worker {first.pid} ended" in serving.said())
    eventually(lambda: len(serving.workers) == 2)
    for _ in range(5):
        assert len(serving.translate()) == 2
    assert first.pid not in [worker.pid for worker in serving.workers]


@pytest.mark.parametrize("sign", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_all_workers_stop_with_the_server(serving, sign):
    """Slow: SIGINT, which one process is tested with in test_serve."""
    workers = serving.workers
    serving.running.send_signal(sign)
    assert serving.running.wait() == 0
    said = [line for line in serving.said().splitlines()[1:] if "another one is started" not in line]
    assert said == ["stopped"]
    assert not any(worker.is_running() for worker in workers)


SLEEPING = """
from glassformer.ship.server.workers import run_workers
run_workers(exec, ("import time; print('sleeps', flush=True); time.sleep(600)",), 2)
"""


def test_no_worker_outlives_a_server_that_is_killed():
    """Workers that only sleep: those above end at the same signal."""
    with subprocess.Popen([sys.executable, "-c", SLEEPING], stdout=subprocess.PIPE) as first:
        try:
            assert first.stdout is not None
            assert [first.stdout.readline() for _ in range(2)] == [b"sleeps\n"] * 2
            workers = workers_of(first.pid)
            assert len(workers) == 2
        finally:
            first.kill()
    eventually(lambda: not any(_runs(worker) for worker in workers))


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
