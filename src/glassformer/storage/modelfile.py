"""One model in one `.safetensors` file: weights, settings, tokenizers, training data and metrics.

The header's metadata is `format` (name and version), JSON under `settings`, `tokenizers`, `data`, `metrics`,
`versions` and, if there are any, `calibration` and `members`, and `digest`, a SHA-256 over metadata and tensors.
Reading checks version, names and sizes before any tensor is read, then the digest. The file contains no code.
`docs/model-file.md` describes the format.
"""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from glassformer.errors import GlassformerError, MissingExtraError, ModelFileError
from glassformer.runtime.versions import library_versions
from glassformer.settings import ModelSettings, Settings
from glassformer.storage.container import Arrays, Shapes, open_container, write_tensors
from glassformer.storage.records import Calibration, Metrics, Parts, TrainingData
from glassformer.storage.rundirectory import RunDirectory
from glassformer.text import Tokenizer
from glassformer.text.seen import Seen

FORMAT = "glassformer-model/2"
TARGET_IDS = "copy_mechanism.target_ids"  # the tensor that is not trained


@dataclass(frozen=True)
class ModelFile:
    """The contents of a model file.

    `data` describes the training data (fingerprint, ledger counts, lengths, token counts), `metrics` the result of
    validation, `versions` the libraries that created the model. `path` is the file that it was read from, `calibration`
    what gives the confidence of answers, if there is one. `members` are further models of the same
    recipe: the probabilities of all are averaged, and calibration and metrics are those of all together.
    """

    settings: Settings
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    tensors: Arrays
    data: TrainingData = field(default_factory=lambda: TrainingData())
    metrics: Metrics = field(default_factory=lambda: Metrics())
    versions: dict[str, str] = field(default_factory=lambda: library_versions())
    path: Path | None = field(default=None, compare=False)
    calibration: Calibration | None = None
    members: tuple[ModelFile, ...] = ()

    @property
    def first(self) -> ModelFile:
        """The first model by itself, where there are several."""
        return replace(self, members=(), calibration=None) if self.members else self

    @property
    def seeds(self) -> list[int]:
        """The random seed of each model."""
        return [model.settings.training.seed for model in (self, *self.members)]

    @property
    def models(self) -> dict[str, ModelFile]:
        """Each model, by what the names of its tensors in the file begin with."""
        return {_prefix(number): model for number, model in enumerate((self, *self.members), 1)}

    @property
    def all_tensors(self) -> Arrays:
        """The tensors of all models, by their names in the file."""
        return {prefix + name: array for prefix, model in self.models.items() for name, array in model.tensors.items()}

    @property
    def n_parameters(self) -> int:
        """The number of trained parameters of one model; a shared matrix counts once."""
        return count_parameters(self.settings.model, len(self.source_tokenizer), len(self.target_tokenizer))

    @functools.cached_property
    def seen(self) -> Seen | None:
        """The strings of tokens in the sources trained on; None if the file has none."""
        n, bits, longest = self.data.seen_length, self.data.seen_strings, self.data.longest_source
        return None if n is None or bits is None or longest is None else Seen(n, base64.b64decode(bits), longest)

    def unlike(self, source: Sequence[int], unknown: Sequence[str] = ()) -> str:
        """Return in words how a framed source is unlike all that the model was trained on; "" if that is unknown.

        `unknown` is as in `Seen.unlike`.
        """
        return self.seen.unlike(source, self.source_tokenizer, unknown) if self.seen else ""

    def save(self, path: str | Path) -> None:
        """Write the file atomically. Raises RunError when it cannot be written."""
        parts: dict[str, Any] = {
            "settings": self.settings.model_dump(mode="json"),
            "tokenizers": tokenizers_to_dict(self.source_tokenizer, self.target_tokenizer),
            "data": self.data.to_dict(),
            "metrics": self.metrics.to_dict(),
            "versions": self.versions,
        }
        if self.calibration is not None:
            parts["calibration"] = self.calibration.to_dict()
        if self.members:
            parts["members"] = [
                {"seed": member.settings.training.seed, "metrics": member.metrics.to_dict()} for member in self.members
            ]
        write_tensors(Path(path), FORMAT, self.all_tensors, parts)

    @classmethod
    def load(cls, path: str | Path) -> ModelFile:
        """Read a model file, or the `model.safetensors` of a run directory.

        Raises ModelFileError when it is missing, damaged, not valid, of another program or of another version,
        MissingExtraError when the library of its tokenizer is not installed.
        """
        path = find_model(path)
        with open_container(path, FORMAT) as container:
            parts = Parts.read(container.parts)
            try:
                settings = Settings(**parts.settings)
                source, target = tokenizers_from_dict(parts.tokenizers)
            except (ModelFileError, MissingExtraError):
                raise
            except GlassformerError as error:
                what = "the settings in the model file are not valid"
                raise ModelFileError(what, got=error.what, hint=error.hint) from None
            sizes = len(source), len(target)
            parts.data.check_inputs(source.inputs)
            parts.data.check_vocabularies(*sizes)
            _check_shapes(container.shapes, settings.model, sizes, 1 + len(parts.members))
            tensors = container.read()
            _check_numbers(tensors, len(target))
        names = tensor_shapes(settings.model, *sizes).keys()
        weights = {name: tensors[name] for name in names}
        file = cls(
            settings, source, target, weights, parts.data, parts.metrics, parts.versions, path, parts.calibration
        )
        members = []
        for number, record in enumerate(parts.members, 2):
            training = settings.training.model_copy(update={"seed": record.seed})
            seeded = settings.model_copy(update={"training": training})
            weights = {name: tensors[_prefix(number) + name] for name in names}
            members.append(replace(file, settings=seeded, tensors=weights, metrics=record.metrics, calibration=None))
        return replace(file, members=tuple(members))

    def describe(self) -> dict[str, Any]:
        """Return settings, sizes, training data, metrics and versions of the model as JSON values."""
        tokenizers = {"source": self.source_tokenizer, "target": self.target_tokenizer}
        shapes = tensor_shapes(self.settings.model, len(self.source_tokenizer), len(self.target_tokenizer))
        sizes = {name: math.prod(shape) for name, shape in shapes.items() if name != TARGET_IDS}

        def total(*words: str) -> int:
            return sum(size for name, size in sizes.items() if any(word in name for word in words))

        return {
            "settings": self.settings.model_dump(mode="json"),
            "vocabularies": {
                side: {"kind": tokenizer.settings.kind, "size": len(tokenizer)}
                for side, tokenizer in tokenizers.items()
            },
            "inputs": [input_.model_dump(mode="json") for input_ in self.source_tokenizer.inputs],
            "parameters": {
                "all": self.n_parameters,
                "embeddings and positions": total("embedding", "positions", "output_projection"),
                "encoder": total("encoder"),
                "decoder": total("decoder"),
                **({"copy mechanism": total("copy_mechanism")} if self.settings.model.copy_mechanism else {}),
                "one attention": total("encoder.0.self_attention.w_"),
                "one feed-forward": total("encoder.0.feed_forward.w_"),
            },
            "data": {
                name: value for name, value in self.data.to_dict().items() if not name.endswith(("_counts", "_strings"))
            },
            "metrics": self.metrics.to_dict(),
            "calibration": None if self.calibration is None else self.calibration.to_dict(),
            "seeds": self.seeds,
            "never_trained": {
                side: [
                    tokenizer.vocabulary.pieces[token]
                    for token, count in enumerate(self.data.counts(side))
                    if count == 0 and token not in tokenizer.vocabulary.special_ids
                ]
                for side, tokenizer in tokenizers.items()
            },
            "versions": self.versions,
        }


