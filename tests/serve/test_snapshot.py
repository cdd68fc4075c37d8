"""A server answers from the model that it loaded, whatever becomes of the files."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.serve.api import create_app
from glassformer.serve.served import CHANGED, Served
from glassformer.storage.modelfile import ModelFile

TEXT = "abc"
VALIDATED = {"event": "validated", "step": 1, "loss": 1.5, "metric": "exact_match", "value": 0.5}
WRONG = {"source": "abc", "target": "hij", "answer": "h", "score": -1.0}


@pytest.fixture
def run(model_path: Path, tmp_path: Path) -> Path:
    """The drawn model as a run with a validation and a wrong answer."""
    (tmp_path / "run").mkdir()
    shutil.copy(model_path, tmp_path / "run" / "model.safetensors")
    (tmp_path / "run" / "history.jsonl").write_text(json.dumps(VALIDATED) + "\n")
    (tmp_path / "run" / "errors.json").write_text(json.dumps({"rows": 9, "wrong": 1, "examples": [WRONG]}))
    return tmp_path / "run"


@pytest.fixture
def client(run: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Served.load(run, device="cpu")), "http://127.0.0.1") as started:
        yield started


def answers(client: TestClient) -> dict[str, Any]:
    trace = client.post("/v1/trace", json={"text": TEXT, "history": True}).json()
    translated = client.post("/v1/translate", json={"texts": [TEXT]}).json()["answers"][0]
    return {
        "translated": (translated["text"], round(translated["score"], 3)),
        "traced": (trace["translation"], round(trace["search"]["beam"]["answers"][0]["score"], 3)),
        "hash": trace["provenance"]["model_hash"],
        "history": trace["training"],
        "errors": trace["errors"],
        "notices": trace["notices"],
    }


def write_in_place(model: Path) -> None:
    whole = model.read_bytes()
    os.utime(model, (1, 1))
    model.write_bytes(whole)


@pytest.mark.parametrize("change", [Path.unlink, lambda model: ModelFile.load(model).save(model), write_in_place])
def test_answers_stay_and_the_history_of_a_model_file_that_changed_in_any_way_is_left_out(
    run: Path, client: TestClient, change: Callable[[Path], None]
) -> None:
    before = answers(client)
    assert before["traced"] == before["translated"]
    assert before["history"]["validations"]
    assert (before["errors"]["rows"] > 0, before["notices"]) == (True, [])
    change(run / "model.safetensors")
    assert answers(client) == before | {"history": None, "errors": None, "notices": [CHANGED]}
