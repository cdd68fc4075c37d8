"""Trials of a few settings: seconds of budget on a tiny table, interrupted and continued."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.before import tune
from glassformer.before.recipes.overrides import read_recipe
from glassformer.before.tune import BEST, Tuning
from glassformer.data.datasets import dates
from glassformer.errors import MissingExtraError, RunError, UsageError
from glassformer.paper.settings import Settings
from glassformer.training.events import Event, Finished, Started, Validated
from tests.tiny import OVERRIDES

pytest.importorskip("optuna")

ROWS = dates(60, seed=7)
SMALL = OVERRIDES | {
    "training.steps": 40,
    "training.validate_every": 10,
    "training.metric": "loss",
    "decoding.num_beams": 1,
}


def tuning_of(out: Path, minutes: float = 10, **changes: Any) -> Tuning:
    return Tuning(ROWS, out, minutes=minutes, overrides=SMALL | changes, device="cpu")


def until(tuning: Tuning, number: int, kind: type[Event]) -> Iterator[tuple[int, Event]]:
    """The events until the first of a kind in a trial; the tuning is then stopped."""
    for current, event in tuning:
        yield current, event
        if current == number and isinstance(event, kind):
            tuning.stop()


@pytest.fixture(scope="module")
def two_trials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two finished trials."""
    out = tmp_path_factory.mktemp("study") / "out"
    assert list(until(tuning_of(out), 1, Finished))
    return out


@pytest.mark.medium
def test_the_first_trial_is_the_advised_training_and_the_best_one_is_a_recipe(two_trials: Path) -> None:
    tuning = tuning_of(two_trials)
    assert [(trial.number, trial.state) for trial in tuning.trials] == [(0, "finished"), (1, "finished")]
    first = read_recipe(tuning.run_directory(0).recipe)
    assert Settings(**first) == tuning.advised.settings
    values = [trial.value for trial in tuning.trials]
    assert tuning.best is not None
    assert tuning.best.number == values.index(min(values))  # type: ignore[type-var]
    assert (two_trials / BEST).read_text() == tuning.run_directory(tuning.best.number).recipe.read_text()
    chosen = Settings(**read_recipe(two_trials / BEST))
    assert chosen.training.learning_rate == tuning.best.settings["training.learning_rate"]


@pytest.mark.medium
def test_an_interrupted_trial_continues_from_its_checkpoint_with_its_settings(tmp_path: Path) -> None:
    events = list(until(tuning_of(tmp_path), 0, Validated))
    stopped = events[-1][1].step
    (trial,) = tuning_of(tmp_path).trials
    assert (trial.state, stopped < SMALL["training.steps"], trial.minutes > 0) == ("interrupted", True, True)
    again = tuning_of(tmp_path)
    events = list(until(again, 0, Finished))
    started = events[0][1]
    assert isinstance(started, Started)
    assert (started.resumed, started.step) == (True, stopped)
    assert [(one.number, one.state) for one in again.trials] == [(0, "finished")]
    assert again.trials[0].settings == trial.settings
    assert again.trials[0].minutes > trial.minutes


@pytest.mark.medium
def test_a_trial_that_is_worse_than_the_others_is_stopped_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "COMPARED", 1)
    tuning = tuning_of(tmp_path)
    list(until(tuning, 0, Finished))
    slow = tuning.trials[0].settings | {"training.learning_rate": tuning.advised.settings.training.learning_rate / 5}
    tuning = tuning_of(tmp_path)
    tuning.study.enqueue_trial(dict(slow))
    steps = [event.step for number, event in until(tuning, 2, Started) if number == 1]
    assert max(steps) < SMALL["training.steps"]
    assert [trial.state for trial in tuning.trials][:2] == ["finished", "stopped early"]
    assert tuning.best is not None
    assert tuning.best.number == 0


@pytest.mark.medium
def test_a_trial_that_fails_is_noted_and_several_in_a_row_end_the_tuning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tune.plan

    def failing(pairs: Any, out: Path, **options: Any) -> Any:
        if out.name > "trial-000":
            raise RunError("training diverged")
        return plan(pairs, out, **options)

    monkeypatch.setattr(tune, "plan", failing)
    tuning = tuning_of(tmp_path)
    with pytest.raises(RunError, match="training diverged"):
        list(tuning)
    noted = [(trial.state, trial.error) for trial in tuning.trials]
    assert noted == [("finished", ""), ("failed", "training diverged"), ("failed", "training diverged"), noted[3]]
    assert noted[3][0] == "interrupted"  # it is tried again by the next call
    assert (tmp_path / BEST).exists()


@pytest.mark.medium
def test_a_time_too_short_for_one_trial_says_how_much_it_needs(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="before the training with the advised settings was finished") as caught:
        list(tuning_of(tmp_path, minutes=0.0001))
    assert str(caught.value.got).endswith("of 40 steps")
    assert "--minutes 20 continues it" in str(caught.value.hint)
    events = [event for _, event in until(tuning_of(tmp_path), 0, Finished)]
    assert any(isinstance(event, Finished) for event in events)
    assert not list(tuning_of(tmp_path, minutes=0.0001))  # the time is over


def test_settings_that_are_given_are_not_tuned(tmp_path: Path) -> None:
    assert set(tuning_of(tmp_path / "a").space) == {"training.learning_rate", "training.batch_tokens", "model.dropout"}
    wide = Tuning(ROWS, tmp_path / "b", minutes=1, overrides={"model.dropout": 0.1})
    assert wide.space["model.d_model"].choices == (64, 128, 256)  # type: ignore[attr-defined]
    all_given = {"training.learning_rate": 0.1, "training.batch_tokens": 500, "model.dropout": 0.1}
    with pytest.raises(UsageError, match="there is nothing to tune"):
        tuning_of(tmp_path / "c", **all_given)
    assert not (tmp_path / "c").exists()


def test_a_wider_trial_has_a_wider_feed_forward_network(tmp_path: Path) -> None:
    tuning = Tuning(ROWS, tmp_path, minutes=1)
    model = tuning._plan(tmp_path / "x", {"model.d_model": 256}).settings.model
    assert (model.d_model, model.d_ff, model.d_k) == (256, 512, 64)


def test_another_table_a_damaged_study_and_other_files_are_refused(tmp_path: Path) -> None:
    tuning_of(tmp_path / "a")
    with pytest.raises(RunError, match="of another table or of other settings"):
        tuning_of(tmp_path / "a", **{"training.steps": 50})
    with pytest.raises(RunError, match="of another table or of other settings"):
        Tuning(ROWS[1:], tmp_path / "a", minutes=1, overrides=SMALL)
    for damage in (b"no JSON\n\n", b"{}\n", b'{"op_code": 99, "worker_id": 1}\n', b"\xff\xfe\x00\n\n"):
        (tmp_path / "a" / "study.log").write_bytes(damage)
        with pytest.raises(RunError, match="the study is damaged") as caught:
            tuning_of(tmp_path / "a")
        assert caught.value.where == str(tmp_path / "a" / "study.log")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.txt").write_text("")
    with pytest.raises(RunError, match="the folder is not empty"):
        tuning_of(tmp_path / "b")


def test_without_optuna_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match="needs the package 'optuna'") as caught:
        tuning_of(tmp_path)
    assert caught.value.hint == "pip install 'glassformer[tune]'"
