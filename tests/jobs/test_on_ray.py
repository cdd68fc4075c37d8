"""A job on Ray: the rows, answers and scores of one process, in order."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from glassformer.errors import RunError, TooLongError
from glassformer.jobs import on_ray
from glassformer.jobs.inputs import JobInput
from glassformer.jobs.job import Job, Workers, here
from glassformer.jobs.layout import OutputForm
from glassformer.jobs.on_ray import OnRay
from glassformer.jobs.output import StreamOutput
from glassformer.jobs.stream import SearchOptions
from glassformer.settings import DecodingSettings
from tests.jobs.conftest import TOO_LONG_TEXT, Shouting


class RayError(Exception):
    """A task whose process died too often."""


class StandIn:
    """What is used of Ray, in this process: a task runs when its answer is awaited, with copies of its arguments."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self) -> None:
        self.waiting, self.most, self.dies = set[int](), 0, False

    def is_initialized(self) -> bool:
        return True

    def put(self, value: Any) -> Any:
        return value

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}

    def remote(self, **_options: Any) -> Any:
        return lambda function: SimpleNamespace(remote=lambda *given: self.submit(function, pickle.dumps(given)))

    def submit(self, *task: Any) -> Any:
        self.waiting.add(id(task))
        self.most = max(self.most, len(self.waiting))
        return task

    def get(self, task: Any) -> Any:
        if not isinstance(task, tuple):  # what was put
            return task
        self.waiting.remove(id(task))
        if self.dies:
            raise RayError("it\nwas killed")
        function, given = task
        return pickle.loads(pickle.dumps(function(*pickle.loads(given))))

    def cancel(self, task: Any, *, force: bool) -> None:
        assert force
        self.waiting.discard(id(task))


@pytest.fixture
def ray(monkeypatch) -> StandIn:
    found = StandIn()
    monkeypatch.setattr(on_ray, "load_ray", lambda: found)
    monkeypatch.setattr(on_ray, "ROWS", 50)
    return found


def output_of(table: Path, workers: Workers) -> str:
    out, layout = io.BytesIO(), OutputForm("jsonl", full=True, kept=("id",))
    given, search = JobInput(str(table), "text", keep=("id",)), SearchOptions(DecodingSettings(), long="stop")
    try:
        with given.open() as opened:
            for _ in Job(given, workers, search, layout, StreamOutput(out)).run(opened):
                pass
    finally:
        table.with_suffix(".out").write_bytes(out.getvalue())
    return out.getvalue().decode()


@pytest.fixture
def table(tmp_path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("id,text\n" + "".join(f"{n},word {n}\n" for n in range(800)), encoding="utf-8")
    return path


def test_answers_and_scores_are_those_of_one_process_in_order(table, ray):
    found = output_of(table, OnRay(lambda _files: Shouting(), []))  # type: ignore[arg-type,return-value]
    assert found == output_of(table, here(Shouting()))  # type: ignore[arg-type]
    assert (ray.waiting, ray.most) == (set(), on_ray.TASKS * 3)


def test_rows_before_an_error_are_written_and_tasks_after_it_are_cancelled(table, ray):
    table.write_text(table.read_text().replace("word 600", TOO_LONG_TEXT))
    with pytest.raises(TooLongError):
        output_of(table, OnRay(lambda _files: Shouting(), []))  # type: ignore[arg-type,return-value]
    assert not ray.waiting
    written = [json.loads(line) for line in table.with_suffix(".out").read_text().splitlines()]
    assert [line["kept"]["id"] for line in written] == [str(n) for n in range(len(written))]
    assert 550 <= len(written) <= 600
    ray.dies = True
    with pytest.raises(RunError, match=r"the task of rows 1 to 50 failed") as caught:
        output_of(table, OnRay(lambda _files: Shouting(), []))  # type: ignore[arg-type,return-value]
    assert caught.value.got == "was killed"
