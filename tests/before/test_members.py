"""Several models of one recipe into one: each is the run that it would be by itself, and the file answers with all."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from glassformer.before.members import Members, train, train_member
from glassformer.before.plan import plan
from glassformer.errors import DivergedError, RunError, UsageError
from glassformer.inference.translator import Translator
from glassformer.paper.settings import Settings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.training import Event, Finished, Stopped, Validated
from tests.chaos.conftest import PAIRS, SETTINGS, digest, one_thread


def with_members(n: int, **changes: Any) -> Settings:
    training = SETTINGS.training.model_copy(update={"members": n} | changes)
    return SETTINGS.model_copy(update={"training": training})


def members_of(out: Path, n: int | None = 2, resume: bool = False, **overrides: Any) -> Members:
    if resume:
        overrides |= {"training.members": n} if n else {}
        found = train(PAIRS, out=out, overrides=overrides, resume=True, device="cpu")
    else:
        found = train(PAIRS, with_members(n or 2), out, device="cpu")
    assert isinstance(found, Members)
    return found


class Forked:
    """The process of a member, forked from this one: it need not import PyTorch again."""

    def __init__(self, *_: object, **__: object) -> None:
        (task, stdin), (stdout, events) = os.pipe(), os.pipe()
        self._process = get_context("fork").Process(target=self._work, args=(task, events, (stdin, stdout)))
        self._process.start()
        os.close(task)
        os.close(events)
        self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")
        self.kill = self._process.kill

    def _work(self, task: int, events: int, others: tuple[int, int]) -> None:
        for there, descriptor in enumerate((task, events)):
            os.dup2(descriptor, there)
        for descriptor in others:
            os.close(descriptor)
        with open(0, closefd=False) as sys.stdin:
            train_member()

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode


forked = mock.patch("subprocess.Popen", Forked)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Event]]:
    """Two members, one after the other, and their events."""
    out = tmp_path_factory.mktemp("members") / "run"
    with one_thread(), forked:
        return out, list(members_of(out))


@pytest.fixture
def out(trained: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of their run, which a test may change."""
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


def test_the_events_are_those_of_each_member_and_the_end_of_all(trained):
    run, events = trained
    assert [event.member for event in events if isinstance(event, Finished)] == [1, 2, None]
    steps = [event.step for event in events if event.member == 2 and isinstance(event, Validated)]
    assert steps == [4, 8, 12, 16, 20, 24]
    end = events[-1]
    assert isinstance(end, Finished)
    assert (end.step, end.path, end.chosen) == (48, run / "model.safetensors", "2 members, with the seeds 1, 2")
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "2 members, with the seeds 1, 2" in card


def test_a_member_is_the_run_that_its_recipe_makes_by_itself_and_all_hold_out_the_same_rows(trained, tmp_path):
    run, _ = trained
    changes = {"training": SETTINGS.training.model_copy(update={"seed": 2}), "data": {"split_seed": 1}}
    settings = Settings(**SETTINGS.model_dump(exclude={"training", "data"}), **changes)
    with one_thread():
        train(PAIRS, settings, tmp_path / "alone", device="cpu").finish()
    assert digest(run / "members" / "2") == digest(tmp_path / "alone")
    held_out = {(folder / "held_out.jsonl").read_bytes() for folder in (run, *(run / "members").iterdir())}
    assert len(held_out) == 1
    other = plan(PAIRS, tmp_path / "other", overrides={**SETTINGS.model_dump(), "training": {"seed": 2}})
    assert other.prepared.valid_pairs != plan(PAIRS, tmp_path / "other", overrides=settings).prepared.valid_pairs


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


def test_all_the_rows_of_the_members_are_known_as_trained_on(trained):
    run, _ = trained
    planned = plan(PAIRS, run.parent / "other", overrides=SETTINGS)
    known = Translator.load(run).trained_sources
    assert known.digest == planned.prepared.trained.digest


# Interrupted, resumed, more members


@pytest.mark.medium
def test_stopped_members_go_on_to_the_same_model_bit_by_bit(trained, tmp_path):
    with one_thread(), forked:
        members, events = members_of(tmp_path / "run"), []
        for event in members:
            events.append(event)
            if isinstance(event, Validated) and event.step == 12:
                members.stop()
        assert isinstance(events[-1], Stopped)
        assert {event.member for event in events} == {1}
        assert not (tmp_path / "run" / "model.safetensors").exists()
        resumed = members_of(tmp_path / "run", None, resume=True)
        assert resumed.seeds == [1, 2]
        resumed.finish()
    assert digest(tmp_path / "run") == digest(trained[0])
    assert ModelFile.load(tmp_path / "run").seeds == [1, 2]


def test_members_are_added_to_those_that_are_there(out):
    with one_thread(), forked:
        events = list(members_of(out, 3, resume=True))
    assert {event.member for event in events} == {3, None}
    assert ModelFile.load(out).seeds == [1, 2, 3]


