"""A run directory deletes only runs, and those only when another run has replaced them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from glassformer.errors import RunError
from glassformer.storage.rundirectory import RunDirectory
from glassformer.training.events import Sample, Saved, Validated


def finished_run(path: Path) -> RunDirectory:
    directory = RunDirectory(path)
    directory.create(overwrite=False)
    for name in ("model.safetensors", "recipe.toml", "history.jsonl", "ledger.jsonl", "README.md"):
        (path / name).write_text("old")
    directory.checkpoint(500).write_text("old")
    return directory


def tree(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*")}


# The run directory


def test_a_run_directory_is_locked_by_one_process_at_a_time(tmp_path):
    run = tmp_path / "deep" / "run"
    with RunDirectory(run).locked():
        directory = RunDirectory(run)
        directory.create(overwrite=False)
        directory.recipe.write_text("")
        directory.create(overwrite=True)  # which leaves the lock
        directory.discard_replaced()
        with pytest.raises(RunError, match="this run is already being trained") as caught, directory.locked():
            pass
        assert caught.value.hint == "wait for that training or stop it, or choose another --out"
    assert tree(run) == {"checkpoints"}
    directory.lock.write_text("")  # of a process that was killed
    with directory.locked():
        pass


def test_on_a_file_system_without_locks_training_continues(tmp_path, monkeypatch):
    def no_locks(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with RunDirectory(tmp_path).locked():
        pass


def test_checkpoints_and_snapshots_are_listed_together_by_their_step(tmp_path):
    directory = finished_run(tmp_path)
    for path in (directory.checkpoint(10_000_000), directory.checkpoint(20), directory.snapshot(3000)):
        path.write_text("")
    directory.resume.write_text("")
    for step in ("", "last", "-1", "5²", "000000٣", "9" * 100):  # of files that no run writes
        (directory.checkpoints / f"snapshot-{step}.safetensors").write_text("")
    steps = [directory.checkpoint(step) for step in (20, 500, 10_000_000)]
    assert directory.kept_checkpoints() == steps
    assert directory.checkpoints_and_snapshots() == [*steps[:2], directory.snapshot(3000), steps[2]]


def test_a_run_is_overwritten_only_when_requested(tmp_path):
    directory = finished_run(tmp_path / "run")
    directory.recipe.unlink()  # without which it is still a run
    before = tree(tmp_path)
    with pytest.raises(RunError, match="the run already exists; nothing was written") as caught:
        directory.create(overwrite=False)
    assert caught.value.hint == "resume it with --resume, replace it with --overwrite, or choose another --out"
    assert tree(tmp_path) == before
    (directory.path / ".model.safetensors.1a2b3c4d.part").write_text("half")
    directory.create(overwrite=True)
    directory.discard_replaced()
    assert tree(directory.path) == {"checkpoints"}


@pytest.mark.parametrize(
    "names", [["README.md"], ["README.md", "model.safetensors"], ["thesis.tex"], ["README.md", "members"]]
)
def test_a_folder_that_is_not_a_run_is_never_changed(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("ten years of work")
    (tmp_path / "checkpoints").mkdir()
    for overwrite in (False, True):
        with pytest.raises(RunError, match="the directory is not empty and is not a run of glassformer"):
            RunDirectory(tmp_path).create(overwrite=overwrite)
    assert tree(tmp_path) == {*names, "checkpoints"}


def test_a_run_with_other_files_also_among_the_checkpoints_is_never_overwritten(tmp_path):
    directory = finished_run(tmp_path)
    for name in ("resume.safetensors", "snapshot-0000250.safetensors", ".resume.safetensors.1a2b3c4d.part"):
        (tmp_path / "checkpoints" / name).write_text("old")
    others = ["checkpoints/best-of-all.safetensors", "download.part", *(f"notes-{i}.txt" for i in range(5))]
    for name in others:
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(RunError, match="the directory contains other files") as caught:
        directory.create(overwrite=True)
    assert caught.value.got == ", ".join([*others[:5], "…"])
    assert caught.value.hint == "move these files, or choose another --out"
    assert tree(tmp_path) == before
    for name in others:
        (tmp_path / name).unlink()
    directory.create(overwrite=True)
    directory.discard_replaced()
    assert tree(tmp_path) == {"checkpoints"}


def test_a_link_to_a_run_is_emptied_and_the_targets_of_links_in_it_are_kept(tmp_path):
    finished_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "step-0000001.safetensors").write_text("mine")
    (tmp_path / "run" / "checkpoints" / "step-0000500.safetensors").unlink()
    (tmp_path / "run" / "checkpoints").rmdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    directory = RunDirectory(tmp_path / "link")
    directory.create(overwrite=True)
    directory.discard_replaced()
    assert tree(tmp_path / "run") == {"checkpoints"}
    assert tree(tmp_path / "elsewhere") == {"step-0000001.safetensors"}
    assert (tmp_path / "link").is_symlink()


def test_a_run_directory_cannot_be_a_file(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match="the run directory is a file"):
        RunDirectory(tmp_path / "run").create(overwrite=True)
    deeper = RunDirectory(tmp_path / "run" / "deeper")
    with pytest.raises(RunError, match="a part of this path is a file; choose another path"):
        deeper.create(overwrite=False)
    with pytest.raises(RunError, match="cannot write"), deeper.locked():
        pass
    assert (tmp_path / "run").read_text() == "mine"


def test_only_a_run_that_was_saved_can_be_resumed(tmp_path):
    directory = finished_run(tmp_path)
    with pytest.raises(RunError, match="there is no run to resume") as caught:
        directory.check_resumable()
    assert (caught.value.where, caught.value.hint) == (str(tmp_path), "start a new one, with --overwrite")
    directory.resume.write_text("")
    directory.check_resumable()


# Replacement of a run


class Killed(BaseException):
    """What ends a process at once: nobody catches it."""


def contents(path: Path) -> dict[str, str]:
    files = (file for file in path.rglob("*") if file.is_file() and file.name != ".lock")
    return {str(file.relative_to(path)): file.read_text() for file in files}


def test_a_run_is_kept_until_the_one_that_replaces_it_has_a_model(tmp_path):
    directory = finished_run(tmp_path / "run")
    before = contents(directory.path)
    replace(directory, undo=True)
    assert contents(directory.path) == before
    directory.create(overwrite=True)
    assert contents(directory.replaced) == before
    directory.model.write_text("new")
    directory.restore_replaced()  # too late
    directory.discard_replaced()
    assert contents(directory.path) == {"model.safetensors": "new"}


def test_a_run_that_can_be_resumed_is_not_undone(tmp_path):
    directory = finished_run(tmp_path / "run")
    before = contents(directory.path)
    directory.create(overwrite=True)
    directory.recipe.write_text("new")
    directory.resume.write_text("new")
    directory.restore_replaced()
    assert directory.recipe.read_text() == "new"
    directory.create(overwrite=True)  # and the run that has a model is still the one that is kept
    assert contents(directory.path) == {f".replaced/{name}": text for name, text in before.items()}


def killed_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the call of that number that changes a folder is the last one."""
    calls = iter(range(1000))

    def counted(change):
        def call(*arguments, **options):
            if next(calls) == moment:
                raise Killed
            return change(*arguments, **options)

        return call

    for name in ("mkdir", "rename", "unlink", "rmdir", "write_text"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    monkeypatch.setattr("shutil.rmtree", counted(shutil.rmtree))


def replace(directory: RunDirectory, *, undo: bool) -> None:
    directory.create(overwrite=True)
    directory.recipe.write_text("new")
    if undo:
        directory.restore_replaced()
    else:
        directory.model.write_text("new")
        directory.discard_replaced()


@pytest.mark.parametrize("undo", [True, False])
def test_whenever_a_process_is_killed_a_complete_run_is_left_and_the_folder_can_be_used_again(
    tmp_path, monkeypatch, undo
):
    for moment in range(100):
        directory = finished_run(tmp_path / str(moment))
        before = contents(directory.path)
        killed = True
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            killed_at(moment, patch)
            replace(directory, undo=undo)
            killed = False
        directory.check_free(overwrite=True)
        with directory.locked():
            directory.recover()
            left, kept = contents(directory.path), contents(directory.replaced)
            assert before in (left, kept) or left == {"recipe.toml": "new", "model.safetensors": "new"}
            directory.create(overwrite=True)
            directory.discard_replaced()
        assert tree(directory.path) == {"checkpoints"}
        if not killed:
            break
    assert 5 < moment < 99


def test_a_folder_with_only_temporary_files_is_free_and_is_cleaned_up(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.checkpoints.mkdir(parents=True)
    for name in (".recipe.toml.0a1b2c3d.part", "checkpoints/.resume.safetensors.0a1b2c3d.part", ".lock"):
        (directory.path / name).write_text("half")
    directory.check_free(overwrite=False)
    with directory.locked():
        directory.recover()
        directory.create(overwrite=False)
    assert tree(directory.path) == {"checkpoints"}


def test_a_folder_that_is_moved_while_it_is_locked_is_not_written_again(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    with directory.locked():
        directory.create(overwrite=False)
        directory.check_locked()
        directory.path.rename(tmp_path / "elsewhere")
        with pytest.raises(RunError, match="the run directory was moved or removed during training"):
            directory.record({"event": "progress"})
        directory.path.mkdir()  # another folder of the same name is not the run
        with pytest.raises(RunError, match="moved or removed"):
            directory.record({"event": "progress"})
    assert tree(tmp_path / "run") == set()


# The history


def test_the_history_is_one_json_object_per_line(tmp_path):
    directory = RunDirectory(tmp_path)
    sample = Sample("1845-01-05", "é", "January")
    directory.record(Validated(5, 1.5, 0.7, "exact_match", 0.5, True, (sample,)).to_json())
    directory.record(Saved(5, 1.5, Path("not-utf8-\udcff")).to_json())
    lines = [json.loads(line) for line in directory.history.read_text(encoding="utf-8").split("\n")[:-1]]
    assert lines[0]["samples"] == [["1845-01-05", "é", "January"]]
    assert lines[1] == {"event": "saved", "step": 5, "seconds": 1.5, "path": "not-utf8-\udcff"}
    directory.history.unlink()
    directory.history.mkdir()
    with pytest.raises(RunError, match="cannot write the file"):
        directory.record(lines[1])
