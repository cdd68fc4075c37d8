"""What a run is resumed from, and what is compared: tables, settings, versions, processes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

from glassformer.errors import ModelFileError, RunError, SettingsError
from glassformer.planning.notices import notices_of
from glassformer.planning.plan import _in_common, plan
from glassformer.settings import Settings
from glassformer.storage.checkpoints import RESUME_FORMAT, Position, SavedRun, load_resume, read_resume, save_resume
from glassformer.storage.container import read_tensors, write_tensors
from glassformer.storage.rundirectory import RunDirectory
from glassformer.training import Run, Saved
from glassformer.training.train import train
from tests.chaos.conftest import PAIRS, SETTINGS, digest


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing interrupted."""
    out = tmp_path_factory.mktemp("ended") / "run"
    train(PAIRS, SETTINGS, out, device="cpu").finish()
    return out


@pytest.fixture(scope="module")
def _interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("interrupted") / "run"
    run = train(PAIRS, SETTINGS, out, device="cpu")
    for event in run:
        if isinstance(event, Saved) and event.step == 8:
            run.stop()
    return out


@pytest.fixture
def interrupted(_interrupted: Path, tmp_path: Path) -> RunDirectory:
    """A run that was stopped after half of its steps, which a test may damage."""
    return RunDirectory(Path(shutil.copytree(_interrupted, tmp_path / "run")))


# A run without a checkpoint


@pytest.mark.parametrize(
    ("moment", "given"),
    [
        ("output.Output.event", {"settings": SETTINGS}),
        ("loop.save_resume", {"init": "run", "overrides": {"training.steps": 6}}),
    ],
)
def test_a_run_stopped_before_its_first_checkpoint_begins_again(tmp_path, monkeypatch, ended, moment, given):
    """Nothing but the recipe is there, or also the model of the first validation."""
    monkeypatch.chdir(ended.parent)
    stopped = train(PAIRS, out=tmp_path / "stopped", device="cpu", **given)
    whole = ended
    if "init" in given:
        whole = tmp_path / "whole"
        train(PAIRS, out=whole, device="cpu", **given).finish()
    broken = mock.patch(f"glassformer.training.{moment}", side_effect=KeyboardInterrupt)
    with broken, pytest.raises(KeyboardInterrupt):
        stopped.finish()
    planned = plan(PAIRS, tmp_path / "stopped", resume=True)
    assert [notice.kind for notice in notices_of(planned) if notice.kind != "new tokens"] == ["no checkpoint"]
    Run(planned, "cpu").finish()
    assert digest(tmp_path / "stopped") == digest(whole)


def test_a_run_whose_checkpoints_were_deleted_does_not_begin_again(interrupted):
    shutil.rmtree(interrupted.checkpoints)
    with pytest.raises(RunError, match="there is no run to resume"):
        plan(PAIRS, interrupted.path, resume=True)


# The newest checkpoint that is whole


def test_when_the_newest_checkpoint_is_damaged_the_run_continues_from_the_one_before_it(interrupted, ended):
    assert not RunDirectory(ended).previous_resume.exists()
    content = bytearray(interrupted.resume.read_bytes())
    content[-5] ^= 1
    interrupted.resume.write_bytes(content)
    planned = plan(PAIRS, interrupted.path, resume=True)
    (notice,) = (notice for notice in notices_of(planned) if notice.kind == "damaged checkpoint")
    assert notice.text.startswith("the newest checkpoint is damaged (")
    assert notice.text.endswith("the run continues from the one before it, after step 8")
    for event in Run(planned, "cpu"):
        if event.step == 8:  # the damaged file is gone before another one is written
            read_tensors(interrupted.resume, RESUME_FORMAT)
    assert digest(interrupted.path) == digest(ended)


def test_when_both_checkpoints_are_damaged_the_error_names_the_newest(interrupted):
    interrupted.resume.write_bytes(b"")
    interrupted.previous_resume.write_bytes(b"")
    with pytest.raises(ModelFileError, match="truncated or damaged") as caught:
        plan(PAIRS, interrupted.path, resume=True)
    assert caught.value.where == str(interrupted.resume)


def test_after_a_change_of_settings_the_previous_checkpoint_has_it_too(interrupted):
    run = Run(plan(PAIRS, interrupted.path, resume=True, overrides={"training.steps": 20}), "cpu")
    for _ in run:
        break
    interrupted.resume.write_bytes(b"")
    assert plan(PAIRS, interrupted.path, resume=True).settings.training.steps == 20


# What differs


