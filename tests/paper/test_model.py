"""The Transformer against the NumPy reference, torch's own stacks, Hugging Face's Marian, and printed numbers.

Where a test needs a model, its weights are drawn again, biases and gains too, so that nothing hides behind a zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor, nn

from glassformer.errors import SettingsError, TextError
from glassformer.inference.engines.torch_cached import TorchInference
from glassformer.paper import copying, model as model_module, reference
from glassformer.paper.model import (
    MultiHeadAttention,
    Transformer,
    attention,
    sinusoids,
)
from glassformer.settings import ModelSettings
from glassformer.storage.modelfile import count_parameters, tensor_shapes
from glassformer.storage.weights import get_weights
from tests.untrained import logits_of

SIZE = 13  # of both vocabularies
small = {"d_model": 16, "d_ff": 24, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "max_length": 16}

GRID: dict[str, dict[str, Any]] = {
    "as in the paper": {},
    "tied target": {"tied_embeddings": "target"},
    "untied": {"tied_embeddings": "none"},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned"},
    "learned positions, pre-norm, untied": {"positions": "learned", "norm": "pre", "tied_embeddings": "none"},
    "gelu": {"activation": "gelu"},
    "swish, output bias": {"activation": "swish", "output_bias": True},
    "output bias, untied": {"output_bias": True, "tied_embeddings": "none"},
    "attention bias": {"attention_bias": True},
    "free widths": {"n_heads": 3, "d_k": 5, "d_v": 7},
    "one head of another width": {"n_heads": 1, "d_v": 9},
    "deep encoder": {"n_encoder_layers": 3, "n_decoder_layers": 1},
    "deep decoder": {"n_encoder_layers": 1, "n_decoder_layers": 3, "norm": "pre"},
    "unscaled embeddings": {"scale_embeddings": False},
    "another base and eps": {"position_base": 77.0, "norm_eps": 0.1},
    "odd width": {"positions": "learned", "d_model": 15, "n_heads": 3},
    "copy mechanism": {"copy_mechanism": True},
    "all departures": {
        "copy_mechanism": True,
        "norm": "pre",
        "positions": "learned",
        "tied_embeddings": "target",
        "activation": "swish",
        "attention_bias": True,
        "output_bias": True,
        "d_k": 3,
        "d_v": 11,
        "n_encoder_layers": 1,
    },
}
each_kind = pytest.mark.parametrize("changes", GRID.values(), ids=GRID.keys())


def shape(**changes: Any) -> ModelSettings:
    return ModelSettings(**(small | changes))


def randomise(module: nn.Module, seed: int = 0) -> None:
    """Every parameter drawn: matrices small, gains around one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.normal_(0, 0.3, generator=generator)
            if "norm" in name and name.endswith("weight"):
                parameter += 1


def make(seed: int = 0, source_size: int = SIZE, target_size: int = SIZE, **changes: Any) -> Transformer:
    copied = [-1, *((7 * at) % target_size if at % 3 else -1 for at in range(1, source_size))]
    model = Transformer(shape(**changes), source_size, target_size, copied)
    randomise(model, seed)
    return model.eval()


