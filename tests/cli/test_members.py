"""`glassformer train --members` and what the other verbs do with its model."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from glassformer.serve.api import create_app
from glassformer.serve.served import Served
from glassformer.storage.modelfile import ModelFile, join


@pytest.fixture(scope="module")
def joined(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model file with the small model, and with the same one with other weights as its second member."""
    first = ModelFile.load(run)
    settings = first.settings.model_copy(update={"training": first.settings.training.model_copy(update={"seed": 2})})
    second = replace(first, settings=settings, tensors={name: 0.9 * array for name, array in first.tensors.items()})
    path = tmp_path_factory.mktemp("joined") / "model.safetensors"
    join([first, second]).save(path)
    return path


@pytest.mark.medium
def test_members_are_trained_into_one_model_that_is_tested(tmp_path, call, small, table, few):
    words = small(training__steps="20", training__validate_every="10")
    words += ["--members", 2, "--tensorboard"]
    answer = call("train", table, "--out", tmp_path / "run", "--test", few, "--json", *words)
    assert answer.code == 0, answer.err
    for seed in (1, 2):
        lines = [line for line in answer.err.splitlines() if line.startswith(f"member {seed}: step")]
        assert [line.split()[3] for line in lines] == ["10", "20", "20"]
    assert "2 members, with the seeds 1, 2" in answer.err
    assert ", still improving: the loss fell by " in answer.err
    command = shlex.split(answer.err.rpartition("next:")[2])
    assert command[-1] == "training.steps=40"
    assert call(*command[1:], "--dry-run").code == 0
    assert set(json.loads(answer.out)) == {"run", "test"}
    facts = json.loads(call("info", tmp_path / "run", "--json").out)
    assert facts["seeds"] == [1, 2]
    assert all(any((tmp_path / "run" / "members" / seed / "tensorboard").iterdir()) for seed in "12")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        *("model.safetensors", "recipe.toml", "ledger.jsonl", "held_out.jsonl", "sources.safetensors", "README.md"),
        *("members", "checkpoints"),
    }


def test_verbs_take_a_model_with_members_and_say_what_they_do_with_it(tmp_path, call, run, joined, table, few):
    assert "2 such models, with the seeds 1, 2" in call("info", joined).out
    both = json.loads(call("evaluate", joined, few, "--json").out)
    assert both["rows"]["items"] == 24
    scores = [call("score", model, few).out for model in (run, joined)]
    assert scores[0] != scores[1]
    explained = call("explain", joined, "2014-05-06", "--json")
    assert explained.code == 0, explained.err
    assert "the first of the 2 members is explained" in explained.err
    traces = [json.loads(text) for text in (explained.out, call("explain", run, "2014-05-06", "--json").out)]
    assert traces[0]["provenance"]["model_hash"] == traces[1]["provenance"]["model_hash"]
    assert traces[0]["search"] == traces[1]["search"]
    assert [trace["provenance"]["members"] for trace in traces] == [2, 1]
    http = TestClient(create_app(Served.load(joined, device="cpu")), base_url="http://127.0.0.1")
    served = http.post("/v1/trace", json={"text": "2014-05-06"}).json()
    assert (served["provenance"]["members"], served["search"]) == (2, traces[0]["search"])
    exported = call("export", joined, "--to", "huggingface", "--out", tmp_path / "export")
    assert exported.code == 2
    assert "huggingface holds one model, not several\n  got: 2 members\n  next: --to onnx or --to html" in exported.err
    started = call("train", table, "--out", tmp_path / "run", "--init", joined, "--set", "training.steps=1")
    assert started.code == 0, started.err
    assert f"those of {joined}, its first member" in " ".join(started.err.split())
    assert ModelFile.load(tmp_path / "run").seeds == [1]


def test_a_model_with_members_is_calibrated_as_one(tmp_path, call, joined, table):
    model = tmp_path / "model.safetensors"
    model.write_bytes(joined.read_bytes())
    asked = ("translate", model, "-", "--min-confidence", "0", "--json")
    assert "a model that is not calibrated" in call(*asked, stdin=b"2014-05-06\n").err
    assert call("calibrate", model, table).code == 0
    assert ModelFile.load(model).seeds == [1, 2]
    answer = call(*asked, stdin=b"2014-05-06\n")
    assert 0 < json.loads(answer.out)["confidence"] < 1
    refused = call(*asked, "--ensemble", model, stdin=b"2014-05-06\n")
    assert refused.code == 2
    assert "an ensemble of 4 models" in refused.err
