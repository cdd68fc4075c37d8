"""A fault at any write of a run: afterwards the run resumes to the same weights, or an error names the file."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.errors import GlassformerError, ModelFileError, RunError, SettingsError
from glassformer.storage import container
from glassformer.storage.modelfile import ModelFile
from tests.chaos.conftest import digest, train_here

LONG = pytest.mark.slow


class Killed(BaseException):
    """The process ends here, without a word."""


def fault_at(moment: int, kind: str, patch: pytest.MonkeyPatch) -> list[int]:
    """Let the write of this number, from 0, go wrong; the list that is returned counts the writes."""
    count = [0]

    def replace(module: Any, name: str, half: Callable[..., None]) -> None:
        """Let a function do half of its work at that moment, or none."""
        real = getattr(module, name)

        def call(*arguments: Any, **options: Any) -> Any:
            count[0] += 1
            if count[0] - 1 != moment:
                return real(*arguments, **options)
            if kind in ("short", "torn"):
                half(real, *arguments, **options)
            raise Killed if kind == "torn" else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(module, name, call)

    def half_text(real: Callable[..., Any], path: Path, text: str, **options: Any) -> None:
        real(path, text[: len(text) // 2], **options)

    def half_file(real: Callable[..., Any], tensors: Any, path: Path, metadata: Any) -> None:
        real(tensors, path, metadata)
        os.truncate(path, path.stat().st_size // 2)

    def half_renamed(real: Callable[..., Any], path: Path, other: Path) -> None:
        if kind != "torn":
            return  # a rename that fails leaves the file of before
        if path.is_file():
            os.truncate(path, path.stat().st_size // 2)
        real(path, other)

    replace(container, "save_file", half_file)
    replace(Path, "write_text", half_text)
    replace(Path, "replace", half_renamed)
    replace(os, "fsync", lambda real, file: real(file))
    replace(os, "link", lambda *_, **__: None)
    return count


def attempt(out: Path, *, from_start: bool) -> GlassformerError | None:
    """Train; return the error that a user would read, and let any other error through."""
    try:
        train_here(out, from_start=from_start)
    except GlassformerError as error:
        return error
    except Killed:
        return RunError("killed", where=str(out), hint="resume")
    return None


@pytest.mark.parametrize(
    ("every", "kind"),
    [
        (47, "ENOSPC"),
        (53, "torn"),
        pytest.param(47, "short", marks=LONG),
        *(pytest.param(1, kind, marks=LONG) for kind in ("ENOSPC", "short", "torn")),
    ],
)
def test_after_a_fault_at_any_write_the_run_is_whole_or_the_error_names_the_file(
    tmp_path: Path, undisturbed: tuple[str, float], kind: str, every: int
) -> None:
    """Slow: every write, and one of the three faults; fast: an error at one write of 47, a torn file at one of 53."""
    torch.set_num_threads(1)
    expected, _ = undisturbed
    moment, n_writes = 0, 10**9
    while moment < n_writes:
        out = tmp_path / str(moment)
        with pytest.MonkeyPatch.context() as patch:
            count = fault_at(moment, kind, patch)
            error = attempt(out, from_start=True)
            n_writes = count[0] if error is None else 10**9
        if error is not None:
            check(error, out)
            if (model := out / "model.safetensors").exists():
                with suppress(*([ModelFileError] if kind == "torn" else [])):  # no fault gives a wrong model
                    ModelFile.load(model)
            again = attempt(out, from_start=False)
            if again is not None:  # only a file that was torn under its name cannot be mended
                assert kind == "torn"
                check(again, out)
                again = attempt(out, from_start=True)
            assert again is None
        assert digest(out / "model.safetensors") == expected
        moment += every
    assert n_writes > 40


def check(error: GlassformerError, out: Path) -> None:
    """The error says where and what to do."""
    assert isinstance(error, RunError | ModelFileError | SettingsError)
    assert str(out) in str(error)
    assert error.hint
