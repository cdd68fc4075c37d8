"""Writes a model in the format of CTranslate2. Every option is set, because the defaults are those of other models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import MissingExtraError, SettingsError
from glassformer.paper.reference import sinusoids
from glassformer.paper.settings import ModelSettings
from glassformer.ship.storage.modelfile import ModelFile


def library() -> Any:
    """The `ctranslate2` library. Raises MissingExtraError when it is not installed."""
    try:
        import ctranslate2
    except ImportError:
        raise MissingExtraError("--to ctranslate2", package="ctranslate2", extra="ctranslate2") from None
    return ctranslate2


def source_names(size: int) -> list[str]:
    """Return the names of the source tokens, by id.

    The library looks tokens up by name. Those of the texts could be written like each other or like a special token,
    so it never sees them; and a source name is no target name, since it takes a source of its own two special tokens
    for an empty text.
    """
    return [f"s{token}" for token in range(size)]


def target_names(size: int) -> list[str]:
    """Return the names of the target tokens, by id: the digits of the id."""
    return [str(token) for token in range(size)]


def check_supported(settings: ModelSettings) -> None:
    """Raise SettingsError for a model that CTranslate2 cannot represent."""
    if settings.d_k != settings.d_v:
        raise SettingsError(
            "ctranslate2 does not support this model: keys and values must have one width",
            got=f"d_k={settings.d_k}, d_v={settings.d_v}",
            hint="--to onnx",
        )


def write_model(model_file: ModelFile, folder: Path, n_positions: int, quantization: str | None = None) -> None:
    """Write the model in CTranslate2's format; sinusoids reach up to `n_positions`, learned positions as they are.

    `quantization` is the type of the stored matrices, such as "int8"; float32 by default.
    """
    copies = {name: array.copy() for name, array in model_file.tensors.items()}  # the library quantizes in place
    spec = _spec(replace(model_file, tensors=copies), n_positions)
    vocabulary = model_file.target_tokenizer.vocabulary
    config = spec.config
    config.layer_norm_epsilon = model_file.settings.model.norm_eps
    config.decoder_start_token = config.bos_token = str(vocabulary.bos_id)
    config.eos_token = str(vocabulary.eos_id)
    config.unk_token = str(vocabulary.pad_id)  # the id of unknown names; there are none
    config.add_source_bos = config.add_source_eos = False  # sources come framed
    spec.register_source_vocabulary(source_names(len(model_file.source_tokenizer)))
    spec.register_target_vocabulary(target_names(len(model_file.target_tokenizer)))
    spec.validate()
    spec.optimize(quantization=quantization)  # matrices that are tied are written once
    spec.save(str(folder))


def _spec(model_file: ModelFile, n_positions: int) -> Any:
    """The weights, under the names of CTranslate2's Transformer."""
    specs = library().specs
    transformer = specs.transformer_spec
    settings, tensors = model_file.settings.model, model_file.tensors
    shape = {
        "num_heads": settings.n_heads,
        "head_dim": settings.d_k,
        "pre_norm": settings.norm == "pre",
        "activation": _activations()[settings.activation],
    }
    encoder = transformer.TransformerEncoderSpec(settings.n_encoder_layers, **shape)
    decoder = transformer.TransformerDecoderSpec(settings.n_decoder_layers, **shape)
    decoder.start_from_zero_embedding = False
    encoder.scale_embeddings = decoder.scale_embeddings = settings.scale_embeddings

    source = tensors.get("source_embedding.weight")
    target = tensors.get("target_embedding.weight", source)  # a matrix that is shared has its first name only
    encoder.embeddings[0].weight, decoder.embeddings.weight = source, target
    decoder.projection.weight = tensors.get("output_projection.weight", target)
    if settings.output_bias:
        decoder.projection.bias = tensors["output_projection.bias"]
    for side, stack in (("source", encoder), ("target", decoder)):
        stack.position_encodings.encodings = _positions(model_file, side, n_positions)

    layers = [(f"encoder.{i}", layer) for i, layer in enumerate(encoder.layer)]
    layers += [(f"decoder.{i}", layer) for i, layer in enumerate(decoder.layer)]
    for name, layer in layers:
        _set_attention(model_file, layer.self_attention, f"{name}.self_attention", ["w_q", "w_k", "w_v"], ["w_o"])
        if name.startswith("decoder"):
            _set_attention(model_file, layer.attention, f"{name}.cross_attention", ["w_q"], ["w_k", "w_v"], ["w_o"])
        _set_linear(model_file, layer.ffn.linear_0, [f"{name}.feed_forward.w_1"])
        _set_linear(model_file, layer.ffn.linear_1, [f"{name}.feed_forward.w_2"])
        _set_norm(model_file, layer.ffn.layer_norm, f"{name}.feed_forward_norm")
    if settings.norm == "pre":
        _set_norm(model_file, encoder.layer_norm, "encoder_norm")
        _set_norm(model_file, decoder.layer_norm, "decoder_norm")
    return transformer.TransformerSpec(encoder, decoder)


def _activations() -> dict[str, Any]:
    """Our name of an activation -> that of the library."""
    activation = library().specs.common_spec.Activation
    return {"relu": activation.RELU, "gelu": activation.GELU, "swish": activation.SWISH}  # GELU: by erf


def _positions(model_file: ModelFile, side: str, n_positions: int) -> NDArray[Any]:
    """The position table [length D]: our sinusoids are interleaved, those of the library are in two halves."""
    settings = model_file.settings.model
    if settings.positions == "sinusoidal":
        return sinusoids(n_positions, settings.d_model, settings.position_base).astype(np.float32)
    table = model_file.tensors[f"{side}_positions.table"]
    return np.pad(table, ((0, 1), (0, 0)))  # scoring has one more input than targets


def _set_attention(model_file: ModelFile, spec: Any, name: str, *groups: list[str]) -> None:
    """Set the weights of attention: each group of projections is one matrix; it includes the norm."""
    for linear, group in zip(spec.linear, groups, strict=True):
        _set_linear(model_file, linear, [f"{name}.{projection}" for projection in group])
    _set_norm(model_file, spec.layer_norm, f"{name}_norm")


def _set_linear(model_file: ModelFile, spec: Any, names: list[str]) -> None:
    tensors = model_file.tensors
    spec.weight = np.concatenate([tensors[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in tensors:
        spec.bias = np.concatenate([tensors[f"{name}.bias"] for name in names])


def _set_norm(model_file: ModelFile, spec: Any, name: str) -> None:
    spec.gamma, spec.beta = model_file.tensors[f"{name}.weight"], model_file.tensors[f"{name}.bias"]
