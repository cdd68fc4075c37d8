"""Several processes train as one does: the same losses, checkpoints that move, errors before the first step."""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.datasets import dates
from glassformer.errors import DeviceError, RunError, UsageError
from glassformer.planning.plan import plan
from glassformer.runtime.processes import Processes
from glassformer.settings import Settings
from glassformer.training import Finished, Run, Saved
from glassformer.training.train import train
from glassformer.training.update import share
from tests.chaos.conftest import child, wait
from tests.tiny import CHARACTERS, SHAPE

PAIRS = dates(120, seed=5)
SETTINGS = {
    "tokens": CHARACTERS,
    "model": SHAPE | {"dropout": 0.0, "tied_embeddings": "target"},
    "training": {
        "batch_tokens": 300,
        "steps": 20,
        "validate_every": 10,
        "validate_rows": 6,
        "precision": "float32",
        "schedule": "constant",
        "learning_rate": 1e-3,
        "warmup_steps": 0,
        "keep_snapshots": 1,
        "average_last": 2,
    },
}

N_LOSSES = 12


def losses_of(out: Path) -> list[float]:
    """The loss of each update, in nats per token, computed in float64."""
    run = Run(plan(PAIRS, out, overrides=Settings(**SETTINGS)), "cpu")
    run.model.double()
    updates = (run.update(batches) for batches in run.updater.batches())
    return [float(sums.smoothed) / sums.n_tokens for sums in islice(updates, N_LOSSES)]


def work(out: Path) -> dict[str, object]:
    """All that one of the processes does; return what it found."""
    found: dict[str, object] = {}
    processes = Processes.join()
    found["losses"] = losses_of(out / "steps")
    run = train(PAIRS, Settings(**SETTINGS), out / "run", device="cpu")
    for event in run:
        if isinstance(event, Saved) and event.step == 10:
            break
    del run
    processes.gather(None)
    *_, last = train(PAIRS, Settings(**SETTINGS), out / "run", device="cpu")  # which goes on after a restart
    found |= {"value": last.value, "is finished": isinstance(last, Finished)}
    rows = [*PAIRS[:7], ("other", "row"), *PAIRS[8:]] if processes.rank == 1 else PAIRS
    with pytest.raises(RunError) as raised:
        train(rows, Settings(**SETTINGS), out / "never", device="cpu")
    found |= {"error": str(raised.value), "is told": raised.value.is_told, "exists": (out / "never").exists()}
    processes.gather(None)
    return found


@contextlib.contextmanager
def forked(rank: int, port: int, out: Path) -> Iterator[int]:
    """A process with the environment that torchrun gives; what it found is in a file."""

    def write() -> int:
        torch.set_num_threads(1)
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_RESTART_COUNT": "1"}
        os.environ |= address | {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
        try:
            (out / f"found-{rank}.json").write_text(json.dumps(work(out)))
        except BaseException:
            traceback.print_exc()
            raise
        return 0

    with child(write) as number:
        yield number


def free_port() -> int:
    """A port outside of the range from which the system gives one to each server that asks for any."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, object]], Path]:
    """What two processes found, and where. They are forked: a start of each takes longer than all they do."""
    out, port = tmp_path_factory.mktemp("processes"), free_port()
    with forked(0, port, out) as first, forked(1, port, out) as second:
        assert [wait(first), wait(second)] == [0, 0]
    return [json.loads((out / f"found-{rank}.json").read_text()) for rank in (0, 1)], out


def test_two_processes_have_the_losses_of_one(found, tmp_path):
    expected = losses_of(tmp_path / "alone")
    for rank in (0, 1):
        assert found[0][rank]["losses"] == pytest.approx(expected, abs=1e-6)
    assert expected[-1] < expected[0]


def test_a_run_of_two_processes_is_resumed_after_a_restart_has_one_model_and_one_history_and_continues_alone(found):
    results, out = found
    assert results[0]["value"] == results[1]["value"]
    assert results[0]["is finished"] is results[1]["is finished"] is True
    events = [json.loads(line) for line in (out / "run" / "history.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "validated"] == [10, 20]
    assert [event["event"] for event in events].count("finished") == 1
    *_, last = Run(plan(PAIRS, out / "run", resume=True, overrides={"training.steps": 22}), "cpu")
    assert last.step == 22


def test_processes_with_different_rows_are_told_apart_before_the_first_step(found):
    (first, second), _ = found
    assert "the processes of the run have different rows" in first["error"]
    assert "rank 1" in first["error"]
    assert not first["is told"]
    assert second["is told"]
    assert not first["exists"]


@pytest.mark.parametrize(
    "environment",
    [
        {"WORLD_SIZE": "2"},
        {"WORLD_SIZE": "two", "RANK": "0"},
        {"WORLD_SIZE": "1", "RANK": "1"},
        {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": ""},
    ],
)
def test_an_incomplete_environment_names_the_command(monkeypatch, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match="the environment of torchrun is incomplete or not valid") as raised:
        Processes.join()
    assert "torchrun --nproc-per-node" in str(raised.value)


def test_processes_that_do_not_answer_are_an_error(monkeypatch):
    monkeypatch.setattr("torch.distributed.all_reduce", lambda _tensor: (_ for _ in ()).throw(RuntimeError("gone")))
    with pytest.raises(RunError, match="the other processes of the run do not answer"):
        Processes(1, 2).sum_(torch.ones(2))


def test_every_row_of_a_batch_has_one_process_and_one_without_rows_helps():
    rows = np.arange(7)
    shares = [share(rows, rank, 3) for rank in range(3)]
    assert sorted(np.concatenate([share for share, _ in shares])) == list(rows)
    assert share(rows[:2], 2, 3)[1] == 0.0


def test_more_processes_than_gpus_are_refused(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    gpus = [Processes(rank, 3, rank).own_device(torch.device("cuda")) for rank in range(2)]
    assert gpus == [torch.device("cuda:0"), torch.device("cuda:1")]
    with pytest.raises(DeviceError, match="each process needs a GPU of its own") as raised:
        Processes(2, 3, 2).own_device(torch.device("cuda"))
    assert raised.value.expected == "at most 2"
