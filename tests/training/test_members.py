"""Several models of one recipe into one: each is the run that it would be by itself, and the file answers with all."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest import mock

import numpy as np
import pytest

from glassformer.cli import main
from glassformer.errors import RunError, SettingsError, UsageError
from glassformer.inference.translator import Translator
from glassformer.planning.plan import plan
from glassformer.runtime.processes import Processes
from glassformer.settings import Settings
from glassformer.storage.checkpoints import Position
from glassformer.storage.modelfile import ModelFile
from glassformer.training import Run
from glassformer.training.history import loss_fell
from glassformer.training.members import Members
from glassformer.training.train import train
from tests.chaos.conftest import PAIRS, SETTINGS, digest, one_thread


class InProcess:
    """The process of a member, which trains in this one: it need not import PyTorch again."""

    def __init__(self, command: Sequence[str], **_: object) -> None:
        with mock.patch.object(sys, "argv", ["glassformer", *command[3:]]), pytest.raises(SystemExit) as ended:
            main()
        self.code = ended.value.code or 0

    def poll(self) -> object:
        return self.code

    def communicate(self) -> None:
        """It has ended."""

    kill = terminate = communicate


@contextmanager
def here() -> Iterator[None]:
    at_once = mock.patch("glassformer.training.members.POLL_SECONDS", 0.0)  # it ends before it is polled
    with one_thread(), at_once, mock.patch("subprocess.Popen", InProcess):
        yield


def write(path: Path, pairs: Sequence[Sequence[str]]) -> Path:
    path.write_text("".join("\t".join(row) + "\n" for row in pairs), encoding="utf-8")
    return path


def with_training(**changes: Any) -> Settings:
    return SETTINGS.model_copy(update={"training": SETTINGS.training.model_copy(update=changes)})


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("table") / "pairs.tsv", [("source", "target"), *PAIRS])


def members_of(table: Path, out: Path, settings: Settings | None = SETTINGS, n: int = 2, **options: Any) -> Members:
    found = train(table, settings, out, members=n, device="cpu", **options)
    assert isinstance(found, Members)
    return found


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, table: Path) -> tuple[Path, list[tuple[int, dict[str, Any]]]]:
    """Two members, one after the other, and the lines of their histories."""
    out = tmp_path_factory.mktemp("members") / "run"
    with here():
        return out, list(members_of(table, out))


@pytest.fixture
def out(trained: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of their run, which a test may change."""
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


def test_the_lines_are_those_of_each_history_and_the_end_is_that_of_all(trained, out, table):
    _, lines = trained
    assert [seed for seed, line in lines if line["event"] == "finished"] == [1, 2]
    assert [line["step"] for seed, line in lines if (seed, line["event"]) == (2, "validated")] == [4, 8, 12, 16]
    (out / "model.safetensors").unlink()
    members = members_of(table, out, None, resume=True)
    assert list(members) == []  # all are trained
    end = members.finished
    assert (end.step, end.path, end.chosen) == (32, out / "model.safetensors", "2 members, with the seeds 1, 2")
    assert (
        end.loss_fell
        == fmean(loss_fell(out / "members" / seed / "history.jsonl", Position(step=16)) for seed in "12")
        > 0
    )
    assert "2 members, with the seeds 1, 2" in (out / "README.md").read_text(encoding="utf-8")
    assert digest(out) == digest(trained[0])


def test_a_member_is_the_run_that_its_recipe_makes_by_itself_and_all_hold_out_the_same_rows(trained, tmp_path):
    run, _ = trained
    settings = Settings(**(with_training(seed=2).model_dump() | {"data": {"split_seed": 1}}))
    with one_thread():
        train(PAIRS, settings, tmp_path / "alone", device="cpu").finish()
    assert digest(run / "members" / "2") == digest(tmp_path / "alone")
    held_out = {(folder / "held_out.jsonl").read_bytes() for folder in (run, *(run / "members").iterdir())}
    assert len(held_out) == 1
    other = plan(PAIRS, tmp_path / "other", overrides=with_training(seed=2))
    assert other.prepared.valid_pairs != plan(PAIRS, tmp_path / "other", overrides=settings).prepared.valid_pairs
    assert Translator.load(run).trained_sources.digest == plan(PAIRS, overrides=SETTINGS).prepared.trained.digest