def draw(seed: int, *size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def draw_ids(seed: int, *size: int) -> Tensor:
    return torch.randint(0, SIZE, size, generator=torch.Generator().manual_seed(seed))


def padded(sequences: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Ids with some pads on the right, and where they are visible."""
    longest = max(map(len, sequences)) + 2
    ids = torch.tensor([[*sequence, *[0] * (longest - len(sequence))] for sequence in sequences])
    visible = torch.tensor([[i < len(sequence) for i in range(longest)] for sequence in sequences])
    return ids, visible


def close(got: Tensor, expected: Tensor | np.ndarray[Any, Any], tolerance: float = 1e-5) -> None:
    expected = torch.as_tensor(expected).to(got.dtype)
    torch.testing.assert_close(got.detach(), expected.detach(), atol=tolerance, rtol=tolerance)


def reference_logits(model: Transformer, source: Sequence[int], target: Sequence[int]) -> np.ndarray[Any, Any]:
    weights, chosen = get_weights(model), model.settings
    memory = reference.encode(weights, chosen, np.array(source))
    copies = reference.copies(weights, chosen, np.array(source), memory)
    hidden = reference.decode(weights, chosen, np.array(target), memory)
    return reference.project(weights, chosen, hidden, copies=copies)


# The whole model


@each_kind
def test_the_model_is_the_reference(changes: dict[str, Any]) -> None:
    model = make(dropout=0.0, **changes)
    source, target = draw_ids(1, 2, 7), draw_ids(2, 2, 5)
    logits = logits_of(model, source, target)
    for row in range(2):
        close(logits[row], reference_logits(model, source[row].tolist(), target[row].tolist()))
    assert torch.equal(logits_of(model.train(), source, target), logits)


@pytest.mark.parametrize("score", [0.0, 200.0, -200.0, math.nan])
def test_copies_are_added_as_in_the_reference_and_hide_nothing(score: float) -> None:
    """Far above and below the logits, twice the same token, a score that cannot be copied, and none that can."""
    logits, scores = draw(1, 3, 5), draw(2, 3, 4)
    scores[1] += score
    for target_ids in (torch.tensor([2.0, -1.0, 2.0, 4.0]), torch.full((4,), -1.0)):
        found = copying.add_copies(logits, scores, target_ids.expand(3, 4))
        with np.errstate(invalid="ignore"):
            expected = reference.add_copies(logits.double().numpy(), scores.double().numpy(), target_ids.numpy())
        torch.testing.assert_close(found.double(), torch.tensor(expected), atol=1e-5, rtol=1e-5, equal_nan=True)
        assert bool(found[1].isnan().any()) == (math.isnan(score) and bool((target_ids >= 0).any()))


def test_no_copy_is_lost_far_below_the_highest_and_gradients_are_finite() -> None:
    """A token is copied twice; the last two positions, one of which is masked, have no token."""
    scores = torch.tensor([[0.0, -80.0, -90.0, -110.0, -200.0, -200.0, 3.0, -math.inf]])
    target_ids = torch.tensor([[0.0, 1.0, 2.0, 3.0, 4.0, 4.0, -1.0, -1.0]])
    logits = torch.tensor([[-300.0] * 5 + [-400.0]])
    found = copying.add_copies(logits.requires_grad_(), scores.requires_grad_(), target_ids)
    expected = reference.add_copies(*(x.detach().double().numpy() for x in (logits, scores)), target_ids[0].numpy())
    torch.testing.assert_close(found.detach().double(), torch.tensor(expected), atol=1e-4, rtol=0)
    found.sum().backward()
    assert scores.grad is not None
    assert scores.grad[0].tolist() == pytest.approx([1, 1, 1, 1, 0.5, 0.5, 0, 0])
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx([0, 0, 0, 0, 0, 1])


@each_kind
def test_names_and_shapes_are_those_of_the_model_file(changes: dict[str, Any]) -> None:
    sizes = (SIZE, SIZE) if changes.get("tied_embeddings", "all") == "all" else (SIZE, SIZE + 4)
    model = make(source_size=sizes[0], target_size=sizes[1], **changes)
    got = {name: tensor.shape for name, tensor in get_weights(model).items()}
    assert got == tensor_shapes(model.settings, *sizes)
    assert sum(parameter.numel() for parameter in model.parameters()) == count_parameters(model.settings, *sizes)
    assert not {name for name in model.state_dict() if "positions" in name} - got.keys()


@each_kind
def test_every_parameter_is_trained(changes: dict[str, Any]) -> None:
    model = make(**changes)
    logits_of(model, torch.arange(SIZE)[None], torch.arange(SIZE)[None]).logsumexp(2).sum().backward()
    untrained = {name for name, each in model.named_parameters() if each.grad is None or not each.grad.any()}
    unused_keys_bias = {name for name in untrained if name.endswith("w_k.bias")}  # it moves all scores of a row alike
    assert untrained == unused_keys_bias


def test_one_embedding_for_two_vocabularies_is_refused() -> None:
    with pytest.raises(SettingsError, match="one embedding for both sides needs one vocabulary") as caught:
        Transformer(shape(tied_embeddings="all"), 5, 6)
    assert caught.value.got == "5 source tokens and 6 target tokens"


# Attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_a_query_that_sees_nothing_yields_zeros_and_finite_gradients(dtype: torch.dtype) -> None:
    q, k, v = (draw(i, 2, 3, 4, 8, dtype=dtype).requires_grad_() for i in range(3))
    visible = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    visible[0, 0, 1] = False
    visible[1] = False
    output = attention(q, k, v, visible)
    assert not output[0, :, 1].any()
    assert not output[1].any()
    assert output[0, :, 0].all()
    output.float().square().sum().backward()
    assert all(each.grad is not None and each.grad.isfinite().all() for each in (q, k, v))


# Norm, positions and embeddings


def test_the_table_of_positions_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(length: int, d_model: int, base: float) -> Tensor:
        made.append(length)
        return sinusoids(length, d_model, base)

    monkeypatch.setattr(model_module, "sinusoids", counted)
    model = make()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(2):
        logits_of(model, draw_ids(0, 2, 16), draw_ids(1, 2, 15)).sum().backward()
        optimizer.step()
    with torch.inference_mode():
        inference = TorchInference(model)
        cache = inference.start(draw_ids(2, 2, 5).tolist(), 8)
        for _ in range(4):
            inference.step(torch.tensor([[1], [1]]), cache)
    assert made == [16]
    close(model.source_positions.table, reference.sinusoids(16, 16), 1e-6)


def test_sinusoids_go_on_past_the_table() -> None:
    model = make(max_length=4)
    source, target = draw_ids(0, 1, 11), draw_ids(1, 1, 9)
    close(logits_of(model, source, target)[0], reference_logits(model, source[0].tolist(), target[0].tolist()))
    assert len(make(max_length=10**12).source_positions.table) == 1024  # however long a sequence may be


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_sequence_past_the_last_learned_position_is_refused(side: str) -> None:
    model = make(positions="learned")
    lengths = (17, 2) if side == "source" else (2, 17)
    with pytest.raises(TextError, match="a sequence of 17 tokens is longer than the 16 learned positions"):
        logits_of(model, draw_ids(0, 1, lengths[0]), draw_ids(1, 1, lengths[1]))


# Initial weights and dropout


def test_embeddings_and_learned_positions_start_normal_with_variance_one_over_d_model() -> None:
    torch.manual_seed(0)
    chosen = shape(d_model=64, n_heads=4, positions="learned", max_length=500, tied_embeddings="none")
    model = Transformer(chosen, 1000, 1000)
    for table in (model.source_embedding.weight, model.target_embedding.weight, model.target_positions.table):
        sigma = 64**-0.5
        assert table.std().item() == pytest.approx(sigma, rel=0.02)
        assert table.mean().item() == pytest.approx(0, abs=0.02 * sigma)
        within = (table.abs() < sigma).double().mean().item()
        assert within == pytest.approx(math.erf(2**-0.5), abs=0.01)


def test_matrices_start_uniform_within_xaviers_bound_and_vectors_neutral() -> None:
    torch.manual_seed(0)
    model = Transformer(shape(d_model=64, d_ff=128, attention_bias=True, norm="pre"), SIZE, SIZE)
    for name, parameter in model.named_parameters():
        if "embedding" in name:
            continue
        if parameter.dim() == 2:
            bound = math.sqrt(6 / sum(parameter.shape))
            assert 0.98 * bound < parameter.abs().max() <= bound
            assert parameter.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        else:
            neutral = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            assert (parameter == neutral).all()


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_dropout_stands_on_both_embeddings_on_every_sublayer_and_where_it_is_asked_for(
    activation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = {"dropout": 0.1, "feed_forward_dropout": 0.3, "attention_dropout": 0.2}
    chosen = shape(n_encoder_layers=2, n_decoder_layers=3, activation=activation, **rates)
    model, seen = Transformer(chosen, SIZE, SIZE).train(), []
    monkeypatch.setattr(nn.Dropout, "forward", lambda module, x: seen.append(module.p) or x)
    logits_of(model, draw_ids(0, 1, 4), draw_ids(1, 1, 3))
    assert seen.count(0.1) == 2 + 2 * 2 + 3 * 3
    assert seen.count(0.2) == 2 + 3 * 2
    assert seen.count(0.3) == 2 + 3


def as_torch_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = (ours.w_q, ours.w_k, ours.w_v)
    theirs.in_proj_weight.copy_(torch.cat([each.weight for each in projections]))
    theirs.in_proj_bias.copy_(torch.cat([each.bias for each in projections]))
    theirs.out_proj.load_state_dict(ours.w_o.state_dict())


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    """Weights of one of our layers into the layer of torch that stands for it."""
    names = {"linear1": "feed_forward.w_1", "linear2": "feed_forward.w_2", "norm1": "self_attention_norm"}
    with torch.no_grad():
        as_torch_attention(ours.self_attention, theirs.self_attn)
        if hasattr(ours, "cross_attention"):
            as_torch_attention(ours.cross_attention, theirs.multihead_attn)
            names |= {"norm2": "cross_attention_norm", "norm3": "feed_forward_norm"}
        else:
            names |= {"norm2": "feed_forward_norm"}
        for their_name, our_name in names.items():
            theirs.get_submodule(their_name).load_state_dict(ours.get_submodule(our_name).state_dict())


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_stacks_are_those_of_torch(norm: str, activation: str) -> None:
    model = make(norm=norm, activation=activation, attention_bias=True, n_encoder_layers=3)
    how: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": norm == "pre", "activation": activation}
    encoder_layers = [nn.TransformerEncoderLayer(16, 2, 24, **how) for _ in range(3)]
    decoder_layers = [nn.TransformerDecoderLayer(16, 2, 24, **how) for _ in range(2)]
    for ours, theirs in zip([*model.encoder, *model.decoder], [*encoder_layers, *decoder_layers], strict=True):
        copy_layer(ours, theirs)
    source, source_visible = padded([[3, 1, 4, 1, 5], [9, 2]])
    target = draw_ids(0, 2, 6)
    table = model.source_embedding.weight

    def embedded(ids: Tensor) -> Tensor:
        return 4.0 * table[ids] + torch.from_numpy(reference.sinusoids(ids.shape[1], 16)).float()

    memory = embedded(source)
    for layer in encoder_layers:
        memory = layer(memory, src_key_padding_mask=~source_visible)
    memory = model.encoder_norm(memory)
    future = torch.ones(6, 6, dtype=torch.bool).triu(1)
    hidden = embedded(target)
    for layer in decoder_layers:
        hidden = layer(hidden, memory, tgt_mask=future, memory_key_padding_mask=~source_visible)
    close(logits_of(model, source, target, source_visible), model.decoder_norm(hidden) @ table.T)


# Shapes in signatures


def test_modules_with_shapes_are_checked() -> None:
    with pytest.raises(TypeCheckError):
        reference.attention(*np.ones((2, 2, 4)), np.ones((3, 4)))
