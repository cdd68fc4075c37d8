"""The loop of training: one update is what the paper says, and a run ends, stops, resumes and chooses as set."""

from __future__ import annotations

import json
import math
from contextlib import nullcontext
from itertools import islice, pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from glassformer.data.batches import batches_of_epoch
from glassformer.data.datasets import dates
from glassformer.data.pairs import fingerprint
from glassformer.errors import RunError, UsageError
from glassformer.planning.recipes.overrides import merge
from glassformer.settings import Settings
from glassformer.storage.checkpoints import Decay
from glassformer.storage.modelfile import ModelFile
from glassformer.training import Decaying, Finished, Progress, Run, Saved, Started, Stopped, Validated
from glassformer.training.train import train
from glassformer.training.update import Updater
from glassformer.training.validation import Measurement, Validator
from tests import tiny
from tests.untrained import logits_of

PAIRS = dates(40, seed=5)
TINY = {
    "data": {"valid_fraction": 0.2},
    "model": {"d_model": 16, "d_ff": 16, "dropout": 0.0, "tied_embeddings": "target", "norm": "pre"},
    "training": {
        "steps": 6,
        "batch_tokens": 200,
        "schedule": "constant",
        "learning_rate": 0.01,
        "warmup_steps": 0,
        "precision": "float32",
        "validate_every": 100,
        "validate_rows": 2,
        "label_smoothing": 0.0,
    },
    "decoding": {"num_beams": 1, "max_new_tokens": 6},
}


def settings(**sections: dict) -> Settings:
    return tiny.settings(**merge(TINY, sections))


def start(out: Path, **sections: dict) -> Run:
    return train(PAIRS, settings(**sections), out / "run", device="cpu")


def resumed(out: Path, **options: Any) -> Run:
    return train(PAIRS, None, out / "run", resume=True, device="cpu", **options)


def weight_list(run: Run) -> list[torch.Tensor]:
    return [value.detach().clone() for value in run.model.parameters()]


def mean_loss(run: Run, smoothing: float = 0.0) -> torch.Tensor:
    """The loss of all rows of training, each row alone and unpadded, summed and divided by all target tokens."""
    corpus, total, n_tokens = run.prepared.train, torch.zeros(()), 0
    run.model.train()
    for row in range(len(corpus)):
        source, ids = (torch.from_numpy(side.packed(np.array([row])))[None] for side in (corpus.source, corpus.target))
        log_probs = logits_of(run.model, source, ids[:, :-1]).log_softmax(-1)[0]
        chosen = log_probs[torch.arange(ids.shape[1] - 1), ids[0, 1:]]
        total = total - (1 - smoothing) * chosen.sum() - smoothing * log_probs.mean(-1).sum()
        n_tokens += ids.shape[1] - 1
    return total / n_tokens


# One update


@pytest.mark.usefixtures("every_update_tells")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_target_tokens(tmp_path, smoothing):
    training = {"batch_tokens": 10_000, "label_smoothing": smoothing}
    run = start(tmp_path, data={"valid_fraction": 0.0}, training=training)
    wanted, plain = mean_loss(run, smoothing).item(), mean_loss(run).item()
    first = next(event for event in run if isinstance(event, Progress))
    assert first.step == 1
    assert first.loss == pytest.approx(wanted, rel=1e-5)
    assert first.perplexity == pytest.approx(math.exp(plain), rel=1e-4)


def test_one_update_is_adams_for_the_mean_over_tokens(tmp_path):
    training = {"steps": 1, "batch_tokens": 10_000, "learning_rate": 0.5, "epsilon": 1.0}
    run = start(tmp_path, data={"valid_fraction": 0.0}, training=training)
    values = list(run.model.parameters())
    gradients = torch.autograd.grad(mean_loss(run), values)
    # The first step of Adam has both means equal to the gradient and its square.
    updated = [
        value.detach() - 0.5 * gradient / (gradient.abs() + 1.0)
        for value, gradient in zip(values, gradients, strict=True)
    ]
    run.finish()
    torch.testing.assert_close(weight_list(run), updated, atol=1e-5, rtol=0)