@pytest.mark.parametrize(("pairs", "n_rows"), [([*PAIRS, ("a", "b")], 61), (PAIRS[::-1], 60)])
def test_another_table_is_refused(interrupted, pairs, n_rows):
    with pytest.raises(RunError, match="the table is not the one that this run was trained on") as caught:
        plan(pairs, interrupted.path, resume=True)
    expected = read_tensors(interrupted.resume, RESUME_FORMAT)[1]["data"]["fingerprint"][:12]
    assert caught.value.expected == f"60 rows with fingerprint {expected}"
    assert caught.value.got.startswith(f"{n_rows} rows with fingerprint ")
    assert caught.value.got.endswith(" in (pairs)")
    assert caught.value.hint.startswith("restore the old table")


def test_another_validation_table_is_refused_by_its_own_name(interrupted):
    with pytest.raises(RunError, match="the validation table is not the one of this run") as caught:
        plan(PAIRS, interrupted.path, resume=True, valid=PAIRS[:10])
    assert caught.value.got.startswith("10 rows with fingerprint ")
    assert caught.value.expected == "no validation table: held-out rows"


def test_other_versions_are_allowed_and_named(interrupted):
    tensors, parts = read_tensors(interrupted.resume, RESUME_FORMAT)
    assert list(notices_of(plan(PAIRS, interrupted.path, resume=True))) == []
    parts["environment"] |= {"torch": "1.0", "processes": "2", "gone": "1"}
    write_tensors(interrupted.resume, RESUME_FORMAT, tensors, parts)
    (notice,) = notices_of(plan(PAIRS, interrupted.path, resume=True))
    assert notice.kind == "environment"
    assert notice.text.startswith(
        "the run was computed with gone 1, processes 2, torch 1.0, and continues with gone none, "
    )
    assert ": allowed, but its weights may differ by rounding" in notice.text


def test_several_processes_compare_their_checkpoints_and_the_models_that_they_start_from(interrupted, tmp_path):
    def compared(**options: Any) -> dict[str, str]:
        return _in_common(plan(PAIRS, **options))

    resumed = compared(out=interrupted.path, resume=True)
    assert resumed["checkpoints"].startswith("step 8, ")
    starts = [interrupted.model, *interrupted.kept_checkpoints()[:1], None]
    assert len({compared(out=tmp_path / "new", init=init)["models to start from"] for init in starts}) == 3


def test_a_recipe_that_is_not_there_is_written_again_and_a_damaged_one_says_so(interrupted, ended):
    interrupted.recipe.write_bytes(b"\xff")
    with pytest.raises(SettingsError) as caught:
        plan(PAIRS, interrupted.path, resume=True)
    assert (caught.value.where, caught.value.hint[:9]) == (str(interrupted.recipe), "delete it")
    interrupted.recipe.unlink()
    next(iter(train(PAIRS, None, interrupted.path, resume=True, device="cpu")))
    assert interrupted.recipe.read_text() == (ended / "recipe.toml").read_text()


# A resume file that does not fit, or is not valid


def test_a_model_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "resume.safetensors"
    model, other = nn.Linear(4, 6), nn.Linear(4, 7)
    run = SavedRun(position=Position(), data={"fingerprint": "table"}, settings=Settings(), tokenizers={})
    save_resume(path, model, torch.optim.AdamW(model.parameters()), run)
    with pytest.raises(RunError, match="the saved weights do not fit the model of the recipe") as caught:
        load_resume(path, other, torch.optim.AdamW(other.parameters()))
    assert caught.value.hint == "restore the old recipe.toml, or start a new run"


@pytest.mark.parametrize(
    ("parts", "named"),
    [
        ({"position": {"step": "many"}}, "'position.step'"),
        ({"position": {"steps": 1}}, "'position.steps'"),
        ({"data": {"fingerprint": 7}}, "'data.fingerprint'"),
        ({"settings": []}, "'settings'"),
        ({"settings": {"training": {"step": 1}}}, "there is no setting 'training.step'"),
    ],
)
def test_parts_that_are_not_valid_are_an_error_that_names_them(tmp_path, parts, named):
    path = tmp_path / "resume.safetensors"
    whole = {"position": {}, "data": {"fingerprint": "table"}, "settings": {}, "tokenizers": {}}
    write_tensors(path, RESUME_FORMAT, {}, whole | parts)
    with pytest.raises(ModelFileError, match=r"in the resume file (is|are) not valid") as caught:
        read_resume(path)
    assert (named in str(caught.value), caught.value.where) == (True, str(path))