def tokenizers_to_dict(source: Tokenizer, target: Tokenizer) -> dict[str, Any]:
    """Return both tokenizers as JSON values; a shared one is written once."""
    return {"source": source.to_dict()} | ({} if target is source.as_target else {"target": target.to_dict()})


def tokenizers_from_dict(saved: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers of source and target that `tokenizers_to_dict` wrote. Raises ModelFileError."""
    source = Tokenizer.from_dict(saved.get("source", {}))
    return source, Tokenizer.from_dict(saved["target"]) if "target" in saved else source.as_target


_MODEL = "a .safetensors model file or a run directory"


def find_model(path: str | Path) -> Path:
    """Return the model file for `path`, a file or a run directory. Raises ModelFileError when there is none."""
    path = Path(path)
    try:
        if path.is_dir():
            run = RunDirectory(path)
            if (path / "source.spm").is_file():
                hint = f"glassformer import {path} --out model.safetensors"
                raise ModelFileError("this folder holds a MarianMT model", where=str(path), hint=hint)
            if run.model.is_file():
                return run.model
            replaced, models = RunDirectory(run.replaced).model, _models_in(path)
            what = "this directory has no model"
            near = f"did you mean {path / models[0]}?" if len(models) == 1 else None
            if run.recipe.is_file():
                members = " --members N" if run.members.is_dir() else ""
                what = "this run has no model"
                near = f"resume its training: glassformer train TABLE --out {quote(str(path))} --resume{members}"
            if replaced.is_file():
                near = f"the model that --overwrite was replacing is {replaced}"
            raise ModelFileError(what, where=str(path), expected=f"a {run.model.name} in it", hint=near)
        if path.exists() and path.suffix in (".csv", ".tsv", ".jsonl", ".parquet", ".txt", ".toml"):
            raise ModelFileError("this is not a model", where=str(path), expected=_MODEL)
        if path.exists():
            return path
    except OSError as error:
        raise ModelFileError("cannot read the model file", where=str(path), got=error.strerror) from None
    import difflib

    hint = "train one: glassformer train TABLE --out RUN"
    if close := difflib.get_close_matches(path.name, _models_in(path.parent), n=1, cutoff=0.5):
        hint = f"did you mean {path.parent / close[0]}?"
    raise ModelFileError("the model does not exist", where=str(path), expected=_MODEL, hint=hint)


def _models_in(folder: Path) -> list[str]:
    """Return the names of the runs and model files in a folder; none where it cannot be read."""
    with suppress(OSError, ValueError):
        return [
            path.name
            for path in folder.iterdir()
            if (path.suffix == ".safetensors" and path != RunDirectory(folder).sources)
            or RunDirectory(path).model.is_file()
        ]
    return []


# Members


def join(files: Sequence[ModelFile]) -> ModelFile:
    """Return one model file of several models with the same settings, vocabularies and data, without a calibration."""
    first, *other_files = (replace(file, members=(), calibration=None) for file in files)
    return replace(first, members=tuple(other_files))


def each_model(files: Sequence[ModelFile]) -> tuple[ModelFile, ...]:
    """Return each file and, after it, its members: all models whose probabilities are averaged."""
    return tuple(model for file in files for model in (file, *file.members))


def _prefix(number: int) -> str:
    """Return what the names of the tensors of a model begin with: nothing for the first, which is number 1."""
    return "" if number == 1 else f"members.{number}."


# Names and sizes of the tensors


def tensor_shapes(model: ModelSettings, source_size: int, target_size: int) -> dict[str, tuple[int, ...]]:
    """Return name and shape of every tensor of a model; the names never change. A matrix maps rows: y = x Wᵀ."""
    d, d_ff = model.d_model, model.d_ff
    shapes: dict[str, tuple[int, ...]] = {"source_embedding.weight": (source_size, d)}
    if model.tied_embeddings != "all":
        shapes["target_embedding.weight"] = (target_size, d)
    if model.tied_embeddings == "none":
        shapes["output_projection.weight"] = (target_size, d)
    if model.output_bias:
        shapes["output_projection.bias"] = (target_size,)
    if model.copy_mechanism:
        shapes |= {"copy_mechanism.w_k.weight": (d, d), TARGET_IDS: (source_size,)}
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
            linear(f"{stack}.{layer}.feed_forward.w_1", d, d_ff, bias=True)
            linear(f"{stack}.{layer}.feed_forward.w_2", d_ff, d, bias=True)
            norm(f"{stack}.{layer}.feed_forward_norm")
        if model.norm == "pre":
            norm(f"{stack}_norm")
    return shapes


def count_parameters(model: ModelSettings, source_size: int, target_size: int) -> int:
    """Return the number of trained parameters; a shared matrix counts once."""
    shapes = tensor_shapes(model, source_size, target_size).items()
    return sum(math.prod(shape) for name, shape in shapes if name != TARGET_IDS)


def _check_shapes(in_file: Shapes, model: ModelSettings, sizes: tuple[int, int], n_models: int) -> None:
    """Raise ModelFileError unless a file has exactly the tensors that the settings define, for each of its models."""
    depth = model.n_encoder_layers + model.n_decoder_layers
    if depth * n_models > len(in_file):  # a huge depth would take long to list
        raise ModelFileError("the model file has fewer tensors than layers")
    if model.tied_embeddings == "all" and len(set(sizes)) > 1:
        raise ModelFileError("a shared embedding needs vocabularies of the same size")
    shapes, numbers = tensor_shapes(model, *sizes).items(), range(1, n_models + 1)
    expected = {_prefix(number) + name: ("float32", shape) for number in numbers for name, shape in shapes}
    for name in sorted(expected.keys() | in_file.keys()):
        got, required = (" ".join(map(str, shapes.get(name, ("nothing",)))) for shapes in (in_file, expected))
        if got != required:
            raise ModelFileError(f"the tensor {name!r} does not match the settings", got=got, expected=required)


def _check_numbers(tensors: Arrays, target_size: int) -> None:
    """Raise ModelFileError unless all are finite, and what can be copied are ids of the target vocabulary, or -1."""
    for name, array in tensors.items():
        if not np.isfinite(array).all():
            raise ModelFileError(f"the tensor {name!r} contains a number that is not finite", hint="train again")
        if name.endswith(TARGET_IDS) and ((array < -1) | (array >= target_size) | (array % 1 != 0)).any():
            raise ModelFileError(
                f"the tensor {name!r} is not valid", expected=f"whole numbers from -1 to {target_size - 1}"
            )
