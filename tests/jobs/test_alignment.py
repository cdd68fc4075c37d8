"""Alignments: pairs of a source token and a token of the answer, by attention, also of a text that was split."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.jobs import alignment
from glassformer.jobs.alignment import align, cross_attention
from glassformer.jobs.answers import NO_ANSWER, JobAnswer
from glassformer.jobs.layout import pharaoh
from glassformer.jobs.sentences import joined
from glassformer.paper.model import Transformer
from glassformer.settings import ModelSettings, SideSettings
from glassformer.storage.weights import get_weights
from glassformer.text import learn

BOS, EOS = 1, 2
PAIRS = [
    ([BOS, 5, 6, 7, EOS], [BOS, 4, 5, EOS]),
    ([BOS, 8, EOS], [BOS, 4, 4, 9, 8, 7, EOS]),
    ([BOS, 9, 8, 7, 6, 5, 4, 4, EOS], [BOS, 6, EOS]),
]


@pytest.fixture
def translator(monkeypatch) -> Any:
    """Its attention is on `<bos>` and `<eos>` most of all, and then on the source from its last token to its first."""

    def backwards(_files, pairs):
        found = []
        for source, target in pairs:
            weights = np.zeros((len(target) - 1, len(source)))
            weights[:, [0, -1]] = 0.9
            for row in range(min(len(target) - 1, len(source) - 2)):
                weights[row, len(source) - 2 - row] = 0.5
            found.append(weights)
        return found

    monkeypatch.setattr(alignment, "cross_attention", backwards)
    tokenizer = learn(["abc"], SideSettings(kind="characters"))
    return SimpleNamespace(source_tokenizer=tokenizer, target_tokenizer=tokenizer, model_files=())


def answer_of(text: str) -> JobAnswer:
    return JobAnswer(text, -1.0, -1.0, tuple(text), (-0.5,) * len(text), finished=True)


def test_each_token_of_an_answer_has_the_source_token_with_most_attention(translator):
    found, empty = align(translator, ["abc", ""], [answer_of("cba"), NO_ANSWER])
    assert found.alignment == ((2, 0), (1, 1), (0, 2))
    assert found.source_tokens == ("a", "b", "c")
    assert pharaoh(found) == "2-0 1-1 0-2"
    assert (found.to_json()["alignment"], found.to_json()["source_tokens"]) == ([[2, 0], [1, 1], [0, 2]], [*"abc"])
    assert (empty, "alignment" in empty.to_json()) == (NO_ANSWER, False)


def test_the_alignments_of_sentences_are_counted_on(translator):
    found = joined(align(translator, ["ab", "abc"], [answer_of("ba"), answer_of("cb")]), (" ",))
    assert found.alignment == ((1, 0), (0, 1), (4, 2), (3, 3))
    assert "".join(found.source_tokens) == "ababc"


def test_a_source_without_tokens_has_no_alignment(translator):
    assert align(translator, [""], [answer_of("a")]) == [answer_of("a")]


def random_model(n_decoder_layers: int, seed: int = 1, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    settings = {"d_model": 12, "d_ff": 16, "n_heads": 3, "d_k": 5, "d_v": 4, "n_encoder_layers": 2} | changes
    return Transformer(ModelSettings(n_decoder_layers=n_decoder_layers, **settings), 10, 10).eval()


def files_of(*models: Transformer) -> Any:
    """What the reference reads of model files."""
    return [SimpleNamespace(tensors=get_weights(one), settings=SimpleNamespace(model=one.settings)) for one in models]


@torch.inference_mode()
def of_pytorch(model: Transformer, layer: int, source: list[int], target: list[int]) -> Any:
    """The weights of cross-attention of a layer, averaged over the heads: softmax(Q K^T / sqrt(d_k))."""
    found: list[Any] = []
    attention: Any = model.decoder[layer].cross_attention
    attention.register_forward_pre_hook(lambda _module, inputs: found.extend(inputs[:2]))
    model(torch.tensor([source]), torch.tensor([target[:-1]]))
    query, key = (
        projection(tokens).unflatten(2, (attention.n_heads, -1)).transpose(1, 2)
        for projection, tokens in ((attention.w_q, found[0]), (attention.w_k, found[1]))
    )
    return (query @ key.transpose(2, 3) / query.shape[3] ** 0.5).softmax(dim=3).mean(dim=1)[0].numpy()


@pytest.mark.parametrize(("n_layers", "layer"), [(1, 0), (2, 0), (3, 1)])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_weights_are_those_of_the_penultimate_layer(n_layers, layer, norm):
    model = random_model(n_layers, norm=norm)
    for found, (source, target) in zip(cross_attention(files_of(model), PAIRS), PAIRS, strict=True):
        assert found.shape == (len(target) - 1, len(source))
        np.testing.assert_allclose(found, of_pytorch(model, layer, source, target), atol=1e-5)


def test_several_models_are_averaged_and_no_pairs_have_no_weights():
    files = files_of(*(random_model(2, seed) for seed in (1, 2)))
    alone = [cross_attention([file], PAIRS) for file in files]
    for mean, one, other in zip(cross_attention(files, PAIRS), *alone, strict=True):
        np.testing.assert_allclose(mean, (one + other) / 2, atol=1e-12)
    assert cross_attention(files, []) == []
