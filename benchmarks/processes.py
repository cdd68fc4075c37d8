"""Two processes of one thread each, started by torchrun, against one process of two threads: training D and M.

    python -m benchmarks.processes [--tasks D,M] [--rounds N] [--precision float32]

Both are there for the whole run and compute in turns, every second round backwards, on the same batches. A process that
waits for its turn, or for the other one, takes no time of a core.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

import torch

from benchmarks.jobs import UPDATES_A_TURN, WARM_UPDATES, timed
from benchmarks.ours import OurTrainer
from benchmarks.tasks import TASKS, describe
from benchmarks.turns import Absent, Act, Measured, Record, take_turns
from glassformer.training.processes import Processes

ADDRESS = "GLASSFORMER_BENCHMARK"
CORES = 2
ONE, SEVERAL = f"1 process, {CORES} threads", f"{CORES} processes, 1 thread each"


def prepare(task_name: str, precision: str, processes: Processes) -> tuple[dict[str, Any], Act]:
    """Build the model and warm up; what is returned trains on the next batches."""
    task = TASKS[task_name]()
    trainer, batches = OurTrainer(task, "cpu", precision, processes), task.batches()

    def act(_round: int) -> Measured:
        turn = list(islice(batches, UPDATES_A_TURN))
        seconds = timed("cpu", lambda: [trainer.update(rows) for rows in turn])
        return {"seconds": seconds, "tokens": float(sum(map(task.n_target_tokens, turn))), "load": os.getloadavg()[0]}

    for rows in islice(batches, WARM_UPDATES):
        trainer.update(rows)
    return describe(task), act


@dataclass(frozen=True)
class OneProcess:
    """Training in one process with all threads."""

    task: str
    precision: str

    def start(self) -> tuple[dict[str, Any], Act]:
        torch.set_num_threads(CORES)
        return prepare(self.task, self.precision, Processes())


@dataclass(frozen=True)
class SeveralProcesses:
    """The same by torchrun. The first process takes orders from this one, and the others follow it."""

    task: str
    precision: str

    def start(self) -> tuple[dict[str, Any], Act]:
        address = str(Path(tempfile.mkdtemp()) / "orders")
        listener = Listener(address, "AF_UNIX")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(CORES)]
        command += ["-m", "benchmarks.processes", "--worker", "--tasks", self.task, "--precision", self.precision]
        # The first one ends when the connection does, and torchrun stops the others.
        subprocess.Popen(command, env=os.environ | {ADDRESS: address, "OMP_NUM_THREADS": "1"})
        connection = listener.accept()

        def act(number: int) -> Measured:
            connection.send(number)
            return answer(connection)

        return answer(connection), act


def answer(connection: Connection) -> Any:
    try:
        return connection.recv()
    except EOFError:
        raise Absent("its processes ended") from None


def work(task: str, precision: str) -> None:
    """Compute at each order that the first process gets, until its connection ends."""
    processes = Processes.join()
    connection = Client(os.environ[ADDRESS], "AF_UNIX") if processes.is_first else None
    facts, act = prepare(task, precision, processes)
    if connection:
        connection.send(facts)
    while True:
        number = -1
        if connection:
            try:
                number = connection.recv()
            except EOFError:
                number = -1
        number = processes.from_first(number)
        if number < 0:
            return
        measured = act(number)
        if connection:
            connection.send(measured)


def table_of(records: dict[str, Record]) -> list[str]:
    """The rows of the table: medians with minimum and maximum, and the ratio of the same rounds."""
    first = [turn["seconds"] for turn in records[ONE].turns]
    lines = []
    for name, record in records.items():
        if record.absent:
            lines.append(f"| {name} | {record.absent} | | | |")
            continue
        speeds = [turn["tokens"] / turn["seconds"] for turn in record.turns]
        steps = [1000 * turn["seconds"] / UPDATES_A_TURN for turn in record.turns]
        ratios = [one / turn["seconds"] for one, turn in zip(first, record.turns, strict=True)]
        load = statistics.median(turn["load"] for turn in record.turns)
        cells = (spread(speeds, ",.0f"), spread(steps, ",.0f"), spread(ratios, ".2f"), f"{load:.1f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} [{min(values):{form}}, {max(values):{form}}]"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.processes", description=__doc__)
    parser.add_argument("--tasks", default="D,M")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.tasks, given.precision)
        return
    for task in given.tasks.split(","):
        jobs = {ONE: OneProcess(task, given.precision), SEVERAL: SeveralProcesses(task, given.precision)}
        records = take_turns(jobs, given.rounds, lambda line: print(line, file=sys.stderr))
        print(f"\ntrain-{task}, {given.precision}, {given.rounds} rounds of {UPDATES_A_TURN} steps\n")
        print("| | target tokens/s | a step, ms | times | load |\n| --- | ---: | ---: | ---: | ---: |")
        print("\n".join(table_of(records)), flush=True)


if __name__ == "__main__":
    main()
