"""A peer that has our weights says what we say; otherwise it is not the same model that is timed."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.testing import assert_close

from benchmarks import marian, torch_layers
from glassformer.paper.model import Transformer
from glassformer.paper.settings import ModelSettings, SideSettings
from glassformer.ship.storage.weights import get_weights
from glassformer.text import learn

SIZE = 12
SETTINGS = ModelSettings(
    d_model=16, d_ff=24, n_heads=2, n_encoder_layers=2, n_decoder_layers=2, attention_bias=True, tied_embeddings="all"
)


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(0)
    model = Transformer(SETTINGS, SIZE, SIZE).eval()
    for parameter in model.parameters():  # biases and norms too
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def examples() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Source ids, where they are padding, target ids."""
    source = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, 0, 0]])
    return source, source == 0, torch.tensor([[1, 8, 9, 10], [1, 4, 11, 5]])


def test_torch_layers_with_our_weights_are_our_model(model: Transformer) -> None:
    peer = torch_layers.TorchTransformer(SETTINGS, SIZE)
    torch_layers.load_weights(peer, get_weights(model))
    source, padding, target = examples()
    assert_close(peer.eval()(source, padding, target), model(source, ~padding, target), atol=1e-5, rtol=1e-5)


def test_marian_with_our_weights_is_our_model(model: Transformer) -> None:
    vocabulary = learn(["abcdefgh"], SideSettings(kind="characters")).vocabulary
    assert len(vocabulary) == SIZE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what transformers says about itself when it is imported
        pytest.importorskip("transformers")
        peer = marian.make_marian(SETTINGS, vocabulary).eval()
    marian.load_weights(peer, get_weights(model))
    source, padding, target = examples()
    theirs = peer(input_ids=source, attention_mask=(~padding).long(), decoder_input_ids=target).logits
    assert_close(theirs, model(source, ~padding, target), atol=1e-5, rtol=1e-5)
