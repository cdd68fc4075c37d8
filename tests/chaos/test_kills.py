"""A run that is killed at any moment, the writing of a checkpoint included, is resumed to the same weights."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.conftest import STOPPED, child, digest, train_here, wait

LONG = pytest.mark.slow
SECONDS_TO_STOP = 5.0  # of a processor: other programs may have it meanwhile


def computed_by(number: int) -> float:
    """Return the seconds that a process has computed; 0 where the system does not say."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def computed_by_children() -> float:
    """Return the seconds that the children of this process that have ended had computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize("n_kills", [3, pytest.param(100, marks=LONG)])
def test_a_killed_run_ends_with_the_weights_of_the_undisturbed_one(
    tmp_path: Path, undisturbed: tuple[str, float], n_kills: int
) -> None:
    expected, seconds = undisturbed
    moments, killed, finished, n_run = random.Random(n_kills), 0, 0, 0
    while killed < n_kills or not finished:
        out = tmp_path / str(n_run)
        with child(lambda out=out: train_here(out, from_start=False)) as number:
            if killed < n_kills:
                time.sleep(moments.uniform(0.0, seconds))
                os.kill(number, signal.SIGKILL)
            status = wait(number)
        if status == -signal.SIGKILL:
            killed += 1
        else:
            assert status == 0
            assert digest(out) == expected
            finished, n_run = finished + 1, n_run + 1


@pytest.mark.parametrize("n_signals", [1, pytest.param(20, marks=LONG)])
def test_a_terminated_run_stops_soon_and_ends_with_the_same_weights(
    tmp_path: Path, undisturbed: tuple[str, float], n_signals: int
) -> None:
    expected, seconds = undisturbed
    moments, stopped, n_run = random.Random(n_signals), 0, 0
    while stopped < n_signals:
        out = tmp_path / str(n_run)
        with child(lambda out=out: train_here(out, from_start=False)) as number:
            while not out.with_suffix(".listens").exists():
                time.sleep(0.005)
            out.with_suffix(".listens").unlink()
            time.sleep(moments.uniform(0.0, seconds / 2))
            before = computed_by_children() + computed_by(number)
            os.kill(number, signal.SIGTERM)
            status = wait(number)
            assert computed_by_children() - before < SECONDS_TO_STOP
        assert status in (0, STOPPED)
        stopped += status == STOPPED
        if status == 0:
            assert digest(out) == expected
            n_run += 1
    out = tmp_path / str(n_run)
    if out.exists():
        with child(lambda: train_here(out, from_start=False)) as number:
            assert wait(number) == 0
        assert digest(out) == expected
