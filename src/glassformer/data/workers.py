"""Computation in several processes, in order: `ordered(function, arguments)` yields the result of each call.

The processes are programs of their own and not forks: they have none of the memory and the threads of this one, and the
program that calls does not have to guard its main module.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO

MAX_WORKERS = 8
_WAITING = 2  # calls of each worker that are begun before their results are asked for

_Call = tuple[Callable[..., Any], tuple[Any, ...]]


def ordered(
    function: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], n_workers: int | None = None
) -> Iterator[Any]:
    """Yield `function(*each)` for each of the arguments, in order; computed by `n_workers` processes, or one a core.

    With one worker, and where no process can be started, everything is computed in this one. The function is one of a
    module; it, arguments and results are pickled. Errors are those of the function.
    """
    n_workers = min(MAX_WORKERS, n_cores()) if n_workers is None else n_workers
    if n_workers < 2 or not sys.executable:
        yield from (function(*each) for each in arguments)
        return
    workers = _Workers()
    waiting: deque[Future[Any]] = deque()
    executor = ThreadPoolExecutor(n_workers)
    try:
        for each in arguments:
            waiting.append(executor.submit(workers.call, function, each))
            if len(waiting) > _WAITING * n_workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        workers.stop()
        executor.shutdown(wait=True, cancel_futures=True)


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Workers:
    """One process for each thread that calls."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        self._local = threading.local()
        self._stopped = False

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return the result of a call in the process of this thread; where that fails, of the same call in this one."""
        process = getattr(self._local, "process", None) or self._start()
        with contextlib.suppress(OSError, EOFError, pickle.PickleError):
            if process is not None:
                pickle.dump((function, arguments), process.stdin, pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                succeeded, result = pickle.load(process.stdout)
                if succeeded:
                    return result
        return None if self._stopped else function(*arguments)

    def _start(self) -> Any:
        program = f"import sys; sys.path[:] = {sys.path!r}; from glassformer.data.workers import serve; serve()"
        one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | one_thread,
            )
        except OSError:
            return None
        self._processes.append(process)
        self._local.process = process
        return process

    def stop(self) -> None:
        """End all processes."""
        self._stopped = True
        for process in self._processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    stream.close()  # type: ignore[union-attr]


def serve() -> None:
    """Answer calls on standard input until it ends: the main program of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asks decides when to end
    calls: BinaryIO = os.fdopen(os.dup(0), "rb")
    answers: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints is taken for an answer
    with contextlib.suppress(EOFError, BrokenPipeError, pickle.UnpicklingError):  # truncated: the caller was killed
        while True:
            function, arguments = pickle.load(calls)
            try:
                answer = True, function(*arguments)
            except Exception:
                answer = False, None  # the caller computes it again, and has the error
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()
