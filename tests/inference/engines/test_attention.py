"""The attention that aligns answers is that of the reference, whatever else is in the batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from glassformer.inference.engines.attention import cross_attention
from glassformer.inference.engines.torch import TorchEngine, get_weights
from glassformer.paper import reference
from glassformer.paper.model import Transformer
from glassformer.paper.settings import ModelSettings

BOS, EOS = 1, 2
PAIRS = [
    ([BOS, 5, 6, 7, EOS], [BOS, 4, 5, EOS]),
    ([BOS, 8, EOS], [BOS, 4, 4, 9, 8, 7, EOS]),
    ([BOS, 9, 8, 7, 6, 5, 4, 4, EOS], [BOS, 6, EOS]),
]


def engine_of(*models: Transformer) -> TorchEngine:
    return TorchEngine(models, BOS, EOS, (0, BOS))


def random_model(n_decoder_layers: int, seed: int = 1, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    settings = {"d_model": 12, "d_ff": 16, "n_heads": 3, "d_k": 5, "d_v": 4, "n_encoder_layers": 2} | changes
    return Transformer(ModelSettings(n_decoder_layers=n_decoder_layers, **settings), 10, 10).eval()


def of_reference(model: Transformer, layer: int, source: list[int], target: list[int]) -> Any:
    """The weights of cross-attention of a layer, averaged over the heads, in float64 and without a batch."""
    found = {}

    def note(name: str, value: Any, *_made_of: Any) -> Any:
        found[name] = value
        return value

    weights = {name: value.astype(np.float64) for name, value in get_weights(model).items()}
    memory = reference.encode(weights, model.settings, np.array(source))
    reference.decode(weights, model.settings, np.array(target[:-1]), memory, note=note)
    return found[f"decoder.{layer}.cross_attention.weights"].mean(axis=0)


@pytest.mark.parametrize(("n_layers", "layer"), [(1, 0), (2, 0), (3, 1)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_weights_are_those_of_the_penultimate_layer_of_the_reference(n_layers, layer, norm):
    model = random_model(n_layers, norm=norm)
    for found, (source, target) in zip(cross_attention(engine_of(model), PAIRS), PAIRS, strict=True):
        assert found.shape == (len(target) - 1, len(source))
        np.testing.assert_allclose(found, of_reference(model, layer, source, target), atol=1e-5)


def test_several_models_are_averaged():
    models = [random_model(2, seed) for seed in (1, 2)]
    together = cross_attention(engine_of(*models), PAIRS)
    alone = [cross_attention(engine_of(model), PAIRS) for model in models]
    for mean, one, other in zip(together, *alone, strict=True):
        np.testing.assert_allclose(mean, (one + other) / 2, atol=1e-6)


def test_no_pairs_have_no_weights():
    assert cross_attention(engine_of(random_model(2)), []) == []
