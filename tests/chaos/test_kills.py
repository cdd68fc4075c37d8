"""A run that is killed at any moment, the writing of a checkpoint included, is resumed to the same weights."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.chaos.conftest import child, digest, train_here, wait

LONG = pytest.mark.slow


@pytest.mark.parametrize("n_kills", [pytest.param(3, marks=pytest.mark.medium), pytest.param(100, marks=LONG)])
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
