"""Settings of a tiny model over characters, over which a test puts its own."""

from __future__ import annotations

from typing import Any

from glassformer.planning.recipes.overrides import merge
from glassformer.settings import Settings

CHARACTERS = {"source": {"kind": "characters"}, "target": {"kind": "characters"}, "shared": False}
SHAPE = {"d_model": 8, "d_ff": 8, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}

OVERRIDES: dict[str, Any] = {
    "model.d_model": 16,
    "model.d_ff": 16,
    "model.n_heads": 2,
    "model.n_encoder_layers": 1,
    "model.n_decoder_layers": 1,
    "training.precision": "float32",
}
"""For what advice decides otherwise."""


def settings(**sections: dict[str, Any]) -> Settings:
    return Settings(**merge({"tokens": CHARACTERS, "model": SHAPE | {"tied_embeddings": "none"}}, sections))
