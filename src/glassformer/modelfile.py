"""One model in one `.safetensors` file: weights, settings, tokenizers, where it came from, how good it is.

The header's metadata holds JSON under the keys of `ModelFile`, the format's name and version, and a SHA-256 digest
over metadata and tensors. Reading checks version, digest, names and sizes; no code in the file is ever run, because
there is none. `docs/model-file.md` describes the format.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from glassformer.errors import GlassformerError, MissingExtraError, ModelFileError
from glassformer.files import atomic
from glassformer.records import Metrics, TrainingData, read_versions
from glassformer.settings import ModelSettings, Settings
from glassformer.text import Tokenizer

FORMAT = "glassformer-model/1"
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelFile:
    """Everything that a model is.

    `data` says what it was trained on (fingerprint, ledger counts, lengths, token counts), `metrics` how good it was
    in validation, `versions` which libraries made it.
    """

    settings: Settings
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    tensors: Arrays
    data: TrainingData = field(default_factory=lambda: TrainingData())
    metrics: Metrics = field(default_factory=lambda: Metrics())
    versions: dict[str, str] = field(default_factory=lambda: library_versions())

    @property
    def n_parameters(self) -> int:
        return sum(array.size for array in self.tensors.values())

    def save(self, path: Path) -> None:
        """Write the file atomically. Raises RunError when that cannot be done."""
        write_tensors(
            path,
            FORMAT,
            self.tensors,
            {
                "settings": self.settings.model_dump(mode="json"),
                "tokenizers": tokenizers_to_dict(self.source_tokenizer, self.target_tokenizer),
                "data": self.data.to_dict(),
                "metrics": self.metrics.to_dict(),
                "versions": self.versions,
            },
        )

    @classmethod
    def load(cls, path: str | Path) -> ModelFile:
        """Read a model file, or the `model.safetensors` of a run directory.

        Raises ModelFileError when it is missing, damaged, foreign, hostile or of another version.
        """
        path = find_model(path)
        tensors, parts = read_tensors(path, FORMAT)
        try:
            settings = Settings(**_part(parts, "settings", path))
            source, target = tokenizers_from_dict(_part(parts, "tokenizers", path))
            data = TrainingData(**_part(parts, "data", path))
            data.check_vocabularies(len(source), len(target))
            metrics = Metrics(**_part(parts, "metrics", path))
            versions = read_versions(_part(parts, "versions", path))
        except ModelFileError as error:
            error.where = error.where or str(path)
            raise
        except MissingExtraError:
            raise
        except GlassformerError as error:
            raise ModelFileError(
                "the model file holds settings that are not valid",
                where=str(path),
                got=error.what,
                hint=error.hint,
            ) from None
        _check_shapes(tensors, settings.model, len(source), len(target), path)
        return cls(settings, source, target, tensors, data, metrics, versions)

    def describe(self) -> dict[str, Any]:
        """What the model is, what it was trained on and how good it is, fit for JSON."""
        tokenizers = {"source": self.source_tokenizer, "target": self.target_tokenizer}
        shapes = tensor_shapes(self.settings.model, len(self.source_tokenizer), len(self.target_tokenizer))

        def total(*words: str) -> int:
            return sum(math.prod(shape) for name, shape in shapes.items() if any(word in name for word in words))

        return {
            "settings": self.settings.model_dump(mode="json"),
            "vocabularies": {side: {"kind": one.settings.kind, "size": len(one)} for side, one in tokenizers.items()},
            "parameters": {
                "all": total(""),
                "embeddings and positions": total("embedding", "positions", "output_projection"),
                "encoder": total("encoder"),
                "decoder": total("decoder"),
                "one attention": total("encoder.0.self_attention.w_"),
                "one feed-forward": total("encoder.0.feed_forward.w_"),
            },
            "data": {name: value for name, value in self.data.to_dict().items() if not name.endswith("_counts")},
            "metrics": self.metrics.to_dict(),
            "never_trained": {
                "source": _never_trained(self.source_tokenizer, self.data.source_counts),
                "target": _never_trained(self.target_tokenizer, self.data.target_counts),
            },
            "versions": self.versions,
        }


def _never_trained(tokenizer: Tokenizer, counts: Sequence[int]) -> list[str]:
    """The tokens of a side that no row of the training data holds; none where there are no counts."""
    vocabulary = tokenizer.vocabulary
    return [
        vocabulary.pieces[token]
        for token, count in enumerate(counts)
        if count == 0 and token not in vocabulary.special_ids
    ]


def tokenizers_to_dict(source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """Both tokenizers, fit for JSON; one that serves both sides is there once."""
    return {"source": source.to_dict()} | ({} if target is source else {"target": target.to_dict()})


def tokenizers_from_dict(saved: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target that `tokenizers_to_dict` wrote. Raises ModelFileError for anything else."""
    source = Tokenizer.from_dict(saved.get("source", {}))
    return source, Tokenizer.from_dict(saved["target"]) if "target" in saved else source


