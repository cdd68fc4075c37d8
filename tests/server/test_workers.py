"""Several processes of a server on one socket."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from glassformer import Translator

TEXTS = ["1845-01-05", "1999-12-31"]
GUARD = 600  # seconds after which a test that waits gives up


class Serving(NamedTuple):
    """A server with two workers, its port, and what it says."""

    process: subprocess.Popen[bytes]
    port: int
    said: Path

    @property
    def workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if "spawn_main" in " ".join(child.cmdline())]

    def translate(self) -> list[list[object]]:
        body = json.dumps({"texts": TEXTS}).encode()
        url = f"http://127.0.0.1:{self.port}/api/translate"
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=GUARD) as answer:
            return [[one["text"], one["score"]] for one in json.load(answer)["translations"]]

    def answered(self) -> int:
        """The number of translations that all workers have answered, as /metrics has it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=GUARD) as answer:
            found = re.search(r'route="/api/translate",status="200"} (\d+)\.0\n', str(answer.read(), "utf-8"))
        assert found
        return int(found[1])


@contextlib.contextmanager
def started(model_path: Path, said: Path) -> Iterator[Serving]:
    command = [sys.executable, "-m", "glassformer", "serve", str(model_path), "--port", "0", "--workers", "2"]
    with said.open("wb") as stderr, subprocess.Popen(command, stderr=stderr) as process:
        end = time.monotonic() + GUARD
        while not (found := re.search(r":(\d+) ", said.read_text("utf-8"))):
            assert process.poll() is None, said.read_text("utf-8")
            assert time.monotonic() < end
            time.sleep(0.05)
        serving = Serving(process, int(found[1]), said)
        try:
            serving.translate()
            yield serving
        finally:
            for worker in serving.workers if process.poll() is None else []:
                worker.kill()
            process.kill()


@pytest.fixture(scope="module")
def servers(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Serving]]:
    """The server of the test before, or another one where that test ended it: three imports of torch for each."""
    with contextlib.ExitStack() as stack:
        found: list[Serving] = []

        def current() -> Serving:
            if not found or found[-1].process.poll() is not None:
                said = tmp_path_factory.mktemp("workers") / "said"
                found.append(stack.enter_context(started(model_path, said)))
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
    before = serving.answered()
    for _ in range(20):
        assert serving.translate() == expected
    assert serving.answered() == before + 20


def test_a_worker_that_dies_is_replaced_and_the_others_answer(serving):
    first = serving.workers[0]
    first.kill()
    eventually(lambda: f"worker {first.pid} ended" in serving.said.read_text("utf-8"))
    eventually(lambda: len(serving.workers) == 2)
    for _ in range(5):
        assert len(serving.translate()) == 2
    assert first.pid not in [worker.pid for worker in serving.workers]


@pytest.mark.parametrize("sign", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_all_workers_stop_with_the_server(serving, sign):
    """Slow: SIGINT, which one process is tested with in test_serve."""
    workers = serving.workers
    serving.process.send_signal(sign)
    assert serving.process.wait(GUARD) == 0
    said = [line for line in serving.said.read_text("utf-8").splitlines()[1:] if "another one is started" not in line]
    assert said == ["stopped"]
    assert not any(worker.is_running() for worker in workers)


def test_no_worker_outlives_a_server_that_is_killed(serving):
    workers = serving.workers
    serving.process.kill()
    eventually(lambda: not any(_runs(worker) for worker in workers))


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False
