"""The Transformer for search against the model itself, which knows no cache, and against the NumPy reference."""

from __future__ import annotations

import random
from collections.abc import Callable
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


@torch.inference_mode()
def test_hypotheses_may_be_multiplied_before_the_first_step() -> None:
    model, sources = make(), [[3, 1], [4, 1, 5]]
    inference = Inference(model)
    cache = inference.start(sources, 4).select(np.array([[0, 0], [1, 1]]))
    last = torch.tensor([[2, 7], [1, 8]])
    logits = inference.step(last, cache)
    for sentence, source in enumerate(sources):
        for k in range(2):
            close(logits[sentence, k], reference_logits(model, source, [int(last[sentence, k])])[-1])


# Once for each sentence


def watch(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, note: Callable[..., None]) -> None:
    """Call `note` with the arguments of each call of `place.name`, and the function itself as always."""
    function = getattr(place, name)

    def watched(*arguments: Any) -> Any:
        note(*arguments)
        return function(*arguments)

    monkeypatch.setattr(place, name, watched)


@torch.inference_mode()
def test_the_encoder_runs_once_and_on_tokens_alone_and_so_do_keys_and_values_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inference, sources = Inference(make()), [[3, 1, 4], [1, 5]]
    encoded: list[int] = []
    projected: list[int] = []
    watch(monkeypatch, inference_module._Layer, "encode", lambda layer, x, *rest: encoded.append(len(x)))
    watch(monkeypatch, inference_module._Layer, "read_memory", lambda layer, memory, _: projected.append(len(memory)))
    cache = inference.start(sources, 8).select(np.array([[0, 0, 0], [1, 1, 1]]))
    for t in range(4):
        inference.step(torch.full((2, 3), t), cache)
    assert encoded == [5, 5]  # tokens of both sentences, in each layer
    assert projected == [5, 5]  # in each layer, whatever the number of steps and hypotheses


@torch.inference_mode()
def test_memory_is_not_copied_for_hypotheses() -> None:
    cache = Inference(make()).start([[3, 1, 4], [1, 5]], 4)

    def places() -> list[int]:
        return [x.data_ptr() for layer in cache.memory for x in layer]

    before = places()
    cache.select(np.array([[0, 0, 0], [1, 1, 1]]))
    assert places() == before
    cache.select(np.array([[4, 3]]))  # only the second sentence stays, in the place of the first
    assert [len(x) for layer in cache.memory for x in layer] == [1] * 4
    assert places() == before


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


@torch.inference_mode()
def test_sinusoids_go_on_past_the_table() -> None:
    model = make(max_length=4)
    targets = torch.randint(SIZE, (1, 11), generator=torch.Generator().manual_seed(1))
    close(steps(Inference(model), [[1, 5, 9, 9, 8, 2]], targets), all_at_once(model, [[1, 5, 9, 9, 8, 2]], targets))


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


# Precision


@each_kind
@pytest.mark.parametrize("n_sentences", [1, 5])
def test_bfloat16_is_near_float32(changes: dict[str, Any], n_sentences: int) -> None:
    model, sources = make(**changes), drawn(n_sentences, 9)
    targets = torch.randint(SIZE, (n_sentences, 8), generator=torch.Generator().manual_seed(1))
    exact = steps(Inference(model), sources, targets)
    rough = steps(Inference(model, torch.bfloat16), sources, targets)
    assert rough.dtype == torch.float32
    assert 0 < (rough - exact).norm() < 0.02 * exact.norm()
