"""Runs compared."""

from __future__ import annotations

import json

import pytest

from glassformer.before.runs import compare_runs
from glassformer.errors import RunError
from glassformer.paper.settings import Settings
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.history import HistoryEvent


def event(kind, step, **fields):
    return HistoryEvent(
        1, {"event": kind, "step": step, "seconds": 60.0 * step if isinstance(step, int) else 0} | fields
    )


def validated(step, value, *, loss=1.0, best=True, metric="exact_match"):
    return event("validated", step, loss=loss, value=value, metric=metric, best=best)


# Comparison


def run_of(path, events, **training):
    path.mkdir()
    (path / "recipe.toml").write_text(Settings(training=training).to_toml(), encoding="utf-8")
    lines = "".join(json.dumps(event.fields) + "\n" for event in events)
    (path / "history.jsonl").write_text(lines, encoding="utf-8")


STARTED = event("started", 0, n_parameters=1000, train_rows=90, steps=10)


def test_runs_are_sorted_by_the_metric_with_the_settings_that_differ(tmp_path):
    run_of(tmp_path / "a", [STARTED, validated(5, 0.5), event("finished", 10, value=0.6)], seed=1, steps=10)
    run_of(
        tmp_path / "d",
        [STARTED, validated(5, 0.4), event("finished", 10, value=0.5, chosen="the mean of 2")],
        seed=4,
        steps=10,
    )
    run_of(tmp_path / "b", [STARTED, event("progress", 3, tokens_per_second=7.0), validated(4, 0.9)], seed=2, steps=10)
    run_of(tmp_path / "c", [STARTED], seed=3, steps=10)
    compared = compare_runs(tmp_path)
    assert [(run.name, run.state, run.step, run.value, run.best_step) for run in compared.runs] == [
        ("b", "stopped", 4, 0.9, 4),
        ("a", "finished", 10, 0.6, 5),
        ("d", "finished", 10, 0.5, None),
        ("c", "stopped", 0, None, None),
    ]
    assert [run.settings for run in compared.runs] == [{"training.seed": n} for n in (2, 1, 4, 3)]
    best = compared.runs[0]
    assert (best.n_parameters, best.train_rows, best.steps, best.minutes, best.tokens_per_second) == (
        *(1000, 90, 10, 4.0, 7.0),
    )


def test_a_smaller_error_rate_and_a_smaller_loss_are_better(tmp_path):
    for metric in ("token_error_rate", "loss"):
        folder = tmp_path / metric
        folder.mkdir()
        run_of(folder / "a", [validated(1, 0.5, metric=metric)])
        run_of(folder / "b", [validated(1, 0.2, metric=metric)])
        assert [run.name for run in compare_runs(folder).runs] == ["b", "a"]


def test_damaged_and_foreign_folders_are_named_and_the_rest_is_compared(tmp_path):
    run_of(tmp_path / "cut", [])
    (tmp_path / "cut" / "history.jsonl").write_text("{}\n{x\n", encoding="utf-8")
    run_of(tmp_path / "odd", [event("progress", [1], tokens_per_second="fast")])
    run_of(tmp_path / "worse", [validated(1, "x")])
    run_of(tmp_path / "old", [STARTED])
    (tmp_path / "old" / "recipe.toml").write_text("[training]\nstepps = 1\n", encoding="utf-8")
    run_of(tmp_path / "early", [])
    (tmp_path / "early" / "history.jsonl").unlink()
    run_of(tmp_path / "several", [])
    (tmp_path / "several" / "members").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(RunError, match=r"(?s)there is no run to read.*odd: its history is damaged"):
        compare_runs(tmp_path)
    run_of(tmp_path / "good", [STARTED])
    compared = compare_runs(tmp_path)
    assert [run.name for run in compared.runs] == ["good"]
    assert {name: reason[:34] for name, reason in compared.left_out.items()} == {
        "cut": "cannot read the history of the run",
        "data": "not a run: it has no recipe.toml",
        "early": "a run without a history: it ended ",
        "odd": "its history is damaged: could not ",
        "old": "there is no setting 'training.step",
        "several": "a run of several models, which are",
        "worse": "its history is damaged: could not ",
    }


def test_the_directory_of_one_run_shows_that_run(tmp_path):
    run_of(tmp_path / "a", [STARTED])
    assert [run.name for run in compare_runs(tmp_path / "a").runs] == ["a"]


def test_a_run_that_trains_now_is_running_and_one_with_an_old_lock_file_is_not(tmp_path):
    run_of(tmp_path / "a", [STARTED])
    with RunDirectory(tmp_path / "a").locked():
        assert compare_runs(tmp_path).runs[0].state == "running"
    (tmp_path / "a" / ".lock").touch()
    assert compare_runs(tmp_path).runs[0].state == "stopped"


@pytest.mark.parametrize(("name", "what"), [("absent", "this is not a directory"), (".", "there is no run in this")])
def test_a_directory_that_is_absent_or_empty_is_an_error(tmp_path, name, what):
    with pytest.raises(RunError, match=what):
        compare_runs(tmp_path / name)
