"""Contenders in turns: each has a process of its own for the whole run, and only one of them computes at a time.

So none meets what another left in the allocator, and what slows a round slows all.
"""

from __future__ import annotations

import multiprocessing
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Protocol

Measured = dict[str, float]
Act = Callable[[], Measured]


class Absent(Exception):  # noqa: N818  (nothing went wrong)
    """A contender cannot take part, and why."""


class Job(Protocol):
    """What a contender does. It is sent to the contender's process, so it holds names only."""

    def start(self) -> tuple[dict[str, Any], Act]:
        """Load and warm up. Facts for the record, and what is called in each round."""


@dataclass
class Record:
    """The result of a contender: facts, and one measurement a round, or why it is absent."""

    facts: dict[str, Any] = field(default_factory=dict)
    turns: list[Measured] = field(default_factory=list)
    absent: str | None = None

    def of(self, name: str) -> list[float]:
        """One measurement of each round."""
        return [turn[name] for turn in self.turns]


def take_turns(jobs: Mapping[str, Job], rounds: int) -> dict[str, Record]:
    """All jobs in parallel, one computing at a time; every second round goes backwards, so that a drift meets all."""
    records: dict[str, Record] = {}
    seats: dict[str, _Seat] = {}
    try:
        for name, job in jobs.items():
            seats[name] = _Seat(job)
            records[name] = seats[name].record
            print(f"{name}: {records[name].absent or 'ready'}", file=sys.stderr)
        for number in range(rounds):
            for name in list(jobs)[:: -1 if number % 2 else 1]:
                seats[name].take_turn()
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    finally:
        for seat in seats.values():
            seat.process.terminate()
            seat.process.join()
    return records


class _Seat:
    """The process of one contender, and its record."""

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.record = Record()
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        self.process.start()
        theirs.close()
        self.record.facts = self._answer() or {}

    def take_turn(self) -> None:
        if self.record.absent is None:
            self.connection.send(None)
            if measured := self._answer():
                self.record.turns.append(measured)

    def _answer(self) -> Any:
        """What the process sends next; None when it is absent."""
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
            connection.recv()
            connection.send(act())
    except Absent as absent:
        connection.send(absent)
    except Exception as error:  # the others continue, and the table says why this one did not
        traceback.print_exc()
        connection.send(Absent(f"{type(error).__name__}: {error}".splitlines()[0]))