@pytest.mark.parametrize("engine", ["numpy", "torch"])
def test_the_file_answers_as_the_ensemble_of_its_members_does(trained, engine):
    run, _ = trained
    first, second = (ModelFile.load(run / "members" / seed) for seed in "12")
    joined = Translator.load(run, engine=engine)
    ensemble = Translator(first, ensemble=[second], engine=engine)
    sources = [pair[0] for pair in PAIRS[:20]]
    assert joined.n_models == 2
    assert joined.translate(sources) == ensemble.translate(sources)
    alone = [score.score for score in Translator(first, engine=engine).score(PAIRS[:5])]
    both = [score.score for score in joined.score(PAIRS[:5])]
    assert both == [score.score for score in ensemble.score(PAIRS[:5])]
    assert not np.allclose(alone, both, atol=1e-3)
    assert Translator(joined.model_file, ensemble=[first], engine=engine).n_models == 3


# Interrupted, resumed, more members


def test_stopped_members_go_on_to_the_same_model_bit_by_bit(trained, table, tmp_path):
    run, first, second = (tmp_path / "run" / name for name in ("", "members/1", "members/2"))
    members = members_of(table, run)

    class Stopped(InProcess):
        def __init__(self, command: Sequence[str], **options: object) -> None:
            members.stop()
            super().__init__(command, **options)

    with one_thread(), mock.patch("subprocess.Popen", Stopped):
        assert {seed for seed, _ in members} == {1}
    assert members.finished is None
    assert not (run / "model.safetensors").exists()
    (first / "README.md").unlink()  # stopped before its end
    second.mkdir()  # stopped before its first checkpoint
    shutil.copy(trained[0] / "members" / "2" / "recipe.toml", second)
    (second / "history.jsonl").write_text('{"event": "started"}\n', encoding="utf-8")
    with here():
        members_of(table, run, None, resume=True).finish()
    assert digest(run) == digest(trained[0])


def test_members_are_added_to_those_that_are_there(out, table):
    with here():
        assert {seed for seed, _ in members_of(table, out, None, 3, resume=True)} == {3}
    assert ModelFile.load(out).seeds == [1, 2, 3]


@pytest.mark.medium
def test_members_end_with_a_process_that_is_killed(table, tmp_path):
    out, recipe = tmp_path / "run", tmp_path / "recipe.toml"
    recipe.write_text(with_training(steps=1_000_000).to_toml(), encoding="utf-8")
    words = ["--recipe", str(recipe), "--members", "2", "--quiet"]
    command = [sys.executable, "-m", "glassformer", "train", str(table), "--out", str(out), *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=os.environ | {"OMP_NUM_THREADS": "2"}) as process:
        while not all((out / "members" / seed / "checkpoints" / "resume.safetensors").exists() for seed in "12"):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        process.stderr.read()  # which ends when all processes that have it have ended
        assert time.monotonic() - killed < 2


# Members that fail


def test_a_member_that_fails_is_named_and_the_others_are_trained(table, tmp_path, monkeypatch):
    monkeypatch.setattr("glassformer.training.members.COMMAND", "import sys; sys.exit(int(sys.argv[-1][-1] == '1'))")
    with one_thread(), pytest.raises(RunError, match="members 1, 2 ended before the model") as raised:
        list(members_of(table, tmp_path / "run"))
    assert raised.value.where == str(tmp_path / "run" / "members")


def test_processes_are_killed_when_the_iteration_is_left(table, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "glassformer.training.members.COMMAND",
        "import sys, time; print('{}', file=open(sys.argv[-1] + '/history.jsonl', 'w'), flush=True); time.sleep(999)",
    )
    members = members_of(table, tmp_path / "run")
    for _ in members:
        processes = [*members._processes.values()]
        break
    assert [process.poll() for process in processes] == [-signal.SIGKILL] * len(processes)


