"""Contenders in turns: each has a process of its own for the whole run, and only one of them computes at a time.

So none meets what another left in the allocator, and all meet the same weather. The memory of a process is read from
outside while it works; what it needs beyond files that it maps (RssAnon) is its own.
"""

from __future__ import annotations

import multiprocessing
import re
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

Measured = dict[str, float]
Act = Callable[[int], Measured]

SAMPLE_SECONDS = 0.005


class Absent(Exception):  # noqa: N818  (nothing went wrong)
    """A contender cannot take part, and why."""


class Job(Protocol):
    """What a contender does. It is sent to the contender's process, so it holds names only."""

    def start(self) -> tuple[dict[str, Any], Act]:
        """Load and warm up. Facts for the record, and what is called with the number of each round."""


@dataclass
class Record:
    """What became of a contender: facts, one measurement a round, largest memory in MB (None where unknown)."""

    facts: dict[str, Any] = field(default_factory=dict)
    turns: list[Measured] = field(default_factory=list)
    memory_mb: float | None = None
    absent: str | None = None


def take_turns(jobs: Mapping[str, Job], rounds: int, report: Callable[[str], None]) -> dict[str, Record]:
    """All jobs side by side; every second round goes backwards, so that a drift meets all alike."""
    records = {name: Record() for name in jobs}
    seats: dict[str, _Seat] = {}
    try:
        for name, job in jobs.items():
            seats[name] = _Seat(job, records[name])
            report(f"{name}: {records[name].absent or 'ready'}")
        for number in range(rounds):
            for name in list(jobs)[:: -1 if number % 2 else 1]:
                seats[name].take_turn(number)
            report(f"round {number + 1} of {rounds}")
    finally:
        for seat in seats.values():
            seat.close()
    return records


class _Seat:
    """The process of one contender, and its record."""

    def __init__(self, job: Job, record: Record) -> None:
        context = multiprocessing.get_context("spawn")
        self.record = record
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        self.process.start()
        theirs.close()
        record.facts = self._answer() or {}

    def take_turn(self, number: int) -> None:
        if self.record.absent is None:
            self.connection.send(number)
            measured = self._answer()
            if measured is not None:
                self.record.turns.append(measured)

    def close(self) -> None:
        self.process.terminate()
        self.process.join()

    def _answer(self) -> Any:
        """What the process sends next; meanwhile its memory is watched. None when it left."""
        while not self.connection.poll(SAMPLE_SECONDS):
            megabytes = anonymous_megabytes(self.process.pid)
            if megabytes is not None:
                self.record.memory_mb = max(self.record.memory_mb or 0.0, megabytes)
        try:
            answer = self.connection.recv()
        except EOFError:
            answer = Absent("its process ended")
        if isinstance(answer, Absent):
            self.record.absent = str(answer)
            return None
        return answer


def _serve(connection: Connection, job: Job) -> None:
    warnings.simplefilter("ignore")
    try:
        facts, act = job.start()
        connection.send(facts)
        while True:
            connection.send(act(connection.recv()))
    except Absent as absent:
        connection.send(absent)
    except Exception as error:  # the others go on, and the table says why this one did not
        traceback.print_exc()
        connection.send(Absent(f"{type(error).__name__}: {error}".splitlines()[0]))


def anonymous_megabytes(pid: int | None) -> float | None:
    """Anonymous resident memory of a process, in MB of 10^6 bytes; None where the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(r"^RssAnon:\s+(\d+) kB", status, flags=re.MULTILINE)
    return int(found[1]) * 1024 / 1e6 if found else None
