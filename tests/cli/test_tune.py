"""`glassformer tune`: trials in seconds, the table of what was tried, and the recipe that train takes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("optuna")

STEPS = {"training__steps": "20", "training__validate_every": "10", "training__metric": "loss"}


@pytest.fixture(scope="module")
def tuned(table, small, call, tmp_path_factory) -> tuple[Path, list[str]]:
    """A study of some seconds, and the words of its command."""
    out = tmp_path_factory.mktemp("tune") / "out"
    words = ["tune", str(table), "--out", str(out), *small(**STEPS)]
    answer = call(*words, "--minutes", "0.15")
    assert answer.code == 0, answer.err
    assert "trial 0: training.batch_tokens=" in answer.err or "trial 0: training.learning_rate=" in answer.err
    assert "its recipe: " in answer.err
    assert re.search(r"^0 +finished +\d", answer.out, re.MULTILINE)
    return out, words


@pytest.mark.medium
def test_the_result_is_there_again_without_training_when_the_time_is_over(tuned, call):
    _, words = tuned
    answer = call(*words, "--minutes", "0.0001", "--json")
    assert answer.code == 0, answer.err
    found = json.loads(answer.out)
    assert found.keys() == {"best", "recipe", "trials"}
    best = found["trials"][found["best"]]
    assert best["state"] == "finished"
    assert best["value"] == min(trial["value"] for trial in found["trials"] if trial["state"] == "finished")


@pytest.mark.medium
def test_the_recipe_trains_the_same_model_and_the_trials_are_runs(tuned, call, table, tmp_path):
    out, _ = tuned
    best = json.loads(call("runs", out, "--json").out)["runs"][0]["name"]
    answer = call("train", table, "--recipe", out / "best.toml", "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    models = (out / best / "model.safetensors", tmp_path / "run" / "model.safetensors")
    infos = [json.loads(call("info", model, "--json").out) for model in models]
    assert infos[0]["metrics"] == infos[1]["metrics"]
