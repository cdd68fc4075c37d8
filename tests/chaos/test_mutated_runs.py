"""Files of a run that were damaged: it resumes to the same weights, or an error names the file. The same for --init."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from glassformer.before.members import train
from glassformer.errors import GlassformerError
from tests.chaos.children import REFUSED, RIGHT, UNCHANGED, check, run_cases
from tests.chaos.conftest import PAIRS, SETTINGS, digest, one_thread
from tests.chaos.mutations import changed_header, damaged

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the memory of a child is read from /proc")
LONG = pytest.mark.slow


def mutate(file: Path, number: int) -> str:
    """Damage a file, in a way that depends on the number; return the way."""
    content, is_tensors = file.read_bytes(), file.suffix == ".safetensors"
    if number % 3 == 0 and is_tensors:
        way, content = changed_header(content, number // 3)
    else:
        way, content = damaged(content, number, any_file=not is_tensors)
    file.write_bytes(content)
    return way


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


@pytest.mark.parametrize("n_files", [20, pytest.param(300, marks=LONG)])
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
        way = "" if number == UNCHANGED else mutate(out / file, number)
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


@pytest.mark.parametrize("n_files", [20, pytest.param(300, marks=LONG)])
def test_a_run_begins_from_a_damaged_model_not_at_all_or_as_from_the_right_one(
    tmp_path: Path, interrupted: Path, n_files: int
) -> None:
    model, out = tmp_path / "model.safetensors", tmp_path / "run"
    overrides = {"training.steps": 2, "training.keep_snapshots": 0}

    def begin(number: int) -> str | None:
        shutil.copy(interrupted / "model.safetensors", model)
        way = "" if number == UNCHANGED else mutate(model, number)
        shutil.rmtree(out, ignore_errors=True)
        train(PAIRS, out=out, init=model, overrides=overrides, device="cpu").finish()
        return None if digest(out) == expected else f"{way}: other weights"

    with one_thread():
        train(PAIRS, out=out, init=interrupted, overrides=overrides, device="cpu").finish()
        expected = digest(out)
        counts = check(run_cases(begin, range(n_files)))
    assert counts[REFUSED] > n_files / 2
