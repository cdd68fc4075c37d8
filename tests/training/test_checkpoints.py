"""The run directory destroys nothing but runs; what is resumed goes on as if it had never stopped."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from glassformer.errors import ModelFileError, RunError
from glassformer.modelfile import write_tensors
from glassformer.training.checkpoints import (
    NO_LOCKS,
    Position,
    RunDirectory,
    load_resume,
    save_resume,
    saved_tokenizers,
)
from glassformer.training.events import Sample, Saved, Started, Validated

A_RUN = ("model.safetensors", "recipe.toml", "history.jsonl", "ledger.jsonl", "README.md")


def finished_run(path: Path) -> RunDirectory:
    directory = RunDirectory(path)
    directory.create(overwrite=False)
    for name in A_RUN:
        (path / name).write_text("old")
    directory.checkpoint(500).write_text("old")
    return directory


def tree(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*")}


# The run directory


def test_a_run_directory_is_held_by_one_at_a_time(tmp_path):
    run = tmp_path / "deep" / "run"
    with RunDirectory(run).held():
        directory = RunDirectory(run)
        directory.create(overwrite=False)
        directory.recipe.write_text("")
        directory.create(overwrite=True)  # which leaves the lock
        with pytest.raises(RunError) as caught, directory.held():
            pass
        assert str(caught.value) == (
            f"this run is being trained already\n  where: {run}\n"
            "  next: wait for that training or stop it, or choose another --out"
        )
    assert tree(run) == {"checkpoints"}
    directory.lock.write_text("")  # of a process that was killed
    with directory.held():
        pass


def test_another_process_that_holds_a_run_directory_keeps_us_out_until_it_is_killed(tmp_path):
    code = (
        "import sys\nfrom pathlib import Path\nfrom glassformer.training.checkpoints import RunDirectory\n"
        "with RunDirectory(Path(sys.argv[1])).held():\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    words = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(RunError, match="this run is being trained already"), RunDirectory(tmp_path).held():
            pass
        other.kill()
    with RunDirectory(tmp_path).held():
        pass


@pytest.mark.parametrize("number", NO_LOCKS)
def test_where_the_file_system_knows_no_locks_training_goes_on(tmp_path, monkeypatch, number):
    def no_locks(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with RunDirectory(tmp_path).held():
        pass


def test_a_folder_that_cannot_be_made_is_not_held(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"), RunDirectory(tmp_path / "file" / "run").held():
        pass


def test_a_run_has_its_files_where_the_documentation_says(tmp_path):
    directory = RunDirectory(tmp_path)
    files = (directory.model, directory.recipe, directory.history, directory.ledger, directory.card)
    assert tuple(file.name for file in files) == A_RUN
    assert directory.resume == tmp_path / "checkpoints" / "resume.safetensors"
    assert directory.checkpoint(500) == tmp_path / "checkpoints" / "step-0000500.safetensors"


def test_a_new_run_directory_is_empty_but_for_its_checkpoints(tmp_path):
    directory = RunDirectory(tmp_path / "deep" / "run")
    directory.create(overwrite=False)
    assert tree(directory.path) == {"checkpoints"}


def test_an_empty_folder_is_taken(tmp_path):
    RunDirectory(tmp_path).create(overwrite=False)
    assert tree(tmp_path) == {"checkpoints"}


def test_kept_weights_are_listed_oldest_first(tmp_path):
    directory = finished_run(tmp_path)
    for step in (10_000_000, 20, 3000):
        directory.checkpoint(step).write_text("")
    directory.resume.write_text("")
    assert [path.name for path in directory.checkpoints()] == [
        "step-0000020.safetensors",
        "step-0000500.safetensors",
        "step-0003000.safetensors",
        "step-10000000.safetensors",
    ]


def test_a_run_is_overwritten_only_on_demand(tmp_path):
    directory = finished_run(tmp_path / "run")
    before = tree(tmp_path)
    with pytest.raises(RunError) as caught:
        directory.create(overwrite=False)
    assert str(caught.value) == (
        f"there is a run already; nothing was written\n  where: {tmp_path / 'run'}\n"
        "  next: go on with --resume, replace it with --overwrite, or choose another --out"
    )
    assert tree(tmp_path) == before
    (directory.path / ".model.safetensors.1a2b3c4d.part").write_text("half")
    directory.create(overwrite=True)
    assert tree(directory.path) == {"checkpoints"}


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_that_is_no_run_is_never_touched(tmp_path, overwrite):
    (tmp_path / "thesis.tex").write_text("ten years of work")
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(RunError, match="this folder is not a run of glassformer and is not empty") as caught:
        RunDirectory(tmp_path).create(overwrite=overwrite)
    assert (caught.value.where, caught.value.hint) == (str(tmp_path), "choose another --out")
    assert tree(tmp_path) == {"thesis.tex", "checkpoints"}


def test_a_run_that_holds_something_else_is_never_overwritten(tmp_path):
    directory = finished_run(tmp_path)
    for number in range(7):
        (tmp_path / f"notes-{number}.txt").write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(RunError, match="this folder holds more than a run") as caught:
        directory.create(overwrite=True)
    assert caught.value.got == "notes-0.txt, notes-1.txt, notes-2.txt, notes-3.txt, notes-4.txt, …"
    assert caught.value.hint == "move these away, or choose another --out"
    assert tree(tmp_path) == before


def test_what_lies_among_the_checkpoints_and_is_none_is_kept_as_well(tmp_path):
    directory = finished_run(tmp_path)
    for name in ("resume.safetensors", "moment-0000250.safetensors", ".resume.safetensors.1a2b3c4d.part"):
        (tmp_path / "checkpoints" / name).write_text("old")
    for name in ("checkpoints/best-of-all.safetensors", "download.part"):
        (tmp_path / name).write_text("mine")
    before = tree(tmp_path)
    with pytest.raises(RunError, match="this folder holds more than a run") as caught:
        directory.create(overwrite=True)
    assert caught.value.got == f"{Path('checkpoints/best-of-all.safetensors')}, download.part"
    assert tree(tmp_path) == before
    for name in ("checkpoints/best-of-all.safetensors", "download.part"):
        (tmp_path / name).unlink()
    directory.create(overwrite=True)
    assert tree(tmp_path) == {"checkpoints"}


def test_a_link_to_a_run_is_emptied_and_what_it_holds_as_links_stays(tmp_path):
    finished_run(tmp_path / "run")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "step-0000001.safetensors").write_text("mine")
    (tmp_path / "run" / "checkpoints" / "step-0000500.safetensors").unlink()
    (tmp_path / "run" / "checkpoints").rmdir()
    (tmp_path / "run" / "checkpoints").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    RunDirectory(tmp_path / "link").create(overwrite=True)
    assert tree(tmp_path / "run") == {"checkpoints"}
    assert tree(tmp_path / "elsewhere") == {"step-0000001.safetensors"}
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_directory_cannot_be_a_file(tmp_path, overwrite):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match="the run directory is a file"):
        RunDirectory(tmp_path / "run").create(overwrite=overwrite)
    with pytest.raises(RunError) as caught:
        RunDirectory(tmp_path / "run" / "deeper").create(overwrite=overwrite)
    assert caught.value.hint == "a part of this path is a file; choose another place"
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize("call", ["mkdir", "iterdir"])
def test_a_folder_that_may_not_be_used_is_an_error_with_advice(tmp_path, monkeypatch, call):
    def refuse(*_arguments, **_options):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    (tmp_path / "run").mkdir()
    monkeypatch.setattr(f"pathlib.Path.{call}", refuse)
    with pytest.raises(RunError) as caught:
        RunDirectory(tmp_path / "run").create(overwrite=False)
    assert (caught.value.got, caught.value.hint) == ("Permission denied", "choose a folder that you may write to")


def test_only_a_run_that_was_saved_can_be_resumed(tmp_path):
    directory = finished_run(tmp_path)
    with pytest.raises(RunError, match="there is no run to resume") as caught:
        directory.check_resumable()
    assert (caught.value.where, caught.value.hint) == (str(tmp_path), "start it anew, with --overwrite")
    directory.resume.write_text("")
    directory.check_resumable()


# The history


def test_the_history_is_one_json_object_a_line(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.record(Started(0, 0.0, 90, 10, 1234, 500, 5, 0.25, "cpu", "float32", False))
    sample = Sample("1845-01-05", "é", "January")
    directory.record(Validated(5, 1.5, 0.7, "exact_match", 0.5, True, (sample,)))
    directory.record(Saved(5, 1.5, Path("not-utf8-\udcff")))
    lines = [json.loads(line) for line in directory.history.read_text(encoding="utf-8").split("\n")[:-1]]
    assert [line["event"] for line in lines] == ["started", "validated", "saved"]
    assert lines[0]["train_rows"] == 90
    assert lines[1]["samples"] == [["1845-01-05", "é", "January"]]
    assert lines[2] == {"event": "saved", "step": 5, "seconds": 1.5, "path": "not-utf8-\udcff"}


def test_a_history_that_cannot_be_written_is_a_run_error(tmp_path):
    (tmp_path / "history.jsonl").mkdir()
    with pytest.raises(RunError, match="cannot write the file") as caught:
        RunDirectory(tmp_path).record(Saved(1, 1.0, tmp_path))
    assert caught.value.where == str(tmp_path / "history.jsonl")


# Resuming


class Tiny(nn.Module):
    """Two layers with dropout between them, and a parameter that gets no gradient."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 3, bias=False)
        self.unused = nn.Parameter(torch.ones(2))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.dropout(self.first(x).relu()))


