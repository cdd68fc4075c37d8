"""A model with drawn weights, served in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from glassformer.serve.api import create_app
from glassformer.serve.served import Served
from glassformer.storage.records import TrainingData
from tests.untrained import character_model


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = TrainingData(
        table="/tables/a.en,/tables/a.de", longest_target=6, source_counts=(0, 9, 9, 0, 5, 7, 6, 1, 1, 1, 1)
    )
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    character_model("abcdefg", "hijklm", data=data).save(path)
    return path


@pytest.fixture(scope="session")
def served(model_path: Path) -> Served:
    return Served.load(model_path, device="cpu")


@pytest.fixture(scope="module")
def client(served: Served) -> Iterator[TestClient]:
    with TestClient(create_app(served), base_url="http://127.0.0.1", raise_server_exceptions=False) as found:
        yield found
