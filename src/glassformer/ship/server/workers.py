"""Several processes that answer on one socket: `glassformer serve --workers N`.

Each has its own models, queue and limits, and its part of the cores. One that dies is replaced; all end with the first.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, get_context, parent_process
from multiprocessing.context import SpawnProcess
from typing import Any

LOGGER = logging.getLogger("glassformer.ship.server")
METRICS = "PROMETHEUS_MULTIPROC_DIR"  # where the processes write their metrics, for prometheus_client
RESTART_SECONDS = 1.0


def run_workers(target: Callable[..., None], arguments: tuple[Any, ...], n_workers: int) -> None:
    """Run `target(*arguments)` in so many processes until SIGINT or SIGTERM, and wait until all have stopped."""
    stopping = threading.Event()
    handlers = {sign: signal.signal(sign, lambda *_: stopping.set()) for sign in (signal.SIGINT, signal.SIGTERM)}
    workers: list[SpawnProcess] = []
    try:
        with tempfile.TemporaryDirectory(prefix="glassformer-metrics-") as metrics:
            os.environ[METRICS] = metrics
            os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // n_workers)))
            workers += [_start(target, arguments) for _ in range(n_workers)]
            while not stopping.is_set():
                connection.wait([worker.sentinel for worker in workers], timeout=0.2)
                for number, worker in enumerate(workers):
                    if not (worker.is_alive() or stopping.is_set()):
                        workers[number] = _replace(worker, target, arguments)
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join()
    finally:
        os.environ.pop(METRICS, None)
        for sign, handler in handlers.items():
            signal.signal(sign, handler)


def _start(target: Callable[..., None], arguments: tuple[Any, ...]) -> SpawnProcess:
    worker = get_context("spawn").Process(target=_work, args=(target, arguments))
    worker.start()
    return worker


def _replace(dead: SpawnProcess, target: Callable[..., None], arguments: tuple[Any, ...]) -> SpawnProcess:
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(dead.pid)  # type: ignore[no-untyped-call]
    LOGGER.error("worker %s ended with exit code %s; another one is started", dead.pid, dead.exitcode)
    time.sleep(RESTART_SECONDS)
    return _start(target, arguments)


def _work(target: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    first = parent_process()
    assert first is not None

    def end_with_first() -> None:
        connection.wait([first.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_first, daemon=True).start()
    target(*arguments)