def test_members_whose_table_changed_before_their_end_are_no_model(table, tmp_path):
    other = Path(shutil.copy(table, tmp_path / "pairs.tsv"))
    with here():
        members = members_of(other, tmp_path / "run", with_training(steps=4))
        lines = iter(members)
        next(line for seed, line in lines if (seed, line["event"]) == (2, "finished"))
        members.planned.table.pairs.pop()  # as if it was read again
        with pytest.raises(RunError, match="the table is not the one"):
            list(lines)
    assert not (tmp_path / "run" / "model.safetensors").exists()


# What is refused


def test_other_settings_are_refused(out, table):
    before = digest(out)
    with pytest.raises(UsageError, match="the settings of members cannot change"):
        members_of(table, out, with_training(steps=30), 3, resume=True)
    assert digest(out) == before


def test_a_run_is_resumed_as_one_model_or_as_several_as_it_was_begun(out, table, tmp_path):
    with pytest.raises(UsageError, match="the run has several models"):
        train(table, out=out, resume=True)
    with pytest.raises(RunError, match="the run already exists"):
        members_of(table, out)
    train(table, with_training(steps=2), out, overwrite=True, device="cpu").finish()
    assert not (out / "members").exists()
    with pytest.raises(UsageError, match="it is a run of one model"):
        members_of(table, out, None, resume=True)
    with pytest.raises(SettingsError, match="cannot read the recipe"):
        members_of(table, tmp_path / "none", None, resume=True)


def test_tables_that_are_not_files_and_torchrun_are_refused(table, tmp_path):
    for given in ({"pairs": PAIRS}, {"pairs": table, "valid": PAIRS}):
        with pytest.raises(UsageError, match="each member reads its tables itself"):
            train(**given, out=tmp_path / "run", members=2)
    planned = plan(PAIRS, tmp_path / "run", overrides=SETTINGS, members=2)
    with pytest.raises(UsageError, match="members train in processes of their own"):
        Members(mock.Mock(planned, processes=Processes(0, 2)), table)
    assert not (tmp_path / "run").exists()


# Other ways to begin


def test_members_that_start_from_a_model_with_features_are_resumed(tmp_path):
    rows = [(a, b, tag) for a, b in PAIRS for tag in ("x", "y")]
    table = write(tmp_path / "tagged.tsv", [("a", "b", "tag"), *rows])
    data = {"source": "a", "target": "b", "features": ["tag"]}
    settings = Settings(**(with_training(steps=4).model_dump() | {"data": data}))
    with here():
        Run(plan(table, tmp_path / "start", overrides=settings), "cpu").finish()
        chosen = {"data": data, "training": settings.training.model_dump()}
        members = members_of(table, tmp_path / "run", None, overrides=chosen, init=tmp_path / "start", valid=table)
        for _ in members:
            members.stop()
        resumed = members_of(table, tmp_path / "run", None, resume=True, valid=table)
        assert resumed.finish().n_models == 2


def test_the_model_that_members_replace_is_kept_until_theirs_is_there(out, table):
    before = (out / "model.safetensors").read_bytes()
    with here():
        for _ in members_of(table, out, with_training(steps=4), overwrite=True):
            assert (out / ".replaced" / "model.safetensors").read_bytes() == before
    assert not (out / ".replaced").exists()
    assert (out / "model.safetensors").read_bytes() != before


@pytest.mark.parametrize(("metric", "fraction"), [("exact_match", 0.0), ("loss", 0.2)])
def test_without_held_out_rows_the_metric_is_the_mean_of_the_members(tmp_path, table, metric, fraction):
    settings = with_training(steps=4, metric=metric).model_dump() | {"data": {"valid_fraction": fraction}}
    members = members_of(table, tmp_path / "run", Settings(**settings))
    with here():
        lines = list(members)
    values = [ModelFile.load(tmp_path / "run" / "members" / seed).metrics.value for seed in "12"]
    end, metrics = members.finished, ModelFile.load(tmp_path / "run").metrics
    assert end.metric == metrics.metric == "loss"
    assert {line["samples"] == [] for _, line in lines if line["event"] == "validated"} == {not fraction}
    if fraction:
        assert (metrics.rows, end.value < max(values)) == ("validation", True)
    else:
        assert (metrics.rows, end.value) == ("training", pytest.approx(np.mean(values)))
