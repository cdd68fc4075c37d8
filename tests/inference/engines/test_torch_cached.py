"""The Transformer for search against the model itself, which knows no cache, and against the NumPy reference."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from glassformer.errors import TextError
from glassformer.inference.engines import torch_cached as inference_module
from glassformer.inference.engines.torch_cached import Inference
from glassformer.paper.model import Transformer
from tests.paper.test_model import SIZE, close, make, reference_logits
from tests.untrained import logits_of

GRID: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "pre-norm, learned positions": {"norm": "pre", "positions": "learned"},
    "gelu, attention bias": {"activation": "gelu", "attention_bias": True},
    "swish, output bias": {"activation": "swish", "output_bias": True},
    "free widths": {"n_heads": 3, "d_k": 3, "d_v": 5},
    "free widths, bias, pre-norm": {"n_heads": 1, "d_k": 7, "d_v": 2, "attention_bias": True, "norm": "pre"},
    "depths": {"n_encoder_layers": 1, "n_decoder_layers": 3, "tied_embeddings": "none"},
    "unscaled embeddings, another base and eps": {"scale_embeddings": False, "position_base": 77.0, "norm_eps": 0.1},
}
each_kind = pytest.mark.parametrize("changes", GRID.values(), ids=GRID.keys())


def drawn(n_sentences: int, longest: int, seed: int = 0) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(SIZE) for _ in range(chance.randint(1, longest))] for _ in range(n_sentences)]


@torch.inference_mode()
def steps(inference: Inference, sources: list[list[int]], targets: Tensor, padding: int = 3) -> Tensor:
    """The logits [N T V] of one hypothesis for each source, step by step."""
    cache = inference.start(sources, max(map(len, sources)) + padding)
    return torch.cat([inference.step(last[:, None], cache) for last in targets.unbind(1)], dim=1)


@torch.inference_mode()
def all_at_once(model: Transformer, sources: list[list[int]], targets: Tensor) -> Tensor:
    """The same without a cache, each sentence by itself."""
    rows = zip(sources, targets, strict=True)
    return torch.cat([logits_of(model, torch.tensor([source]), target[None]) for source, target in rows])


# Cached = uncached


@each_kind
@settings(max_examples=4)
@given(
    n_sentences=st.integers(1, 3),
    width=st.integers(1, 3),
    room=st.sampled_from([1, 3, 16]),
    padding=st.integers(0, 3),
    seed=st.integers(0, 10_000),
)
def test_cached_steps_equal_the_reference_whatever_the_search_does(
    changes: dict[str, Any], n_sentences: int, width: int, room: int, padding: int, seed: int
) -> None:
    """A search by chance: hypotheses are kept, doubled and dropped, and sentences change places and leave."""
    model, chance, sources = make(**changes), random.Random(seed), drawn(n_sentences, 6, seed)
    beams: list[list[list[int]]] = [[[]] for _ in sources]  # the hypotheses of each sentence so far
    with torch.inference_mode(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(inference_module, "CACHE_STEPS", room)
        inference = Inference(model)
        cache = inference.start(sources, max(map(len, sources)) + padding)
        for _ in range(5):
            beams = [[[*tokens, chance.randrange(SIZE)] for tokens in beam] for beam in beams]
            logits = inference.step(torch.tensor([[tokens[-1] for tokens in beam] for beam in beams]), cache)
            for line, (source, beam) in enumerate(zip(sources, beams, strict=True)):
                for k, tokens in enumerate(beam):
                    close(logits[line, k], reference_logits(model, source, tokens)[-1])
            stay = chance.sample(range(len(beams)), chance.randint(1, len(beams)))
            parents = [[chance.randrange(len(beams[line])) for _ in range(width)] for line in stay]
            kept = list(zip(stay, parents, strict=True))
            cache.select(np.array([[line * len(beams[line]) + k for k in row] for line, row in kept]))
            sources, beams = [sources[line] for line in stay], [[beams[line][k] for k in row] for line, row in kept]


# Positions


@torch.inference_mode()
def test_a_step_asks_for_no_position_after_its_own() -> None:
    """So the last learned position can be used, and the one after it is refused."""
    model = make(positions="learned", max_length=20)
    inference, source = Inference(model), [[1, 5, 2]]
    targets = torch.randint(SIZE, (1, 20), generator=torch.Generator().manual_seed(1))
    close(steps(inference, source, targets), all_at_once(model, source, targets))
    cache = inference.start(source, 3)
    for _ in range(20):
        inference.step(torch.tensor([[5]]), cache)
    with pytest.raises(TextError, match="a sequence of 21 tokens is longer than the 20 learned positions"):
        inference.step(torch.tensor([[5]]), cache)
    model = make(max_length=4)  # sinusoids go on past the table
    close(steps(Inference(model), source, targets), all_at_once(model, source, targets))


# The model and its copy


@each_kind
def test_later_changes_of_the_model_do_not_reach_it(changes: dict[str, Any]) -> None:
    model, sources, targets = make(**changes), drawn(3, 6), torch.arange(9).view(3, 3)
    inference = Inference(model)
    before = steps(inference, sources, targets)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(steps(inference, sources, targets), before)