def find_model(path: str | Path) -> Path:
    """The model file that `path`, a file or a run directory, stands for.

    Raises ModelFileError when there is none.
    """
    path = Path(path)
    try:
        inside = path / "model.safetensors"
        if path.is_dir():
            if inside.is_file():
                return inside
            replaced = path / ".replaced" / "model.safetensors"
            raise ModelFileError(
                "this folder is not a finished run",
                where=str(path),
                expected="a model.safetensors in it",
                hint=f"the model that --overwrite was replacing is {replaced}" if replaced.is_file() else None,
            )
        if path.exists():
            return path
    except OSError as error:
        raise ModelFileError("cannot read the model file", where=str(path), got=error.strerror) from None
    raise ModelFileError(
        "there is no such model",
        where=str(path),
        expected="a .safetensors model file or a run directory",
        hint="train one: glassformer train TABLE --out RUN",
    )


# The container: tensors, JSON parts, a digest


def write_tensors(path: Path, form: str, tensors: Mapping[str, NDArray[Any]], parts: Mapping[str, Any]) -> None:
    """Write tensors and JSON parts as one safetensors file, atomically, with a digest over all of it."""
    header = {name: json.dumps(part, sort_keys=True) for name, part in parts.items()}
    header["format"] = form
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    header["digest"] = _digest(arrays, header)
    with atomic(path) as temporary:
        temporary.touch()
        mode = temporary.stat().st_mode  # the library's own file would be readable by its owner alone
        try:
            save_file(arrays, temporary, metadata=header)
        except SafetensorError as error:
            raise _system_error(error) from None
        temporary.chmod(mode)


def _system_error(error: SafetensorError) -> Exception:
    """The OSError that the library tells of in words, such as a full disk; any other error as it is."""
    found = re.search(r"os error (\d+)", str(error))
    return OSError(int(found[1]), os.strerror(int(found[1]))) if found else error


def read_tensors(path: Path, form: str) -> tuple[Arrays, dict[str, Any]]:
    """Tensors and JSON parts of a file that `write_tensors` wrote. Raises ModelFileError for anything else."""
    try:
        path.open("rb").close()  # whatever stops the library, it would say that there is no such file
        with safe_open(path, framework="numpy") as opened:
            header = opened.metadata() or {}
            _check_format(header.get("format"), form, path)
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  (not a dict)
    except OSError as error:
        raise ModelFileError("cannot read the model file", where=str(path), got=error.strerror or str(error)) from None
    except (SafetensorError, TypeError, AttributeError, ValueError) as error:
        raise ModelFileError(
            "this is not a model file, or it is cut off or damaged",
            where=str(path),
            got=str(error),
            expected="a .safetensors file written by glassformer",
        ) from None
    if header.pop("digest", None) != _digest(tensors, header):
        raise ModelFileError(
            "the model file was changed after it was written: its digest does not fit its contents",
            where=str(path),
            hint="copy it again from where it was trained",
        )
    try:
        return tensors, {name: json.loads(text) for name, text in header.items() if name != "format"}
    except (ValueError, RecursionError) as error:  # a number of too many digits is a plain ValueError
        raise ModelFileError("the model file's metadata is not JSON", where=str(path), got=str(error)) from None


