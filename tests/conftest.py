"""What all tests share: shapes that are checked, the environment of a user, and the real data where it is there."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from unittest import mock

import hypothesis
import pytest

from tests.shapes import install

SHAPED_MODULES = (
    "glassformer.paper.search",
    "glassformer.inference.engines.compiled",
    "glassformer.inference.engines.numpy",
    "glassformer.inference.engines.numpy_cached",
    "glassformer.inference.engines.torch_cached",
    "glassformer.inference.engines.torch",
    "glassformer.fast",
    "glassformer.paper.model",
    "glassformer.paper.reference",
    "glassformer.training.objective",
)
install(SHAPED_MODULES)
os.environ.pop("PYTHONUNBUFFERED", None)  # commands that tests start buffer their output, as those of users do
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; the programs of tests inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # for the tests that import onnxruntime
hypothesis.settings.register_profile("thorough", deadline=None)  # of `make test-all` and `make chaos`
hypothesis.settings.register_profile("no timings", deadline=None, max_examples=40)
hypothesis.settings.load_profile("no timings")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: the garbage collector does not go through it again, and seldom through the rest."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_the_disk() -> Iterator[None]:
    """No test here cuts the power, and each of its thousands of files would wait for the disk for some milliseconds.

    A descriptor that is none is still an error.
    """
    with mock.patch("os.fsync", os.fstat):
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real data sets; a test that asks for them is marked `data` and skips where they are not."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GLASSFORMER_DATA", beside))
    if not folder.is_dir():
        pytest.skip("the real data sets are not here; $GLASSFORMER_DATA can say where they are")
    return folder


@pytest.fixture
def with_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A device has this number of bytes."""

    def give(n_bytes: float) -> None:
        monkeypatch.setattr("glassformer.inference.engines.memory.memory_of", lambda _device: int(n_bytes))

    return give