def made(seed: int, fused: bool) -> tuple[Tiny, torch.optim.AdamW]:
    torch.manual_seed(seed)
    model = Tiny()
    return model, torch.optim.AdamW(model.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, fused=fused)


def go_on(model: Tiny, optimizer: torch.optim.AdamW, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("steps", [0, 5])
def test_a_resumed_run_goes_on_bit_by_bit_as_if_it_had_not_stopped(tmp_path, fused, steps):
    path = tmp_path / "resume.safetensors"
    model, optimizer = made(1, fused)
    go_on(model, optimizer, steps)
    position = Position(step=steps, epoch=2, batch=3, seconds=4.5, best_value=0.25, without_gain=1)
    save_resume(path, model, optimizer, position, "table", {})
    go_on(model, optimizer, 5)
    other, its_optimizer = made(2, fused)
    assert load_resume(path, other, its_optimizer, "table") == position
    go_on(other, its_optimizer, 5)
    for (name, one), (_, two) in zip(model.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(one, two), name
    for one, two in zip(optimizer.state.values(), its_optimizer.state.values(), strict=True):
        assert {key: (value.shape, value.tolist()) for key, value in one.items()} == {
            key: (value.shape, value.tolist()) for key, value in two.items()
        }


def test_saving_changes_nothing_of_the_run(tmp_path):
    runs = []
    for saves in (False, True):
        model, optimizer = made(1, fused=False)
        go_on(model, optimizer, 3)
        if saves:
            save_resume(tmp_path / "resume.safetensors", model, optimizer, Position(), "table", {})
        go_on(model, optimizer, 3)
        runs.append([parameter.tolist() for parameter in model.parameters()])
    assert runs[0] == runs[1]


@pytest.mark.parametrize("read", [saved_tokenizers, lambda path, data: load_resume(path, *made(2, False), data)])
def test_another_table_is_refused(tmp_path, read):
    path = tmp_path / "resume.safetensors"
    save_resume(path, *made(1, fused=False), Position(), "0123456789abcdef", {})
    with pytest.raises(RunError) as caught:
        read(path, "fedcba9876543210")
    assert str(caught.value) == (
        f"the table is not the one that this run was trained on\n  where: {path}\n"
        "  got: rows with fingerprint fedcba987654\n  expected: fingerprint 0123456789ab\n"
        "  next: bring the old table back (--valid too, if there was one), or start a new run with --init"
    )


def test_a_model_of_another_shape_is_refused(tmp_path):
    path = tmp_path / "resume.safetensors"
    model, optimizer = made(1, fused=False)
    save_resume(path, model, optimizer, Position(), "table", {})
    other = Tiny(width=7)
    with pytest.raises(RunError, match="the saved weights do not fit the model of the recipe") as caught:
        load_resume(path, other, torch.optim.AdamW(other.parameters()), "table")
    assert caught.value.hint == "bring the old recipe.toml back, or start a new run"


def test_a_damaged_or_foreign_resume_file_is_refused(tmp_path):
    path = tmp_path / "resume.safetensors"
    model, optimizer = made(1, fused=False)
    save_resume(path, model, optimizer, Position(), "table", {})
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match="cut off or damaged"):
        load_resume(path, model, optimizer, "table")
    write_tensors(path, "glassformer-model/1", {}, {})
    with pytest.raises(ModelFileError, match="not written by glassformer"):
        load_resume(path, model, optimizer, "table")
