"""Settings of a tiny model over characters, over which a test puts its own, and lists of ids in one array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from glassformer.data.corpus import Sequences
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


def in_one_array(sequences: Sequence[Sequence[int]]) -> Sequences:
    ids = np.fromiter(chain.from_iterable(sequences), np.int32)
    return Sequences(ids, np.fromiter(map(len, sequences), np.int32))
