"""A model with drawn weights, served in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from glassformer.paper.settings import ModelSettings, Settings, SideSettings, TokenSettings
from glassformer.ship.server.api import create_app
from glassformer.ship.server.served import Served
from glassformer.ship.storage.modelfile import ModelFile, tensor_shapes
from glassformer.ship.storage.records import TrainingData
from glassformer.text import learn


@pytest.fixture(scope="session")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    side = SideSettings(kind="characters")
    model = ModelSettings(d_model=8, d_ff=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none")
    source, target = learn(["abcdefg"], side), learn(["hijklm"], side)
    chance = np.random.default_rng(5)
    shapes = tensor_shapes(model, len(source), len(target))
    tensors = {name: chance.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    data = TrainingData(longest_target=6, source_counts=(0, 9, 9, 0, 5, 7, 6, 1, 1, 1, 1))
    path = tmp_path_factory.mktemp("served") / "model.safetensors"
    settings = Settings(model=model, tokens=TokenSettings(source=side, target=side))
    ModelFile(settings, source, target, tensors, data).save(path)
    return path


@pytest.fixture(scope="session")
def served(model_path: Path) -> Served:
    return Served.load(model_path, device="cpu")


@pytest.fixture
def client(served: Served) -> Iterator[TestClient]:
    with TestClient(create_app(served), base_url="http://127.0.0.1", raise_server_exceptions=False) as found:
        yield found
