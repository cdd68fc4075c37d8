"""Models that were not trained: with drawn numbers, and one whose answers depend on its source all the same."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from glassformer.paper.model import Transformer, padded
from glassformer.settings import ModelSettings, Settings, SideSettings, TokenSettings
from glassformer.storage.container import Arrays
from glassformer.storage.modelfile import ModelFile, tensor_shapes
from glassformer.storage.records import TrainingData
from glassformer.storage.weights import get_weights
from glassformer.text import Tokenizer, learn
from glassformer.text.vocabulary import copied_ids

SMALL = ModelSettings(d_model=8, d_ff=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, tied_embeddings="none")


def drawn_tensors(
    model: ModelSettings, source_size: int, target_size: int, seed: int = 0, scale: float = 1.0, gain: float = 0.0
) -> Arrays:
    """Normally distributed numbers for all tensors of a model, with the mean `gain` for the gains of norms, else 0."""
    generator = np.random.default_rng(seed)
    tensors = {
        name: (generator.normal(0, scale, shape) + gain * name.endswith("norm.weight")).astype(np.float32)
        for name, shape in tensor_shapes(model, source_size, target_size).items()
    }
    if model.copy_mechanism:  # no special token can be copied
        specials = np.arange(source_size) < 4
        ids = np.where(specials, -1, generator.integers(-1, target_size, source_size))
        tensors["copy_mechanism.target_ids"] = ids.astype(np.float32)
    return tensors


def drawn_model(
    settings: Settings,
    source: Tokenizer,
    target: Tokenizer,
    seed: int = 5,
    *,
    scale: float = 0.5,
    gain: float = 0.0,
    data: TrainingData | None = None,
) -> ModelFile:
    """A model of drawn numbers."""
    tensors = drawn_tensors(settings.model, len(source), len(target), seed, scale, gain)
    return ModelFile(settings, source, target, tensors, data or TrainingData())


def drawn_shape(chance: random.Random) -> dict[str, Any]:
    """Settings of a small model, drawn at random: what its tests have in common."""
    d_model = chance.choice([6, 8, 12])
    return {
        "n_heads": chance.randint(1, 3),
        "d_k": chance.randint(1, 5),
        "d_v": chance.randint(1, 5),
        "n_encoder_layers": chance.randint(1, 3),
        "n_decoder_layers": chance.randint(1, 3),
        "norm": chance.choice(["pre", "post"]),
        "activation": chance.choice(["relu", "gelu", "swish"]),
        "positions": chance.choice(["sinusoidal", "learned"]),
        "scale_embeddings": chance.random() < 0.7,
        "attention_bias": chance.random() < 0.5,
        "output_bias": chance.random() < 0.5,
        "tied_embeddings": chance.choice(["none", "target", "all"]),
        "norm_eps": chance.choice([1e-5, 0.1]),
        "position_base": chance.choice([10_000.0, 50.0]),
        "d_model": d_model,
        "d_ff": chance.randint(1, 10),
        "copy_mechanism": chance.random() < 0.3,
    }


def character_model(
    sources: str,
    targets: str = "",
    seed: int = 5,
    *,
    model: ModelSettings = SMALL,
    decoding: Mapping[str, Any] | None = None,
    scale: float = 0.5,
    gain: float = 0.0,
    data: TrainingData | None = None,
) -> ModelFile:
    """A model of drawn numbers over the characters of two texts; without `targets` both sides share a tokenizer."""
    tokens = SideSettings(kind="characters")
    source = learn([sources], tokens)
    target = learn([targets], tokens) if targets else source
    sides = TokenSettings(source=tokens, target=tokens, shared=not targets)
    settings = Settings.model_validate({"model": model, "tokens": sides, "decoding": decoding or {}})
    return drawn_model(settings, source, target, seed, scale=scale, gain=gain, data=data)


def listening_model(
    settings: Settings,
    source: Tokenizer,
    target: Tokenizer,
    seed: int,
    *,
    sharp: float = 1.0,
    loud: Mapping[int, float] | None = None,
) -> ModelFile:
    """A model with random weights, norms and biases. All logits are times `sharp`, those of `loud` tokens louder."""
    torch.manual_seed(seed)
    ids = copied_ids(source.vocabulary, target.vocabulary)
    model = Transformer(settings.model, len(source), len(target), ids)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter += 0.1 * torch.randn_like(parameter)
            if "cross_attention.w" in name:
                parameter *= 4
        for token, factor in (loud or {}).items():
            model.output_projection.weight[token] *= factor
        model.output_projection.weight *= sharp
    return ModelFile(settings, source, target, get_weights(model))


def logits_of(
    model: Transformer, source: torch.Tensor, target: torch.Tensor, visible: torch.Tensor | None = None
) -> torch.Tensor:
    """The logits of padded sentences; without `visible` all of the source is."""
    visible = torch.ones(source.shape, dtype=torch.bool) if visible is None else visible
    return model(source, target, padded(visible.to(source.device), target.shape[1]))
