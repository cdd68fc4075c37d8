"""Alignments: pairs of a source token and a token of the answer, by attention, also of a text that was split."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.inference.engines import attention
from glassformer.inference.engines.attention import cross_attention
from glassformer.inference.engines.torch import TorchEngine, get_weights
from glassformer.inference.jobs.alignment import Aligner, reference_attention
from glassformer.inference.jobs.layout import pharaoh
from glassformer.inference.jobs.sentences import joined
from glassformer.inference.translator import EMPTY, Translation
from glassformer.paper import reference
from glassformer.paper.model import Transformer
from glassformer.paper.settings import ModelSettings, SideSettings
from glassformer.text import learn

BOS, EOS = 1, 2
PAIRS = [
    ([BOS, 5, 6, 7, EOS], [BOS, 4, 5, EOS]),
    ([BOS, 8, EOS], [BOS, 4, 4, 9, 8, 7, EOS]),
    ([BOS, 9, 8, 7, 6, 5, 4, 4, EOS], [BOS, 6, EOS]),
]


@pytest.fixture
def aligner(monkeypatch) -> Aligner:
    """Its attention is on `<bos>` and `<eos>` most of all, and then on the source from its last token to its first."""

    def backwards(_engine, pairs):
        found = []
        for source, target in pairs:
            weights = np.zeros((len(target) - 1, len(source)))
            weights[:, [0, -1]] = 0.9
            for row in range(min(len(target) - 1, len(source) - 2)):
                weights[row, len(source) - 2 - row] = 0.5
            found.append(weights)
        return found

    monkeypatch.setattr(attention, "cross_attention", backwards)
    tokenizer, engine = learn(["abc"], SideSettings(kind="characters")), TorchEngine([], BOS, EOS, ())
    translator = SimpleNamespace(source_tokenizer=tokenizer, target_tokenizer=tokenizer, engine=engine)
    return Aligner(translator)  # type: ignore[arg-type]


def answer_of(text: str) -> Translation:
    return Translation(text, -1.0, -1.0, tuple(text), (-0.5,) * len(text), finished=True)


def test_each_token_of_an_answer_has_the_source_token_with_most_attention(aligner):
    found, empty = aligner.align(["abc", ""], [answer_of("cba"), EMPTY])
    assert found.alignment == ((2, 0), (1, 1), (0, 2))
    assert found.source_tokens == ("a", "b", "c")
    assert pharaoh(found) == "2-0 1-1 0-2"
    assert (found.to_json()["alignment"], found.to_json()["source_tokens"]) == ([[2, 0], [1, 1], [0, 2]], [*"abc"])
    assert (empty, "alignment" in empty.to_json()) == (EMPTY, False)


def test_the_alignments_of_sentences_are_counted_on(aligner):
    found = joined(aligner.align(["ab", "abc"], [answer_of("ba"), answer_of("cb")]), (" ",))
    assert found.alignment == ((1, 0), (0, 1), (4, 2), (3, 3))
    assert "".join(found.source_tokens) == "ababc"


def engine_of(*models: Transformer) -> TorchEngine:
    return TorchEngine(models, BOS, EOS, (0, BOS))


def random_model(n_decoder_layers: int, seed: int = 1, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    settings = {"d_model": 12, "d_ff": 16, "n_heads": 3, "d_k": 5, "d_v": 4, "n_encoder_layers": 2} | changes
    return Transformer(ModelSettings(n_decoder_layers=n_decoder_layers, **settings), 10, 10).eval()


def file_of(model: Transformer) -> Any:
    """What the reference reads of a model file."""
    return SimpleNamespace(tensors=get_weights(model), settings=SimpleNamespace(model=model.settings))


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


def test_several_models_are_averaged_and_no_pairs_have_no_weights():
    models = [random_model(2, seed) for seed in (1, 2)]
    together = cross_attention(engine_of(*models), PAIRS)
    alone = [cross_attention(engine_of(model), PAIRS) for model in models]
    for mean, one, other in zip(together, *alone, strict=True):
        np.testing.assert_allclose(mean, (one + other) / 2, atol=1e-6)
    assert cross_attention(engine_of(*models), []) == []


def test_without_pytorch_the_weights_are_those_of_the_reference():
    models = [random_model(2, seed) for seed in (1, 2)]
    found = reference_attention([file_of(model) for model in models], PAIRS)
    for one, other in zip(found, cross_attention(engine_of(*models), PAIRS), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
