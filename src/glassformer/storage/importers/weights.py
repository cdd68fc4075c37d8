"""The weights of a MarianMT folder under our names, with the features of the model in our order.

MarianMT's sinusoids are in two halves, first all sines, then all cosines; ours are interleaved, as in the paper. So
feature 2i of ours is feature i of MarianMT, and 2i + 1 is i + d_model / 2, wherever a feature of the model is a row or
a column. No number is changed: the model computes the same, except for the order in which a sum is added up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import ModelFileError
from glassformer.paper.reference import sinusoids
from glassformer.settings import ModelSettings
from glassformer.storage.container import Arrays
from glassformer.storage.importers.config import MarianConfig
from glassformer.storage.modelfile import tensor_shapes

SAFETENSORS, PICKLED = "model.safetensors", "pytorch_model.bin"
POSITIONS = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"}
POSITIONS_TOLERANCE = 1e-4  # of a table of sinusoids that is in a file
_PARTS = {
    "encoder.": "model.encoder.layers.",
    "decoder.": "model.decoder.layers.",
    "encoder_norm": "model.encoder.layer_norm",
    "decoder_norm": "model.decoder.layer_norm",
    "source_embedding": "model.encoder.embed_tokens",
    "target_embedding": "model.decoder.embed_tokens",
    "output_projection.weight": "lm_head.weight",
    "output_projection.bias": "final_logits_bias",
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward_norm": "final_layer_norm",
    "feed_forward.w_1": "fc1",
    "feed_forward.w_2": "fc2",
    "self_attention": "self_attn",
    "cross_attention": "encoder_attn",
    "w_q": "q_proj",
    "w_k": "k_proj",
    "w_v": "v_proj",
    "w_o": "out_proj",
}
"""Part of a name of ours -> MarianMT's, in the order of replacement: a longer one is before those that it contains. The
final norms are those of Blenderbot, which has the same names otherwise."""


def read_weights(folder: Path, config: MarianConfig, model: ModelSettings) -> Arrays:
    """Return the weights of a folder as float32, under the names of our model file.

    Raises ModelFileError, with the name in the folder, for one that is missing, unknown, of another shape, not finite,
    or not equal to the one that it should share.
    """
    path = next(folder / name for name in (SAFETENSORS, PICKLED) if (folder / name).exists())
    theirs, where = _read(path), str(path)
    shapes = tensor_shapes(model, config.vocab_size, config.target_size)
    names = {ours: marian_name(ours) for ours in shapes}
    shared, copies = _shared_names(model)
    if model.tied_embeddings == "all":
        names["source_embedding.weight"] = shared
    _check_same(theirs, shared, copies, where)
    _check_positions(theirs, model, where)
    if extra := sorted(theirs.keys() - {*names.values(), *copies, *POSITIONS}):
        raise ModelFileError(
            "the file has weights that MarianMT does not have",
            where=where,
            got=", ".join(extra[:5]) + (f" and {len(extra) - 5} more" if len(extra) > 5 else ""),
        )
    order = _feature_order(model.d_model)
    tensors = {}
    for ours, shape in shapes.items():
        array = _take(theirs, names[ours], shape, where)
        for axis in feature_axes(ours):
            array = np.take(array, order, axis=axis)
        tensors[ours] = np.ascontiguousarray(array)
    return tensors


def marian_name(name: str) -> str:
    """Return MarianMT's name of a tensor of ours, where no embedding is shared."""
    for part, their_part in _PARTS.items():
        name = name.replace(part, their_part)
    return name


def _take(theirs: Mapping[str, NDArray[Any]], name: str, shape: tuple[int, ...], where: str) -> NDArray[Any]:
    """Return one of their arrays, checked."""
    expected = (1, *shape) if name == "final_logits_bias" else shape
    if name not in theirs:
        raise ModelFileError(f"the weights {name!r} are missing", where=where, expected=f"the shape {expected}")
    array = theirs[name]
    if array.shape != expected:
        what = f"the weights {name!r} do not have the shape that config.json gives"
        raise ModelFileError(what, where=where, got=str(array.shape), expected=str(expected))
    if not np.isfinite(array).all():
        raise ModelFileError(f"the weights {name!r} contain a number that is not finite", where=where)
    return array.reshape(shape)


def _feature_order(d_model: int) -> NDArray[np.int64]:
    """Our feature -> MarianMT's."""
    return np.arange(d_model).reshape(2, d_model // 2).T.ravel()


def feature_axes(name: str) -> tuple[int, ...]:
    """Return the axes of our tensor `name` that are features of the model."""
    part, _, kind = name.rpartition(".")
    if part.endswith(("_norm", "w_o", "w_2")):
        return (0,)
    return (1,) if kind == "weight" else ()


# Arrays that a file may have again


def _shared_names(model: ModelSettings) -> tuple[str, tuple[str, ...]]:
    """The matrix that MarianMT shares, and its other names."""
    if model.tied_embeddings == "all":
        other = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
        return "model.shared.weight", other
    return "model.decoder.embed_tokens.weight", ("lm_head.weight",) if model.tied_embeddings == "target" else ()


def _check_same(theirs: Arrays, shared: str, copies: Sequence[str], where: str) -> None:
    """Raise ModelFileError unless copies of the shared matrix are equal to it; a file may have only a copy."""
    names = [name for name in (shared, *copies) if name in theirs]
    if not names:
        raise ModelFileError(f"the weights {shared!r} are missing", where=where)
    theirs.setdefault(shared, theirs[names[0]])
    for name in names:
        if not np.array_equal(theirs[name], theirs[shared], equal_nan=True):
            raise ModelFileError(f"the weights {name!r} and {shared!r} should be the same, and differ", where=where)


def _check_positions(theirs: Arrays, model: ModelSettings, where: str) -> None:
    """Raise ModelFileError for a table of positions that is not MarianMT's sinusoids."""
    for name in sorted(POSITIONS & theirs.keys()):
        table = theirs[name]
        if table.ndim != 2 or table.shape[1] != model.d_model or len(table) > model.max_length + 2:
            raise ModelFileError(f"the weights {name!r} are no table of positions", where=where, got=str(table.shape))
        halves = np.empty(table.shape)
        halves[:, _feature_order(model.d_model)] = sinusoids(len(table), model.d_model)
        if not np.abs(table - halves).max(initial=0.0) <= POSITIONS_TOLERANCE:
            raise ModelFileError(f"the positions {name!r} are not sinusoids: they were learned", where=where)


# Files


def _read(path: Path) -> Arrays:
    """Return all arrays of a file as float32; a float16 or bfloat16 is exact in it. Nothing in a file is executed."""
    import torch

    try:
        if path.name == SAFETENSORS:
            from safetensors.torch import load_file

            tensors = load_file(path)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a file that was not written by torch.save
                tensors = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(tensors, dict) or not all(map(torch.is_floating_point, tensors.values())):
            raise TypeError("something else than tensors of floating-point numbers")
    except Exception as error:  # damaged bytes lead both readers into errors of every kind
        what, got = "this is not a file of weights, or it is damaged", str(error).partition("\n")[0][:200]
        raise ModelFileError(what, where=str(path), got=got) from None
    return {name: value.detach().float().numpy() for name, value in tensors.items()}
