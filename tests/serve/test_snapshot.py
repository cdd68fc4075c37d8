"""A server answers from the model that it loaded, whatever becomes of the files."""

from __future__ import annotations

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
from glassformer.training.train import train
from tests.chaos.conftest import PAIRS, SETTINGS

TEXT = PAIRS[0][0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    chosen = SETTINGS.model_copy(update={"data": SETTINGS.data.model_copy(update={"valid_fraction": 0.2})})
    train(PAIRS, chosen, folder, device="cpu").finish()
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A run of its own."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


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
