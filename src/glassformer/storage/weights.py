"""The weights of a model file in the paper's model, and those of the model for a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.paper.model import Transformer
from glassformer.storage.container import Arrays
from glassformer.storage.modelfile import TARGET_IDS, ModelFile


def build_model(model_file: ModelFile) -> Transformer:
    """Build the Transformer of a model file, in evaluation mode, on the CPU."""
    sizes = len(model_file.source_tokenizer), len(model_file.target_tokenizer)
    with _Undrawn():
        model = Transformer(model_file.settings.model, *sizes)
    set_weights(model, model_file.tensors)
    return model.eval()


class _Undrawn(TorchFunctionMode):
    """While it is active no weights are drawn: for a large model that took longer than copying those of a file."""

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (Tensor.uniform_, nn.init.uniform_, nn.init.kaiming_uniform_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def get_weights(model: Transformer) -> Arrays:
    """Return copies of all tensors of a model file by name; a shared matrix is there once."""
    return {name: value.detach().cpu().numpy().copy() for name, value in _named_tensors(model)}


def set_weights(model: Transformer, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy the weights of `get_weights` into a model with the same settings."""
    with torch.no_grad():
        for name, tensor in _named_tensors(model):
            tensor.copy_(torch.from_numpy(weights[name]))


def _named_tensors(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    if model.copy_mechanism is not None:
        yield TARGET_IDS, model.copy_mechanism.target_ids