def test_accumulated_batches_are_one_larger_batch(tmp_path):
    ends = []
    rows = [(f"{n}a", "bc" * (1 + 4 * (n % 2))) for n in range(16)]  # of two lengths: a mean of means would differ
    for name, changes in (("one", {"batch_tokens": 10_000}), ("many", {"batch_tokens": 30, "accumulate": 100})):
        training = {"steps": 2, "learning_rate": 0.5, "epsilon": 1.0, "clip_norm": 0.5} | changes
        chosen = settings(data={"valid_fraction": 0.0}, training=training)
        run = train(rows, chosen, tmp_path / name, device="cpu")
        assert (len(batches_of_epoch(run.prepared.train, run.settings.training, 0)) > 3) == (name == "many")
        run.finish()
        assert run.position.step == 2
        ends.append(weight_list(run))
    torch.testing.assert_close(*ends, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("every_update_tells")
def test_the_gradient_is_clipped_and_its_norm_is_told_as_it_was(tmp_path):
    norms, moved = [], []
    for name, clip in (("free", 0.0), ("clipped", 0.01)):
        training = {"steps": 1, "clip_norm": clip, "epsilon": 1.0, "batch_tokens": 10_000}
        run = train(PAIRS, settings(training=training), tmp_path / name, device="cpu")
        before = weight_list(run)
        norms += [event.gradient_norm for event in run if isinstance(event, Progress)]
        moves = [new - old for new, old in zip(weight_list(run), before, strict=True)]
        moved.append(sum(move.square().sum().item() for move in moves) ** 0.5)
    assert norms[0] == norms[1] > 0.01
    assert moved[1] <= 0.01 * 0.01 * 1.001  # the rate times the clipped norm
    assert moved[0] > moved[1]


# How a run ends


def scripted(monkeypatch, *measured: tuple[float, float], averages: bool = False) -> None:
    """Validations that find these values of the metric and losses, one after the other; `averages`: of wsd, too."""
    found = iter([Measurement(loss, value, ()) for value, loss in measured])
    if not averages:
        monkeypatch.setattr(Updater, "has_averages", False)
    monkeypatch.setattr(Validator, "measure", lambda _self, **_how: next(found))


def outcome(run: Run) -> tuple[list[Validated], Finished]:
    events = list(run)
    assert isinstance(events[-1], Finished)
    return [event for event in events if isinstance(event, Validated)], events[-1]


def test_a_run_ends_when_validation_finds_nothing_better(tmp_path, monkeypatch):
    scripted(monkeypatch, (0.1, 3), (0.5, 2), (0.4, 1.99), (0.5, 2), (0.9, 1))
    training = {"steps": 100, "validate_every": 3, "patience": 2, "average_last": 0}
    run = start(tmp_path, training=training)
    validated, finished = outcome(run)
    assert [event.best for event in validated] == [True, True, False, False]
    assert finished.step == 12
    assert finished.reason == "no gain in 2 validations"
    assert finished.value == 0.5
    assert ModelFile.load(tmp_path / "run").metrics.step == 6


VALUES = [(0.5, 2), (0.5, 1.98), (0.5, 1.979), (0.4, 1.97), (0.5, 1.98), (0.5, 2.1), (0.5, 2.2), (0.6, 3), (0.7, 4)]


@pytest.mark.parametrize(("patience", "after", "last_step"), [(2, 3, 4), (4, 8, 10), (0, 8, 10)])
def test_wsd_decays_when_neither_metric_nor_loss_has_a_gain(tmp_path, monkeypatch, patience, after, last_step):
    scripted(monkeypatch, *VALUES, (0.8, 5))
    training = {"steps": 10, "validate_every": 1, "patience": patience, "average_last": 0, "schedule": "wsd"}
    run = start(tmp_path, training=training | {"warmup_steps": 0, "learning_rate": 0.01})
    (decaying,) = [event for event in run if isinstance(event, Decaying)]
    assert (decaying.step, decaying.last_step, run.position.step) == (after, last_step, last_step)
    assert run.updater.learning_rate == 0
    assert decaying.reason == ("no gain in 2 validations" if patience == 2 else "all steps done")


@pytest.mark.parametrize("patience", [0, 3])
def test_wsd_decays_after_a_validation_without_a_gain_where_every_answer_was_right(tmp_path, monkeypatch, patience):
    scripted(monkeypatch, (0.5, 3), (1.0, 2), (1.0, 1), (0.9, 1), (1.0, 0.9), (1.0, 0.8), (1.0, 0.7), (1.0, 0.6))
    training = {"steps": 16, "validate_every": 2, "patience": patience, "average_last": 0, "schedule": "wsd"}
    (decaying,) = [event for event in start(tmp_path, training=training) if isinstance(event, Decaying)]
    right, all_steps = "every held-out answer was right", "all steps done"
    assert (decaying.step, decaying.reason) == ((8, right) if patience else (13, all_steps))


def test_the_averages_of_wsd_follow_the_weights_over_a_quarter_of_the_steps_until_the_decay(tmp_path):
    updater = start(tmp_path, training={"steps": 30, "schedule": "wsd"}).updater
    means: list[torch.Tensor] = []
    for batches in islice(updater.batches(), 30):
        updater.update(batches)
        weights, step = [weight.detach().clone() for weight in updater.model.parameters()], updater.position.step
        means = [
            mean + (weight - mean) / max(1, step / 4) for mean, weight in zip(means or weights, weights, strict=True)
        ]
        with updater.averaged_weights():
            torch.testing.assert_close(list(updater.model.parameters()), means, atol=1e-6, rtol=1e-5)
        assert all(map(torch.equal, updater.model.parameters(), weights))
    assert not all(map(torch.equal, means, weights))
    updater.position.decay = Decay(30, 38, "")
    assert not updater.has_averages


@pytest.mark.parametrize("average", [0.7, 0.4])
def test_a_validation_of_wsd_takes_the_averages_of_the_weights_where_they_are_better(tmp_path, monkeypatch, average):
    scripted(monkeypatch, (0.5, 3), (average, 4), averages=True)
    training = {"steps": 20, "validate_every": 15, "average_last": 0, "schedule": "wsd", "keep_snapshots": 0}
    run = start(tmp_path, training=training)
    validated = next(event for event in run if isinstance(event, Validated))
    assert validated.value == max(0.5, average)
    saved = ModelFile.load(run.directory.model).tensors
    with run.updater.averaged_weights() if average > 0.5 else nullcontext():
        assert all(np.array_equal(saved[name], weight.detach()) for name, weight in run.model.named_parameters())


@pytest.mark.parametrize("stopped", [18, 27])
def test_a_resumed_run_continues_the_mean_of_its_weights_and_its_decay(tmp_path, stopped):
    training = {"steps": 30, "validate_every": 9, "average_last": 0, "schedule": "wsd", "warmup_steps": 0}
    run = start(tmp_path, training=training)
    for event in run:
        if isinstance(event, Saved) and event.step == stopped:
            run.stop()
    run, whole = resumed(tmp_path), start(tmp_path / "whole", training=training)
    events, all_events = list(run), list(whole)
    assert any(isinstance(event, Decaying) for event in events) == (stopped < 24)
    losses = {event.step: event.loss for event in all_events if isinstance(event, Validated)}
    assert {event.step: event.loss for event in events if isinstance(event, Validated)} == {
        step: loss for step, loss in losses.items() if step > stopped
    }
    assert all(map(torch.equal, weight_list(run), weight_list(whole)))


@pytest.mark.parametrize(
    ("metric", "measured"),
    [("exact_match", [(0.4, 3), (0.4, 2), (0.4, 2.5)]), ("token_error_rate", [(0.9, 1), (0.4, 2), (0.6, 1)])],
)
def test_a_smaller_error_rate_is_better_and_of_equal_metrics_the_smaller_loss(tmp_path, monkeypatch, metric, measured):
    scripted(monkeypatch, *measured)
    training = {"steps": 3, "validate_every": 1, "average_last": 0, "metric": metric}
    validated, finished = outcome(start(tmp_path, training=training))
    assert [event.best for event in validated] == [True, True, False]
    assert (finished.metric, finished.value) == (metric, 0.4)


def test_a_run_ends_when_its_time_is_over_but_not_before_its_first_update(tmp_path):
    training = {"steps": 10_000, "max_minutes": 1e-9}
    validated, finished = outcome(start(tmp_path, training=training))
    assert finished.step == 1
    assert finished.reason == "stopped by training.max_minutes = 1e-09"
    assert len(validated) == 1
    assert ModelFile.load(tmp_path / "run").metrics.step == 1


@pytest.mark.parametrize(
    ("mean", "chosen"), [(0.9, "the mean of the last 2 validations"), (0.1, "the best validation")]
)
def test_the_mean_of_the_last_weights_is_taken_only_when_it_is_better_and_a_resume_keeps_what_was_taken(
    tmp_path, monkeypatch, mean, chosen
):
    training = {"steps": 3, "validate_every": 1, "average_last": 2}
    with monkeypatch.context() as patch:
        scripted(patch, (0.1, 3), (0.35, 2), (0.2, 2), (0.3, 2), (mean, 1))
        run = start(tmp_path, training=training)
        _, finished = outcome(run)
    assert (finished.chosen, finished.value) == (chosen, max(mean, 0.3))
    kept = [ModelFile.load(path).tensors for path in run.directory.kept_checkpoints()]
    assert [path.stem for path in run.directory.kept_checkpoints()] == ["step-0000002", "step-0000003"]
    model = ModelFile.load(tmp_path / "run")
    assert model.metrics.value == finished.value
    assert model.metrics.step == (3 if mean == 0.9 else 2)
    for name, value in model.tensors.items():
        wanted = (kept[0][name] + kept[1][name]) / 2 if mean == 0.9 else kept[0][name]
        np.testing.assert_allclose(value, wanted, atol=1e-7)
    written = [run.directory.model.read_bytes(), run.directory.errors.read_bytes()]
    card = run.directory.card.read_text(encoding="utf-8")
    assert f"| weights | {chosen} |" in card
    *_, again = resumed(tmp_path)
    assert (again.chosen, again.value, again.step) == (finished.chosen, finished.value, finished.step)
    assert [run.directory.model.read_bytes(), run.directory.errors.read_bytes()] == written
    assert run.directory.card.read_text(encoding="utf-8").splitlines()[:9] == card.splitlines()[:9]
    assert f"| weights | {chosen} |" in run.directory.card.read_text(encoding="utf-8")
    run.directory.model.unlink()
    assert resumed(tmp_path).finish().translate(["1845-01-05"])


# Stopping and going on


@pytest.mark.usefixtures("every_update_tells")
@pytest.mark.parametrize("step", [3, 4])
def test_a_stopped_run_goes_on_to_the_same_weights_bit_by_bit(tmp_path, step):
    chosen = settings(
        model={"dropout": 0.2},
        training={"steps": 7, "accumulate": 2, "validate_every": 2, "schedule": "cosine", "warmup_steps": 2},
    )
    train(PAIRS, chosen, tmp_path / "whole", device="cpu").finish()
    run = train(PAIRS, chosen, tmp_path / "parts", device="cpu")
    for event in run:
        if isinstance(event, Progress) and event.step == step:
            run.stop()
    assert isinstance(event, Stopped)
    seconds = event.seconds
    torch.manual_seed(999)
    again = train(PAIRS, None, tmp_path / "parts", resume=True, device="cpu")
    assert again.settings == chosen
    events = list(again)
    assert isinstance(events[0], Started)
    assert (events[0].step, events[0].resumed) == (step, True)
    assert 0 < seconds <= events[0].seconds
    assert [event.step for event in events if isinstance(event, Progress)] == list(range(step + 1, 8))
    whole, parts = (ModelFile.load(tmp_path / name).tensors for name in ("whole", "parts"))
    assert all(np.array_equal(whole[name], parts[name]) for name in whole)


def test_a_run_that_is_left_after_a_validation_can_be_resumed(tmp_path):
    for event in start(tmp_path, training={"validate_every": 2}):
        if isinstance(event, Validated):
            break
    assert next(iter(resumed(tmp_path))).step == event.step == 2


# What is told and kept


@pytest.mark.usefixtures("every_update_tells")
def test_events_come_in_order_and_are_all_in_the_history(tmp_path):
    chosen = settings(training={"steps": 4, "validate_every": 2})
    events = list(train(PAIRS, chosen, tmp_path / "run", device="cpu"))
    assert [type(event) for event in events] == [
        *(Started, Progress, Progress, Validated, Saved),
        *(Progress, Progress, Validated, Saved, Finished),
    ]
    started, validated, saved = events[0], events[3], events[4]
    assert (started.train_rows, started.valid_rows, started.device) == (32, 8, "cpu")
    assert started.n_parameters == ModelFile.load(tmp_path / "run").n_parameters
    assert {(sample.source, sample.target) for sample in validated.samples} <= set(PAIRS)
    assert saved.path.exists()
    assert all(one.seconds <= other.seconds and one.step <= other.step for one, other in pairwise(events))
    lines = (tmp_path / "run" / "history.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(event.to_json())) for event in events]


def test_init_takes_over_weights_tokens_and_shape(tmp_path):
    train(PAIRS, settings(), tmp_path / "old", device="cpu").finish()
    old = ModelFile.load(tmp_path / "old")
    with pytest.raises(UsageError, match="the model to start from has other settings in 'model'"):
        train(PAIRS[:10], settings(model={"d_model": 32}), tmp_path / "new", init=tmp_path / "old", device="cpu")
    changes = {"training": {"steps": 1}, "decoding": {"num_beams": 1}}
    new = train(PAIRS[:10], Settings(**changes), tmp_path / "new", init=tmp_path / "old", device="cpu")
    assert new.settings.training.steps == 1
    assert new.settings.model.d_model == 16
    assert len(new.prepared.source_tokenizer) == len(old.source_tokenizer)
    for name, value in new.model.named_parameters():
        assert np.array_equal(value.detach().numpy(), old.tensors[name])
    advised = train(PAIRS, None, tmp_path / "advised", init=tmp_path / "old", device="cpu").settings
    assert advised.model.d_model == 16
    assert advised.training.learning_rate == pytest.approx(0.0015 * 128 / 16)


def test_a_run_that_is_not_replaced_in_the_end_is_whole_again(tmp_path, monkeypatch):
    start(tmp_path, training={"steps": 2}).finish()
    before = {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()}
    monkeypatch.setattr(ModelFile, "save", mock.Mock(side_effect=KeyboardInterrupt))
    run = train(PAIRS, settings(training={"seed": 2}), tmp_path / "run", overwrite=True, device="cpu")
    with pytest.raises(KeyboardInterrupt):
        list(run)
    assert {file: file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file()} == before


def test_a_run_whose_folder_is_moved_stops_and_is_resumed_where_it_is(tmp_path):
    events = iter(start(tmp_path, training={"validate_every": 2}))
    assert any(isinstance(event, Saved) for event in events)
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(RunError, match="the run directory was moved or removed") as caught:
        list(events)
    assert "if it was moved" in str(caught.value.hint)
    assert not (tmp_path / "run").exists()
    assert train(PAIRS, None, tmp_path / "moved", resume=True, device="cpu").finish().translate(["1845-01-05"])


def test_a_recipe_that_was_edited_is_not_resumed(tmp_path):
    run = start(tmp_path)
    run.stop()
    list(run)
    recipe = run.directory.recipe
    before = recipe.read_text(encoding="utf-8")
    recipe.write_text(before.replace("seed = 1", "seed = 2", 1), encoding="utf-8")
    with pytest.raises(RunError, match="the recipe was changed after this run began") as caught:
        resumed(tmp_path)
    assert (caught.value.where, caught.value.got) == (str(recipe), "training.seed = 2")
    assert caught.value.expected == "training.seed = 1"
    assert "with --set NAME=VALUE" in (caught.value.hint or "")
    recipe.write_text(before + "# a comment\n", encoding="utf-8")
    again = resumed(tmp_path)
    recipe.write_text(before.replace("seed = 1", "seed = 2", 1), encoding="utf-8")  # between plan and start
    list(again)  # which trains with what was read


def test_a_run_that_is_gone_through_again_is_empty_and_keeps_what_it_made(tmp_path):
    run = train(PAIRS, settings(training={"steps": 2}), tmp_path / "run", overwrite=True, device="cpu")
    answers = run.finish().translate(["1845-01-05"])
    before = (tmp_path / "run" / "history.jsonl").read_bytes()
    assert list(run) == []
    assert run.finish().translate(["1845-01-05"]) == answers
    assert (tmp_path / "run" / "history.jsonl").read_bytes() == before


def test_a_run_that_was_left_lets_its_directory_go_and_is_gone_on_with_by_resuming(tmp_path):
    run = train(PAIRS, settings(training={"steps": 2}), tmp_path / "run", overwrite=True, device="cpu")
    next(iter(run))
    assert not run.directory.lock.exists()
    with pytest.raises(UsageError, match="this run was interrupted"):
        run.finish()
    assert (tmp_path / "run" / "history.jsonl").exists()


def test_a_resumed_run_goes_on_from_where_it_stands_when_it_begins(tmp_path):
    run = start(tmp_path, training={"steps": 2})
    run.stop()
    list(run)
    one, two = (resumed(tmp_path) for _ in range(2))
    one.finish()
    assert next(iter(two)).step == 2


def test_two_runs_do_not_write_into_one_directory(tmp_path):
    one, two = (start(tmp_path, training={"steps": 2}) for _ in range(2))
    events = iter(one)
    next(events)
    history = (tmp_path / "run" / "history.jsonl").read_bytes()
    with pytest.raises(RunError, match="this run is already being trained"):
        next(iter(two))
    assert (tmp_path / "run" / "history.jsonl").read_bytes() == history
    assert isinstance(list(events)[-1], Finished)
    model = (tmp_path / "run" / "model.safetensors").read_bytes()
    for _ in range(2):
        with pytest.raises(RunError, match="the run already exists"):
            next(iter(two))
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == model


def test_a_loss_that_is_no_number_in_validation_never_becomes_the_model(tmp_path, monkeypatch):
    scripted(monkeypatch, (0.0, math.nan))
    run = start(tmp_path)
    with pytest.raises(RunError, match="training diverged"):
        list(run)
    assert not run.directory.model.exists()
    assert not run.directory.kept_checkpoints()


@pytest.mark.parametrize("n_held_out", [99, 100])
def test_a_run_ends_with_a_calibration_where_enough_sources_are_held_out(tmp_path, n_held_out):
    other = dates(n_held_out, seed=6)
    events = list(train(PAIRS, settings(), out=tmp_path / "run", valid=other))
    found, enough = ModelFile.load(tmp_path / "run").calibration, n_held_out == 100
    assert events[-1].calibrated == (100 if enough else 0)
    assert (None if found is None else found.fingerprint) == (fingerprint(other) if enough else None)
    again = list(train(PAIRS, settings(), out=tmp_path / "run", valid=other, resume=True))
    assert again[-1].calibrated == events[-1].calibrated
    assert ModelFile.load(tmp_path / "run").calibration == found


def test_held_out_rows_that_were_trained_on_calibrate_nothing(tmp_path):
    *_, finished = train(PAIRS, settings(), out=tmp_path / "run", valid=[*PAIRS, *dates(99, seed=6)])
    assert finished.calibrated == 0