def _digest(tensors: Mapping[str, NDArray[Any]], header: Mapping[str, str]) -> str:
    """SHA-256 over the header (without the digest) and every tensor's name, type, shape and little-endian bytes."""
    total = hashlib.sha256(json.dumps(dict(header), ensure_ascii=False, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        total.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        total.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return total.hexdigest()


def _check_format(found: str | None, form: str, path: Path) -> None:
    if found == form:
        return
    kind, _, version = (found or "").partition("/")
    if kind == form.partition("/")[0]:
        raise ModelFileError(
            "the model file has another format version",
            where=str(path),
            got=version,
            expected=form.partition("/")[2],
            hint="use the glassformer release that wrote it, or train again",
        )
    raise ModelFileError(
        "this safetensors file was not written by glassformer", where=str(path), got=found, expected=form
    )


def _part(parts: Mapping[str, Any], name: str, path: Path) -> dict[str, Any]:
    part = parts.get(name)
    if not isinstance(part, dict):
        raise ModelFileError(f"the model file has no {name!r}", where=str(path), expected="a JSON object")
    return part


# Names and sizes of the tensors


def tensor_shapes(model: ModelSettings, source_size: int, target_size: int) -> dict[str, tuple[int, ...]]:
    """Name and shape of every tensor of a model; the names are frozen. A matrix maps rows: y = x Wᵀ."""
    d, inner = model.d_model, model.d_ff
    shapes: dict[str, tuple[int, ...]] = {"source_embedding.weight": (source_size, d)}
    if model.tied_embeddings != "all":
        shapes["target_embedding.weight"] = (target_size, d)
    if model.tied_embeddings == "none":
        shapes["output_projection.weight"] = (target_size, d)
    if model.positions == "learned":
        shapes |= {f"{side}_positions.table": (model.max_length, d) for side in ("source", "target")}

    def linear(name: str, width_in: int, width_out: int, bias: bool) -> None:
        shapes[f"{name}.weight"] = (width_out, width_in)
        if bias:
            shapes[f"{name}.bias"] = (width_out,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (d,)

    attentions = {"encoder": ("self_attention",), "decoder": ("self_attention", "cross_attention")}
    for stack, depth in (("encoder", model.n_encoder_layers), ("decoder", model.n_decoder_layers)):
        for layer in range(depth):
            for attention in attentions[stack]:
                prefix = f"{stack}.{layer}.{attention}"
                linear(f"{prefix}.w_q", d, model.n_heads * model.d_k, model.attention_bias)
                linear(f"{prefix}.w_k", d, model.n_heads * model.d_k, model.attention_bias)
                linear(f"{prefix}.w_v", d, model.n_heads * model.d_v, model.attention_bias)
                linear(f"{prefix}.w_o", model.n_heads * model.d_v, d, model.attention_bias)
                norm(f"{prefix}_norm")
            linear(f"{stack}.{layer}.feed_forward.w_1", d, inner, bias=True)
            linear(f"{stack}.{layer}.feed_forward.w_2", inner, d, bias=True)
            norm(f"{stack}.{layer}.feed_forward_norm")
        if model.norm == "pre":
            norm(f"{stack}_norm")
    return shapes


def count_parameters(model: ModelSettings, source_size: int, target_size: int) -> int:
    """Number of trained parameters; a matrix that is shared counts once."""
    return sum(math.prod(shape) for shape in tensor_shapes(model, source_size, target_size).values())


def _check_shapes(tensors: Arrays, model: ModelSettings, source_size: int, target_size: int, path: Path) -> None:
    if model.n_encoder_layers + model.n_decoder_layers > len(tensors):  # before a hostile depth is counted out
        raise ModelFileError("the model file has fewer tensors than layers", where=str(path))
    if model.tied_embeddings == "all" and source_size != target_size:
        raise ModelFileError("one embedding cannot serve two vocabularies of different sizes", where=str(path))
    expected = tensor_shapes(model, source_size, target_size)
    for name in sorted(expected.keys() | tensors.keys()):
        got = f"{tensors[name].dtype} {tensors[name].shape}" if name in tensors else "nothing"
        want = f"float32 {expected[name]}" if name in expected else "nothing"
        if got != want:
            raise ModelFileError(
                f"the tensor {name!r} does not fit the settings", where=str(path), got=got, expected=want
            )
        if not np.isfinite(tensors[name]).all():
            raise ModelFileError(
                f"the tensor {name!r} holds a number that is not finite", where=str(path), hint="train again"
            )


def library_versions() -> dict[str, str]:
    """Versions of what makes a model: Python, glassformer, and the libraries that compute."""
    versions = {"python": platform.python_version()}
    for package in ("glassformer", "numpy", "safetensors", "tokenizers", "torch"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions
