"""A model that was not trained, and whose answers depend on its source all the same."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from glassformer.inference.engines.torch import get_weights
from glassformer.paper.model import Transformer
from glassformer.paper.settings import Settings
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text import Tokenizer


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
    model = Transformer(settings.model, len(source), len(target))
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
