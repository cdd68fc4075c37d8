"""A model with drawn weights, served in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from glassformer.paper.settings import ModelSettings, Settings, SideSettings, TokenSettings
from glassformer.ship.server.api import create_app
from glassformer.ship.server.served import Served
from glassformer.ship.storage.records import TrainingData
from glassformer.text import learn
from tests.untrained import drawn_model


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    side = SideSettings(kind="characters")
    model = ModelSettings(d_model=8, d_ff=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none")
    source, target = learn(["abcdefg"], side), learn(["hijklm"], side)
    data = TrainingData(longest_target=6, source_counts=(0, 9, 9, 0, 5, 7, 6, 1, 1, 1, 1))
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    settings = Settings(model=model, tokens=TokenSettings(source=side, target=side))
    drawn_model(settings, source, target, data=data).save(path)
    return path


@pytest.fixture(scope="session")
def served(model_path: Path) -> Served:
    return Served.load(model_path, device="cpu")


@pytest.fixture
def client(served: Served) -> Iterator[TestClient]:
    with TestClient(create_app(served), base_url="http://127.0.0.1", raise_server_exceptions=False) as found:
        yield found
