"""The rows of a job as tasks of Ray, which puts them on the machines of a cluster and repeats tasks that die."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from glassformer.errors import GlassformerError, MissingExtraError, RunError
from glassformer.inference.translator import Translator
from glassformer.jobs.answers import JobAnswer
from glassformer.jobs.inputs import JobRow
from glassformer.jobs.job import Answered, Chunks, OnCount, answer
from glassformer.jobs.stream import SearchOptions
from glassformer.storage.modelfile import ModelFile

ROWS = 1024
"""The maximum number of rows in a task."""

RETRIES = 3
"""How often a task is repeated when its process or machine dies."""

TASKS = 2
"""Tasks that are computed or wait, for each CPU or GPU of the cluster: how far the rows are read ahead."""


@dataclass(frozen=True)
class OnRay:
    """Translates rows on the cluster of $RAY_ADDRESS, or on this machine; the model files are sent there.

    `load` creates their translator in each process, which has a CPU and `n_gpus`.
    """

    load: Callable[[Sequence[ModelFile]], Translator]
    files: Sequence[ModelFile]
    n_gpus: int = 0

    def __call__(self, chunks: Chunks, search: SearchOptions, on_count: OnCount = None) -> Answered:
        """Yield the rows and their answers, in order.

        Raises RunError when a task died too often, and the first error of a task.
        """
        ray = load_ray()
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
        worker, files = _Worker(self.load), [ray.put(self.files)]  # in a list, so that only a new process reads it

        def translate_rows(rows: list[JobRow], search: SearchOptions, files: list[Any]) -> _Found:
            return worker.translate(rows, search, files)

        task = ray.remote(max_retries=RETRIES, max_calls=0, num_cpus=1, num_gpus=self.n_gpus)(translate_rows)
        parts = (rows[start : start + ROWS] for rows in chunks for start in range(0, len(rows), ROWS))
        tasks = ((rows, task.remote(rows, search, files)) for rows in parts)
        running: deque[tuple[list[JobRow], Any]] = deque()
        n_tasks = TASKS * max(1, int(ray.cluster_resources().get("GPU" if self.n_gpus else "CPU", 1)))
        try:
            while True:
                running.extend(islice(tasks, n_tasks - len(running)))
                if not running:
                    return
                rows, answers = running[0][0], _result(ray, *running[0])
                running.popleft()
                if on_count is not None:
                    on_count(len(rows))
                yield rows, answers
        finally:
            for _, task in running:
                ray.cancel(task, force=True)


_Found = list[JobAnswer] | GlassformerError


class _Worker:
    """Translates in a process of Ray. It is sent there once, and loads its models there once."""

    def __init__(self, load: Callable[[Sequence[ModelFile]], Translator]) -> None:
        self._load = load
        self._translator: Translator | None = None

    def translate(self, rows: list[JobRow], search: SearchOptions, files: list[Any]) -> _Found:
        try:
            if self._translator is None:
                self._translator = self._load(load_ray().get(files[0]))
            return answer(self._translator, rows, search)
        except GlassformerError as error:
            return error


def _result(ray: Any, rows: Sequence[JobRow], task: Any) -> list[JobAnswer]:
    """Wait for the answers of a task. Raises its error."""
    try:
        answers: _Found = ray.get(task)
    except ray.exceptions.RayError as error:
        raise RunError(
            f"the task of rows {rows[0].number:,} to {rows[-1].number:,} failed",
            got=str(error).strip().splitlines()[-1],
            hint="--resume continues, where the output is a file",
        ) from None
    if isinstance(answers, GlassformerError):
        raise answers
    return answers


def load_ray() -> Any:
    """Return the library. Raises MissingExtraError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its makers
    try:
        import ray
    except ImportError:
        raise MissingExtraError("translating on Ray", package="ray", extra="ray") from None
    return ray
