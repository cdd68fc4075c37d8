"""A run that is resumed with other settings: what may change, what is recorded, and how it continues."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from glassformer.errors import UsageError
from glassformer.storage.modelfile import ModelFile
from glassformer.training import Finished, Stopped, Validated
from glassformer.training.train import train
from tests.training.test_loop import PAIRS, scripted, settings, weight_list


def stopped_after(step, path, chosen):
    run = train(PAIRS, chosen, path, device="cpu")
    update = run.update

    def update_and_stop(batches):
        if run.position.step == step - 1:
            run.stop()
        return update(batches)

    run.update = update_and_stop
    assert isinstance(list(run)[-1], Stopped)


def resumed(path, **overrides):
    names = {name.replace("__", "."): value for name, value in overrides.items()}
    return train(PAIRS, None, path, overrides=names, resume=True, device="cpu")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("stopped") / "run"
    stopped_after(2, path, settings(training={"steps": 50}))
    return path


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data.valid_fraction", 0.5),
        ("training.learning_rate", 0.5),
        ("decoding.num_beams", 3),
    ],
)
def test_another_setting_cannot_change_and_the_error_says_to_start_anew(stopped, name, value):
    with pytest.raises(UsageError, match="only steps, minutes, patience and precision can change") as caught:
        resumed(stopped, **{name: value}, training__steps=60)
    assert caught.value.got == f"{name} = {value}"
    assert caught.value.expected.startswith(f"{name} = ")
    assert caught.value.hint == "start a new run from its model, in another folder: --init RUN"


def test_fewer_steps_than_were_made_are_refused(stopped):
    with pytest.raises(UsageError, match="the run has already made 2 steps") as caught:
        resumed(stopped, training__steps=1)
    assert (caught.value.got, caught.value.expected) == ("training.steps = 1", "no fewer")


# A finished run


def test_a_finished_run_continues_as_if_it_had_had_more_steps_from_the_beginning(tmp_path):
    training = {"schedule": "noam", "learning_rate": 0.1, "warmup_steps": 3, "average_last": 0, "keep_snapshots": 0}
    train(PAIRS, settings(training=training | {"steps": 4}), tmp_path / "run", device="cpu").finish()
    run = resumed(tmp_path / "run", training__steps=7)
    run.finish()
    whole = train(PAIRS, settings(training=training | {"steps": 7}), tmp_path / "whole", device="cpu")
    whole.finish()
    assert all(map(torch.equal, weight_list(run), weight_list(whole)))


def test_the_mean_that_a_finished_run_chose_is_kept_until_something_is_better(tmp_path, monkeypatch):
    training = {"steps": 2, "validate_every": 1, "average_last": 2}
    # two validations; the best, and the mean of both, at the end: the mean is better
    scripted(monkeypatch, (0.1, 1), (0.3, 1), (0.3, 1), (0.8, 1))
    run = train(PAIRS, settings(training=training), tmp_path / "run", device="cpu")
    finished = list(run)[-1]
    assert finished.chosen == "the mean of the last 2 validations"
    mean = ModelFile.load(run.directory.model).tensors
    # the mean is measured as a validation does; one validation that is worse; at the end the mean, and a worse new mean
    scripted(monkeypatch, (0.7, 1), (0.5, 1), (0.8, 1), (0.6, 1))
    events = list(resumed(tmp_path / "run", training__steps=3))
    assert [event.best for event in events if isinstance(event, Validated)] == [False]
    assert (events[-1].chosen, events[-1].value) == ("the mean of the last 2 validations", 0.8)
    kept = ModelFile.load(run.directory.model)
    assert all(np.array_equal(kept.tensors[name], mean[name]) for name in mean)
    assert kept.settings.training.steps == 3
    # and the next one is better
    scripted(monkeypatch, (0.7, 1), (0.9, 1), (0.9, 1), (0.1, 1))
    events = list(resumed(tmp_path / "run", training__steps=4))
    assert [event.best for event in events if isinstance(event, Validated)] == [True]
    assert events[-1].chosen == "the best validation"


def test_patience_counts_again_after_a_change(tmp_path, monkeypatch):
    training = {"steps": 50, "validate_every": 1, "patience": 2, "average_last": 0}
    scripted(monkeypatch, *[(0.5, 1)] * 6)
    first = list(train(PAIRS, settings(training=training), tmp_path / "run", device="cpu"))[-1]
    assert (first.step, first.reason) == (3, "no gain in 2 validations")
    again = list(resumed(tmp_path / "run", training__patience=3))[-1]
    assert isinstance(again, Finished)
    assert again.step == 6


# What is recorded


def test_each_change_is_in_the_history_and_the_recipe_has_the_last_ones(tmp_path):
    stopped_after(2, tmp_path / "run", settings(training={"steps": 50}))
    run = resumed(tmp_path / "run", training__max_minutes=9)
    run.stop()
    list(run)
    run = resumed(tmp_path / "run", training__steps=4)
    run.finish()
    history = [json.loads(line) for line in run.directory.history.read_text("utf-8").splitlines()]
    changes = [line["changes"] for line in history if line["event"] == "started"]
    assert changes == [[], ["training.max_minutes: None → 9.0"], ["training.steps: 50 → 4"]]
    assert "max_minutes = 9.0\n" in run.directory.recipe.read_text("utf-8")


def test_a_process_killed_between_recipe_and_checkpoint_can_be_resumed(tmp_path):
    chosen = settings(training={"steps": 50})
    stopped_after(2, tmp_path / "run", chosen)
    recipe = tmp_path / "run" / "recipe.toml"
    recipe.write_text(recipe.read_text("utf-8").replace("steps = 50\n", "steps = 5\n"), encoding="utf-8")
    resumed(tmp_path / "run", training__steps=5).finish()
    assert "steps = 5\n" in recipe.read_text("utf-8")
