"""A tiny run that is trained in processes of its own, which may be killed."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer.data.datasets import dates
from glassformer.storage.modelfile import ModelFile
from glassformer.training.train import train
from tests import tiny

PAIRS = dates(60, seed=5)
SETTINGS = tiny.settings(
    model={"d_model": 16, "d_ff": 16},
    training={
        "batch_tokens": 200,
        "steps": 16,
        "validate_every": 4,
        "validate_rows": 4,
        "average_last": 3,
        "keep_snapshots": 3,
        "warmup_steps": 4,
        "precision": "float32",
    },
    decoding={"num_beams": 1, "max_new_tokens": 19},  # of the longest target, with <eos>
)
FAILED = 4  # status of a child whose work raised an error


def train_here(out: Path, *, from_start: bool) -> int:
    """Train in this process to the end, resuming what is there; return an exit status."""
    resume = not from_start and (out / "recipe.toml").exists()
    settings = None if resume else SETTINGS
    train(PAIRS, settings, out, resume=resume, overwrite=out.exists() and not resume, device="cpu").finish()
    return 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute with one thread, as a forked child does: no number depends on how many threads add it up."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def child(work: Callable[[], int]) -> Iterator[int]:
    """Do work in a forked process, which ends with its status or FAILED; yield its number."""
    number = os.fork()
    if number == 0:
        status = FAILED
        try:
            torch.set_num_threads(1)
            status = work()
        finally:
            os._exit(status)
    try:
        yield number
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)


def wait(number: int) -> int:
    """Wait for a process; return its exit status, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def digest(model: Path) -> str:
    """Return a digest of the weights of a model and of its members, every bit of them."""
    tensors = ModelFile.load(model).all_tensors
    whole = hashlib.sha256()
    for name in sorted(tensors):
        whole.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
    return whole.hexdigest()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """Digest of the weights of the run that nothing disturbed, and its seconds."""
    out, begun = tmp_path_factory.mktemp("undisturbed") / "run", time.perf_counter()
    with child(lambda: train_here(out, from_start=True)) as number:
        assert wait(number) == 0
    return digest(out), time.perf_counter() - begun
