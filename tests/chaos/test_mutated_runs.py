"""Files of a run that were damaged: it resumes to the same weights, or an error names the file."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from glassformer.errors import GlassformerError
from glassformer.training.train import train
from tests.chaos.children import REFUSED, RIGHT, check, run_cases
from tests.chaos.conftest import PAIRS, SETTINGS, digest, one_thread
from tests.chaos.mutations import mutated

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a child is limited by what /proc says")


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was left four steps before its end."""
    out = tmp_path_factory.mktemp("interrupted") / "run"
    with one_thread():
        run = train(PAIRS, SETTINGS, out, device="cpu")
        for event in run:
            if event.step == SETTINGS.training.steps - SETTINGS.training.validate_every:
                run.stop()
    return out


@pytest.mark.parametrize("n_files", [20, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.medium
def test_a_run_with_a_damaged_file_is_resumed_to_the_same_weights_or_names_it(
    tmp_path: Path, undisturbed: tuple[str, float], interrupted: Path, n_files: int
) -> None:
    files = sorted(file.relative_to(interrupted) for file in interrupted.rglob("*") if file.is_file())
    assert len(files) > 8

    def resume(number: int) -> str | None:
        out = tmp_path / str(number)
        shutil.copytree(interrupted, out)
        file = files[number % len(files)]
        way, content = mutated((out / file).read_bytes(), number, is_tensors=file.suffix == ".safetensors")
        (out / file).write_bytes(content)
        try:
            train(PAIRS, None, out, resume=True, device="cpu").finish()
        except GlassformerError as error:
            if str(out / file) in str(error) and error.hint:
                raise
            return f"{file}, {way}: an error that does not name it: {error}"
        return None if digest(out) == undisturbed[0] else f"{file}, {way}: other weights"

    with one_thread():
        counts = check(run_cases(resume, range(n_files)))
    assert counts[RIGHT]
    assert counts[REFUSED]