def test_members_that_are_finished_are_not_trained_again(out):
    (out / "model.safetensors").unlink()
    assert [event.member for event in members_of(out, None, resume=True)] == [None]
    assert ModelFile.load(out).seeds == [1, 2]


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_the_seconds_of_all_members_are_those_that_passed(trained, out, n_threads, monkeypatch):
    """Members that train at the same time are not counted one after the other."""
    monkeypatch.setattr("torch.get_num_threads", lambda: n_threads)
    monkeypatch.setattr("glassformer.before.members.Clock", lambda earlier: mock.Mock(seconds=earlier + 7))
    (end,) = members_of(out, None, resume=True)
    seconds = [event.seconds for event in trained[1] if isinstance(event, Finished)]
    assert end.seconds == pytest.approx(sum(seconds[:2]) / min(n_threads, 2) + 7)


# Members that fail


def failing(errors: dict[int, Exception], started: list[float | None] | None = None) -> Any:
    """Instead of a process, an error of each member; `started` gets its minutes."""

    def start(members: Members, seed: int, _: int, minutes: float | None) -> None:
        if started is not None:
            started.append(minutes)
        members._processes[seed] = mock.Mock()
        for found in (errors[seed], None):
            members._queue.put((seed, found))

    return mock.patch.object(Members, "_start", start)


def test_a_member_that_diverged_is_left_out(out):
    members = members_of(out, 3, resume=True)
    with failing({3: DivergedError("training diverged")}):
        (event,) = list(members)
    assert (event.member, [*members.diverged]) == (None, [3])
    assert isinstance(event, Finished)
    assert event.reason == "all members are trained, but for seed 3, which diverged"
    assert event.chosen == "2 members, with the seeds 1, 2"


def test_another_error_of_a_member_is_that_of_all_and_starts_no_other(tmp_path):
    with failing({1: RunError("no space left")}), one_thread(), pytest.raises(RunError, match="no space left"):
        list(members_of(tmp_path / "run"))


@pytest.mark.medium
def test_a_process_that_dies_is_an_error_in_words(tmp_path):
    broken = mock.patch("glassformer.before.members.PROGRAM", "raise SystemExit(7)")
    with broken, pytest.raises(RunError, match="the process of a member ended before its training") as raised:
        list(members_of(tmp_path / "run"))
    assert raised.value.got == "exit code 7"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGTERM")
def test_a_signal_to_all_processes_of_a_job_is_heard_by_the_first_alone(tmp_path):
    with one_thread(), forked:
        members = members_of(tmp_path / "run")
        for event in members:
            if isinstance(event, Validated) and event.step == 4:
                os.kill(members._processes[event.member]._process.pid, signal.SIGTERM)
    assert ModelFile.load(tmp_path / "run").seeds == [1, 2]


# What is refused


def test_other_settings_tables_and_options_are_refused(out, tmp_path):
    before = digest(out)
    with pytest.raises(UsageError, match="cannot change when they are resumed"):
        members_of(out, None, resume=True, **{"training.steps": 30})
    with pytest.raises(UsageError, match="cannot change when they are resumed"):
        members_of(out, 1, resume=True)
    with pytest.raises(UsageError, match="resume and init exclude each other"):
        train(PAIRS, out=out, resume=True, init=out)
    with pytest.raises(RunError, match="the table is not the one that this run was trained on"):
        train(PAIRS[:-1], out=out, resume=True)
    with pytest.raises(RunError, match="the run already exists"):
        members_of(out)
    assert digest(out) == before


def test_a_recipe_that_was_edited_after_members_began_is_refused(out):
    recipe = out / "recipe.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("d_ff = 16", "d_ff = 32"), encoding="utf-8")
    with pytest.raises(RunError, match="the recipe of the run is not that of its member") as raised:
        members_of(out, None, resume=True)
    assert (raised.value.got, raised.value.expected) == ("model.d_ff = 32", "model.d_ff = 16")


def test_members_whose_table_changed_before_their_end_are_no_model(tmp_path):
    table = tmp_path / "pairs.tsv"
    table.write_text("".join(f"{a}\t{b}\n" for a, b in (("source", "target"), *PAIRS)), encoding="utf-8")
    with one_thread(), forked:
        events = iter(train(table, with_members(2), tmp_path / "run", device="cpu"))
        while not isinstance(next(events), Finished):
            pass
        table.write_text("".join(table.read_text(encoding="utf-8").splitlines(keepends=True)[:-1]), encoding="utf-8")
        with pytest.raises(RunError, match="the table is not the one"):
            list(events)
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_a_plan_of_one_model_does_not_replace_members_that_are_resumed(out):
    before = digest(out)
    with one_thread(), pytest.raises(RunError, match="the run already exists"):
        list(plan(PAIRS, out, resume=True).run("cpu"))
    assert digest(out) == before


def test_members_are_trained_once(out):
    members = members_of(out, None, resume=True)
    assert [event.member for event in members] == [None]
    assert members.finish().n_models == 2
    interrupted = members_of(out, 3, resume=True)
    with failing({3: RunError("no space left")}):
        with pytest.raises(RunError, match="no space left"):
            list(interrupted)
        with pytest.raises(UsageError, match="these members were interrupted"):
            list(interrupted)


