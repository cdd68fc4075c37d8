"""A run that is resumed with other settings: what may change, what is recorded, and where its epoch continues."""

from __future__ import annotations

import json
import tomllib

import numpy as np
import pytest
import torch

from glassformer.before.members import train
from glassformer.before.resume import changes_of
from glassformer.errors import UsageError
from glassformer.paper.settings import Settings, all_settings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.training import Finished, Progress, Stopped, Validated
from glassformer.training.checkpoints import read_resume
from glassformer.training.events import Change
from glassformer.training.output import recipe_of
from glassformer.training.validation import Measured, Validator
from tests.training.test_loop import PAIRS, settings, weight_list


def stopped_after(step, path, chosen):
    stop_after(step, train(PAIRS, chosen, path, device="cpu"))


def stop_after(step, run):
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


# What may change


def other(value):
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int() | float():
            return value / 2 or 0.25 if isinstance(value, float) else value + 1
        case None:
            return 2
    return None


@pytest.mark.parametrize("name", [name for name in all_settings() if name.startswith("training.")])
def test_every_training_setting_can_change_or_says_why_not(tmp_path, name):
    key = name.removeprefix("training.")
    value = {"schedule": "cosine", "precision": "float32", "metric": "bleu"}.get(
        key, other(getattr(Settings().training, key))
    )
    after = Settings(training={key: value})
    if key in ("seed", "members", "metric", "validate_beams", "validate_rows"):
        with pytest.raises(
            UsageError, match=f"the setting '{name}' cannot change in a run that is resumed: "
        ) as caught:
            changes_of(Settings(), after, 7, tmp_path)
        assert "what can change: decoding.…, and training.… except seed, members, metric" in caught.value.hint
    else:
        (change,) = changes_of(Settings(), after, 7, tmp_path)
        assert (change.setting, change.after, change.step) == (name, value, 7)


def test_a_recipe_with_changes_is_a_recipe():
    change = Change("training.max_minutes", None, 1.5, 1200, "2026-01-02T03:04:05+00:00")
    text = recipe_of(Settings(), [change])
    assert "#   training.max_minutes: unset → 1.5 (after step 1,200, 2026-01-02T03:04:05+00:00)" in text
    assert Settings(**tomllib.loads(text)) == Settings()
    assert recipe_of(Settings(), []) == Settings().to_toml()


# The position in the epoch


@pytest.mark.parametrize("sizes", [(300,), (90, 160), (2000,)])
def test_no_row_of_the_epoch_is_repeated_or_lost_after_other_batches(tmp_path, sizes):
    chosen = settings(training={"steps": 1000, "batch_tokens": 200})
    stopped_after(2, tmp_path / "run", chosen)
    run = train(PAIRS, chosen, tmp_path / "plan", device="cpu")
    seen = [rows for batches in list(run._rest_of_epoch())[:2] for rows in batches]
    for batch_tokens in sizes:
        run = resumed(tmp_path / "run", training__batch_tokens=batch_tokens)
        before = run.update

        def once(batches, run=run, before=before):
            seen.extend(batches)
            run.stop()
            return before(batches)

        run.update = once
        list(run)
    if run.position.epoch == 0:
        rest = list(resumed_plan(tmp_path / "run"))
        seen += [rows for batches in rest for rows in batches]
    assert sorted(np.concatenate(seen).tolist()) == list(range(len(run.prepared.train)))


def resumed_plan(path):
    """The rest of the epoch of a run that is resumed without changes."""
    run = resumed(path)
    run.position = read_resume(run.directory.resume).position
    return run._rest_of_epoch()


def test_after_other_batches_a_second_interruption_changes_nothing(tmp_path):
    chosen = settings(training={"steps": 9})
    for name, stops in (("once", ()), ("twice", (3, 4))):
        stop_after(2, train(PAIRS, chosen, tmp_path / name, device="cpu"))
        run = resumed(tmp_path / name, training__batch_tokens=120, training__accumulate=2)
        for step in stops:
            stop_after(step, run)
            run = resumed(tmp_path / name)
        run.finish()
    once, twice = (ModelFile.load(tmp_path / name).tensors for name in ("once", "twice"))
    assert all(np.array_equal(once[name], twice[name]) for name in once)


# A finished run


def test_a_finished_run_continues_as_if_it_had_had_more_steps_from_the_beginning(tmp_path):
    training = {"schedule": "noam", "learning_rate": 0.1, "warmup_steps": 3, "average_last": 0, "keep_snapshots": 0}
    train(PAIRS, settings(training=training | {"steps": 4}), tmp_path / "run", device="cpu").finish()
    run = resumed(tmp_path / "run", training__steps=7)
    run.finish()
    whole = train(PAIRS, settings(training=training | {"steps": 7}), tmp_path / "whole", device="cpu")
    whole.finish()
    assert all(map(torch.equal, weight_list(run), weight_list(whole)))


@pytest.mark.usefixtures("every_update_tells")
def test_a_cosine_continues_on_the_curve_of_the_new_steps(tmp_path):
    training = {"schedule": "cosine", "learning_rate": 0.01, "steps": 4}
    train(PAIRS, settings(training=training), tmp_path / "run", device="cpu").finish()
    rates = [
        event.learning_rate for event in resumed(tmp_path / "run", training__steps=8) if isinstance(event, Progress)
    ]
    assert rates == pytest.approx([0.01 * 0.5 * (1 + np.cos(np.pi * (step - 1) / 7)) for step in (5, 6, 7, 8)])


def scripted(monkeypatch, *values):
    """Validations of these values, instead of measured ones."""
    left = iter(values)
    monkeypatch.setattr(Validator, "measure", lambda self, as_used=False: Measured(1.0, next(left), ()))


def test_the_mean_that_a_finished_run_chose_is_kept_until_something_is_better(tmp_path, monkeypatch):
    training = {"steps": 2, "validate_every": 1, "average_last": 2}
    # two validations; the best, and the mean of both, at the end: the mean is better
    scripted(monkeypatch, 0.1, 0.3, 0.3, 0.8)
    run = train(PAIRS, settings(training=training), tmp_path / "run", device="cpu")
    finished = list(run)[-1]
    assert finished.chosen == "the mean of the last 2 validations"
    mean = ModelFile.load(run.directory.model).tensors
    # the mean is measured as a validation does; one validation that is worse; at the end the mean, and a worse new mean
    scripted(monkeypatch, 0.7, 0.5, 0.8, 0.6)
    events = list(resumed(tmp_path / "run", training__steps=3))
    assert [event.best for event in events if isinstance(event, Validated)] == [False]
    assert (events[-1].chosen, events[-1].value) == ("the mean of the last 2 validations", 0.8)
    kept = ModelFile.load(run.directory.model)
    assert all(np.array_equal(kept.tensors[name], mean[name]) for name in mean)
    assert kept.settings.training.steps == 3
    # and the next one is better
    scripted(monkeypatch, 0.7, 0.9, 0.9, 0.1)
    events = list(resumed(tmp_path / "run", training__steps=4))
    assert [event.best for event in events if isinstance(event, Validated)] == [True]
    assert events[-1].chosen == "the best validation"


def test_patience_counts_again_after_a_change(tmp_path, monkeypatch):
    training = {"steps": 50, "validate_every": 1, "patience": 2, "average_last": 0}
    monkeypatch.setattr(Validator, "measure", lambda self, as_used=False: Measured(1.0, 0.5, ()))
    first = list(train(PAIRS, settings(training=training), tmp_path / "run", device="cpu"))[-1]
    assert (first.step, first.reason) == (3, "no better exact_match in 2 validations")
    again = list(resumed(tmp_path / "run", training__learning_rate=0.001))[-1]
    assert isinstance(again, Finished)
    assert again.step == 5


def test_fewer_steps_than_are_done_end_the_run(tmp_path):
    stopped_after(3, tmp_path / "run", settings(training={"steps": 50}))
    events = list(resumed(tmp_path / "run", training__steps=2))
    assert [type(event).__name__ for event in events] == ["Started", "Validated", "Finished"]
    assert events[-1].step == 3


# What is recorded


def test_changes_are_kept_over_several_resumes(tmp_path):
    stopped_after(2, tmp_path / "run", settings(training={"steps": 50}))
    run = resumed(tmp_path / "run", training__learning_rate=0.5)
    run.stop()
    list(run)
    run = resumed(tmp_path / "run", training__steps=4)
    run.finish()
    recipe, card = (path.read_text("utf-8") for path in (run.directory.recipe, run.directory.card))
    for text in ("training.learning_rate: 0.01 → 0.5", "training.steps: 50 → 4"):
        assert text in recipe
        assert text in card
    assert [change.setting for change in read_resume(run.directory.resume).changes] == [
        *("training.learning_rate", "training.steps")
    ]
    history = [json.loads(line) for line in run.directory.history.read_text("utf-8").splitlines()]
    _, (first,), (second,) = [line["changes"] for line in history if line["event"] == "started"]
    assert (first["setting"], first["before"], first["after"], first["step"]) == (
        "training.learning_rate",
        0.01,
        0.5,
        2,
    )
    assert f"| changed after step 2, {second['time']} | training.steps: 50 → 4 |\n" in card


def test_a_process_killed_between_resume_file_and_recipe_can_be_resumed(tmp_path):
    stopped_after(2, tmp_path / "run", settings(training={"steps": 50}))
    before = (tmp_path / "run" / "recipe.toml").read_bytes()
    run = resumed(tmp_path / "run", training__steps=5)
    run.stop()
    list(run)
    (tmp_path / "run" / "recipe.toml").write_bytes(before)
    again = resumed(tmp_path / "run")
    assert again.settings.training.steps == 5
    again.finish()
    assert "steps = 5\n" in again.directory.recipe.read_text("utf-8")
