"""Many cases in forked children: what ends a child, or keeps it longer than any case takes, has the case's number."""

from __future__ import annotations

import json
import os
import resource
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from glassformer.errors import GlassformerError

SECONDS = 60  # of a processor for one case, most of which take milliseconds
SECONDS_IN_ALL = 900  # for a case that waits forever; other programs may have the processors meanwhile
TIME_LIMITS = (signal.SIGPROF, signal.SIGALRM)
MORE_MEMORY = 2 * 2**30  # bytes that a child may map in addition: what is above is an error, not a full machine
RIGHT, REFUSED, WRONG = "right", "refused", "wrong"


class Outcome(NamedTuple):
    """How a case ended: RIGHT, REFUSED with the error, or WRONG with a description."""

    number: int
    kind: str
    text: str


def run_cases(work: Callable[[int], str | None], numbers: Sequence[int]) -> list[Outcome]:
    """Do work with each number in forked children, and return how each ended.

    Work returns what is wrong, or None. A GlassformerError is a refusal; any other exception, a signal and a time
    limit are wrong. A child that ends is followed by another one, for the cases that are left.
    """
    found: list[Outcome] = []
    while len(found) < len(numbers):
        reading, writing = os.pipe()
        number = os.fork()
        if number == 0:
            os.close(reading)
            _child(work, numbers[len(found) :], writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as lines:
            found += [Outcome(*json.loads(line)) for line in lines]
        status = os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])
        if len(found) < len(numbers):
            why = "it took too long" if -status in TIME_LIMITS else f"the child ended with {status}"
            found.append(Outcome(numbers[len(found)], WRONG, why))
    return found


def _child(work: Callable[[int], str | None], numbers: Sequence[int], writing: int) -> None:
    try:
        torch.set_num_threads(1)
        for limit in TIME_LIMITS:
            signal.signal(limit, signal.SIG_DFL)
        mapped = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MORE_MEMORY,) * 2)
        for number in numbers:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            signal.alarm(SECONDS_IN_ALL)
            os.write(writing, (json.dumps([number, *_outcome(work, number)]) + "\n").encode())
    finally:
        os._exit(0)


def _outcome(work: Callable[[int], str | None], number: int) -> tuple[str, str]:
    try:
        wrong = work(number)
        return (RIGHT, "") if wrong is None else (WRONG, wrong)
    except GlassformerError as error:
        return REFUSED, str(error)
    except BaseException:  # what else comes out of it is what the test looks for
        return WRONG, traceback.format_exc()


def check(outcomes: Sequence[Outcome]) -> Counter[str]:
    """Raise AssertionError when a case is wrong; return how many were refused, and how many were right."""
    wrong = [f"case {one.number}: {one.text}" for one in outcomes if one.kind == WRONG]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(outcomes)} cases are wrong, of which the first:", *wrong[:5]])
    return Counter(one.kind for one in outcomes)