def test_members_that_start_from_a_model_with_features_are_resumed(tmp_path):
    rows = [(a, b, tag) for a, b in PAIRS for tag in ("x", "y")]
    table = tmp_path / "tagged.tsv"
    table.write_text("".join("\t".join(row) + "\n" for row in [("a", "b", "tag"), *rows]), encoding="utf-8")
    data = {"source": "a", "target": "b", "features": ["tag"]}
    settings = Settings(**(with_members(2, steps=8).model_dump() | {"data": data}))
    with one_thread(), forked:
        plan(table, tmp_path / "start", overrides=settings).run("cpu").finish()
        chosen = {"data": data, "training": settings.training.model_dump()}
        train(table, out=tmp_path / "run", overrides=chosen, init=tmp_path / "start", device="cpu").finish()
        assert train(table, out=tmp_path / "run", resume=True, device="cpu").finish().n_models == 2


def test_the_model_that_members_replace_is_kept_until_theirs_is_there(out):
    before = (out / "model.safetensors").read_bytes()
    with one_thread(), forked:
        members = train(PAIRS, with_members(2, steps=8), out, overwrite=True, device="cpu")
        for event in members:
            if event.member is not None:
                assert (out / ".replaced" / "model.safetensors").read_bytes() == before
    assert not (out / ".replaced").exists()
    assert (out / "model.safetensors").read_bytes() != before


def test_members_do_not_start_from_the_model_that_they_replace(out):
    with pytest.raises(UsageError, match="cannot start from the model that they replace"):
        train(PAIRS, with_members(2), out, init=out, overwrite=True)


@pytest.mark.parametrize("metric", ["exact_match", "loss"])
def test_without_held_out_rows_the_metric_is_the_mean_of_the_members(tmp_path, metric):
    settings = with_members(2, steps=8, metric=metric)
    settings = settings.model_copy(update={"data": settings.data.model_copy(update={"valid_fraction": 0.0})})
    with one_thread(), forked:
        *_, end = train(PAIRS, settings, tmp_path / "run", device="cpu")
    values = [ModelFile.load(tmp_path / "run" / "members" / seed).metrics.value for seed in "12"]
    assert isinstance(end, Finished)
    assert end.value == pytest.approx(np.mean(values))
    assert (end.metric, ModelFile.load(tmp_path / "run").metrics.rows) == ("loss", "training")


def test_a_run_of_one_model_replaces_members_only_with_overwrite(out):
    with pytest.raises(RunError, match="the run already exists"):
        plan(PAIRS, out, overrides=SETTINGS)
    train(PAIRS, SETTINGS, out, overwrite=True, device="cpu").finish()
    assert not (out / "members").exists()
    assert ModelFile.load(out).seeds == [1]
    with pytest.raises(UsageError, match="only steps, minutes, patience and precision can change"):
        train(PAIRS, out=out, overrides={"training.members": 3}, resume=True, device="cpu")


def test_a_trial_of_a_recipe_with_members_is_resumed_as_the_one_model_that_it_is(tmp_path):
    plan(PAIRS, tmp_path / "run", overrides=with_members(2, steps=8)).run("cpu").finish()
    assert train(PAIRS, out=tmp_path / "run", resume=True, device="cpu").finish().n_models == 1


def test_a_table_that_can_be_read_once_is_enough(tmp_path):
    members = train((pair for pair in PAIRS), with_members(2), tmp_path / "run")
    assert isinstance(members, Members)
    given = pickle.loads(pickle.dumps(members._given))["pairs"]
    assert [tuple(pair) for pair in given.pairs] == [tuple(pair) for pair in PAIRS]


def test_the_sources_of_the_test_table_are_known_to_members_too(tmp_path):
    members = Members(plan(PAIRS, tmp_path / "run", overrides=with_members(2), test=PAIRS[:3]), PAIRS)
    assert [tuple(pair) for pair in members._given["test"].pairs] == PAIRS[:3]


def test_the_minutes_are_those_of_all_members_and_members_that_all_diverged_are_no_model(tmp_path):
    settings = with_members(3, max_minutes=6.0)
    started: list[float | None] = []
    errors: dict[int, Exception] = dict.fromkeys((1, 2, 3), DivergedError("training diverged"))
    with failing(errors, started), one_thread(), pytest.raises(RunError, match="all 3 members diverged"):
        list(train(PAIRS, settings, tmp_path / "run", device="cpu"))
    assert started == [2.0, 2.0, 2.0]
    started.clear()
    resumed = mock.patch.object(
        Members, "run", lambda members, seed: mock.Mock(**{"card.exists.return_value": seed < 3})
    )
    members = train(PAIRS, settings, tmp_path / "other", device="cpu")
    with failing(errors, started), one_thread(), resumed:
        list(members._train())
    assert started == [2.0]
    assert not (tmp_path / "run" / "model.safetensors").exists()
