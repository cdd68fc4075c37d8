"""The format of CTranslate2, for `ctranslate2.Translator` in Python and C++.

A folder with `model.bin`, its vocabularies, `glassformer.json` (tokenizers, search) and `run.py`. The tokens of the
library are named by their ids (`s12` of a source, `12` of a target), because a written form could equal a special token
of the library, which reads a source of its two special tokens as an empty text. `text.py` converts texts and ids.
Every option of the library is set, because its defaults are for other models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import MissingExtraError, SettingsError
from glassformer.export.programs import Format, max_positions, script_answers, write_programs
from glassformer.paper.reference import sinusoids
from glassformer.settings import ModelSettings
from glassformer.storage.container import Arrays
from glassformer.storage.modelfile import ModelFile


def _specs() -> Any:
    """The `ctranslate2.specs` of the library. Raises MissingExtraError when it is not installed."""
    try:
        from ctranslate2 import specs
    except ImportError:
        raise MissingExtraError("--to ctranslate2", package="ctranslate2", extra="ctranslate2") from None
    return specs


def check_supported(model_file: ModelFile) -> None:
    """Raise SettingsError for a model that the library cannot represent, MissingExtraError without the library."""
    _specs()
    settings = model_file.settings.model
    if settings.d_k != settings.d_v:
        raise SettingsError(
            "ctranslate2 does not support this model: keys and values must have one width",
            got=f"d_k={settings.d_k}, d_v={settings.d_v}",
            hint="--to onnx",
        )
    if settings.copy_mechanism:
        what = "ctranslate2 does not support this model: its layers have no copy mechanism"
        hint = "--to onnx, --to html, or a model that is trained with --set model.copy_mechanism=false"
        raise SettingsError(what, got="copy_mechanism=true", hint=hint)


def write(model_file: ModelFile, folder: Path, precision: str) -> None:
    """Write the folder; sinusoids reach up to the last position of any answer, learned positions as they are."""
    copies = {name: array.copy() for name, array in model_file.tensors.items()}  # the library quantizes in place
    spec = _spec(model_file.settings.model, copies, max_positions(model_file))
    vocabulary = model_file.target_tokenizer.vocabulary
    config = spec.config
    config.layer_norm_epsilon = model_file.settings.model.norm_eps
    config.decoder_start_token = config.bos_token = str(vocabulary.bos_id)
    config.eos_token = str(vocabulary.eos_id)
    config.unk_token = str(vocabulary.pad_id)  # the id of unknown names; there are none
    config.add_source_bos = config.add_source_eos = False  # sources come framed
    spec.register_source_vocabulary([f"s{token}" for token in range(len(model_file.source_tokenizer))])
    spec.register_target_vocabulary([str(token) for token in range(len(model_file.target_tokenizer))])
    spec.validate()
    spec.optimize(quantization=None if precision == "float32" else precision)  # tied matrices are written once
    spec.save(str(folder))
    write_programs(model_file, folder, "ctranslate2_engine.py")


def _spec(settings: ModelSettings, tensors: Arrays, n_positions: int) -> Any:
    """The weights, under the names of CTranslate2's Transformer."""
    specs = _specs()
    transformer, activation = specs.transformer_spec, specs.common_spec.Activation
    activations = {"relu": activation.RELU, "gelu": activation.GELU, "swish": activation.SWISH}  # GELU: by erf
    shape = {
        "num_heads": settings.n_heads,
        "head_dim": settings.d_k,
        "pre_norm": settings.norm == "pre",
        "activation": activations[settings.activation],
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
        if settings.positions == "sinusoidal":  # ours are interleaved, the library's are in two halves
            table = sinusoids(n_positions, settings.d_model, settings.position_base).astype(np.float32)
        else:
            table = np.pad(tensors[f"{side}_positions.table"], ((0, 1), (0, 0)))  # scoring has one more input
        stack.position_encodings.encodings = table

    layers = [(f"encoder.{i}", layer) for i, layer in enumerate(encoder.layer)]
    layers += [(f"decoder.{i}", layer) for i, layer in enumerate(decoder.layer)]
    for name, layer in layers:
        _set_attention(tensors, layer.self_attention, f"{name}.self_attention", ["w_q", "w_k", "w_v"], ["w_o"])
        if name.startswith("decoder"):
            _set_attention(tensors, layer.attention, f"{name}.cross_attention", ["w_q"], ["w_k", "w_v"], ["w_o"])
        _set_linear(tensors, layer.ffn.linear_0, [f"{name}.feed_forward.w_1"])
        _set_linear(tensors, layer.ffn.linear_1, [f"{name}.feed_forward.w_2"])
        _set_norm(tensors, layer.ffn.layer_norm, f"{name}.feed_forward_norm")
    if settings.norm == "pre":
        _set_norm(tensors, encoder.layer_norm, "encoder_norm")
        _set_norm(tensors, decoder.layer_norm, "decoder_norm")
    return transformer.TransformerSpec(encoder, decoder)


def _set_attention(tensors: Arrays, spec: Any, name: str, *groups: list[str]) -> None:
    """Set the weights of attention: each group of projections is one matrix; it includes the norm."""
    for linear, group in zip(spec.linear, groups, strict=True):
        _set_linear(tensors, linear, [f"{name}.{projection}" for projection in group])
    _set_norm(tensors, spec.layer_norm, f"{name}_norm")


def _set_linear(tensors: Arrays, spec: Any, names: list[str]) -> None:
    spec.weight = np.concatenate([tensors[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in tensors:
        spec.bias = np.concatenate([tensors[f"{name}.bias"] for name in names])


def _set_norm(tensors: Arrays, spec: Any, name: str) -> None:
    spec.gamma, spec.beta = tensors[f"{name}.weight"], tensors[f"{name}.bias"]


FORMAT = Format(
    precisions=("float32", "int8", "float16"),
    beam="own",  # it gives the slot of a finished hypothesis to another one
    packages=("glassformer", "ctranslate2", "numpy"),
    check_supported=check_supported,
    write=write,
    answer=script_answers,
    holds_members=False,
)
