"""A model file comes back as it was; one that is damaged, foreign or hostile is refused, quickly and by name."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from glassformer.errors import MissingExtraError, ModelFileError
from glassformer.settings import ModelSettings, Settings, SideSettings, TrainingSettings
from glassformer.storage import container, modelfile
from glassformer.storage.container import read_tensors, write_tensors
from glassformer.storage.modelfile import FORMAT, TARGET_IDS, ModelFile, join, tensor_shapes
from glassformer.storage.records import Metrics, TrainingData
from glassformer.text import learn
from tests.untrained import SMALL, character_model, drawn_tensors

TEXTS = ["low lower lowest", "new newer newest", "wide wider, the widest road", "a<eos>b"]
KINDS = {
    "characters": {"kind": "characters"},
    "words": {"kind": "words", "lowercase": True},
    "bpe": {"kind": "subwords", "vocabulary_size": 60},
    "unigram": {"kind": "subwords", "algorithm": "unigram", "vocabulary_size": 40},
    "bytes": {"kind": "bytes"},
    "ascii68": {"preset": "ascii68", "kind": "characters", "unknown": False},
}
TINY = {"d_model": 4, "d_ff": 6, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 1}

# A change here needs a new format version.
ATTENTIONS = ("encoder.0.self_attention", "decoder.0.self_attention", "decoder.0.cross_attention")
FEED_FORWARDS = ("encoder.0.feed_forward", "decoder.0.feed_forward")
NAMES_OF_ONE_LAYER_EACH = {
    "source_embedding.weight",
    *(f"{attention}.w_{letter}.weight" for attention in ATTENTIONS for letter in "qkvo"),
    *(f"{part}_norm.{kind}" for part in (*ATTENTIONS, *FEED_FORWARDS) for kind in ("weight", "bias")),
    *(f"{part}.w_{i}.{kind}" for part in FEED_FORWARDS for i in (1, 2) for kind in ("weight", "bias")),
}
NAMES_OF_ALL_OPTIONS = {
    *("output_projection.bias", "target_embedding.weight", "output_projection.weight"),
    *("source_positions.table", "target_positions.table"),
    *(f"{stack}_norm.{kind}" for stack in ("encoder", "decoder") for kind in ("weight", "bias")),
    *(f"{attention}.w_{letter}.bias" for attention in ATTENTIONS for letter in "qkvo"),
}


@cache
def example(source: str = "characters", target: str | None = None) -> ModelFile:
    """A tiny model of random weights; without `target` both sides share one tokenizer."""
    tokens = {"source": KINDS[source], "target": KINDS[target or source], "shared": target is None}
    settings = Settings(tokens=tokens, model=TINY | {"tied_embeddings": "target" if target else "all"})
    one = learn(TEXTS, settings.tokens.source)
    other = learn(TEXTS, settings.tokens.target) if target else one
    data = TrainingData(fingerprint="0123", table="pairs-\udcff.csv", rows={"read": 4, "kept": 4})
    weights = drawn_tensors(settings.model, len(one), len(other))
    return ModelFile(settings, one, other, weights, data, Metrics(metric="exact_match", value=1.0))


@pytest.fixture
def path(tmp_path):
    """A saved model."""
    where = tmp_path / "model.safetensors"
    example().save(where)
    return where


def refused(path: Path, **expected: str) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        ModelFile.load(path)
    assert caught.value.where
    for part, text in expected.items():
        assert text in (getattr(caught.value, part) or ""), caught.value
    return caught.value


# There and back


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_is_loaded_unchanged(tmp_path, kind):
    made = example(kind)
    made.save(tmp_path / "m.safetensors")
    loaded = ModelFile.load(tmp_path / "m.safetensors")
    assert loaded.settings == made.settings
    assert (loaded.data, loaded.metrics, loaded.versions) == (made.data, made.metrics, made.versions)
    assert {"python", "glassformer", "numpy", "safetensors", "torch"} <= loaded.versions.keys()
    assert loaded.tensors.keys() == made.tensors.keys()
    for name, array in made.tensors.items():
        assert (loaded.tensors[name].dtype, loaded.tensors[name].shape) == (np.float32, array.shape)
        assert loaded.tensors[name].tobytes() == array.tobytes(), name
    for text in ["", "widest new low", "new roads"]:
        assert loaded.source_tokenizer.encode(text) == made.source_tokenizer.encode(text)
    assert loaded.source_tokenizer.vocabulary == made.source_tokenizer.vocabulary
    assert loaded.target_tokenizer is loaded.source_tokenizer


def test_a_shared_vocabulary_is_written_once_also_where_sources_alone_are_trimmed(tmp_path):
    made = example("bpe")
    trimmed = made.source_tokenizer.with_ends(SideSettings(trim=True))
    replace(made, source_tokenizer=trimmed, target_tokenizer=trimmed.as_target).save(tmp_path / "m.safetensors")
    with safe_open(tmp_path / "m.safetensors", framework="numpy") as opened:
        assert json.loads(opened.metadata()["tokenizers"]).keys() == {"source"}
    loaded = ModelFile.load(tmp_path / "m.safetensors")
    assert loaded.source_tokenizer.encode(" low ") == made.source_tokenizer.encode("low")
    assert loaded.target_tokenizer.encode(" low ") == made.target_tokenizer.encode(" low ")


def test_a_saved_model_can_be_saved_again_without_a_change(path, tmp_path):
    ModelFile.load(path.parent).save(str(tmp_path / "again"))  # a run directory, and a path as text
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_a_missing_library_is_not_reported_as_a_damaged_file(tmp_path, monkeypatch):
    example("bpe").save(tmp_path / "m.safetensors")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"\.\[subwords\]"):
        ModelFile.load(tmp_path / "m.safetensors")


# Members


def several() -> ModelFile:
    """Three models in one, with the seeds 1, 5 and 6."""
    files = [example()]
    for seed in (5, 6):
        settings = files[0].settings.model_copy(update={"training": TrainingSettings(seed=seed)})
        tensors = {name: array + seed for name, array in files[0].tensors.items()}
        files.append(replace(files[0], settings=settings, tensors=tensors, metrics=Metrics(value=seed / 10)))
    return join(files)


def test_the_members_of_a_file_are_loaded_unchanged(path):
    several().save(path)
    loaded = ModelFile.load(path)
    assert loaded.seeds == [1, 5, 6]
    assert [one.metrics.value for one in (loaded, *loaded.members)] == [1.0, 0.5, 0.6]
    for one, made in zip((loaded, *loaded.members), (several(), *several().members), strict=True):
        assert one.tensors.keys() == made.tensors.keys()
        assert all((one.tensors[name] == array).all() for name, array in made.tensors.items())
        assert one.settings == made.settings
    assert loaded.first.members == ()
    assert loaded.n_parameters == example().n_parameters


@pytest.mark.parametrize(
    ("members", "what"),
    [
        (None, "'members' in the model file is not valid"),
        ({"seed": 5}, "'members' in the model file is not valid"),
        ([3, 4], "'members.0' in the model file is not valid"),
        ([{"seed": -1, "metrics": {}}] * 2, "'members.0.seed' in the model file is not valid"),
        ([{"seed": 5, "metrics": {}}], "the tensor 'members.3."),
        ([{"seed": 5, "metrics": {}}] * 3, "the tensor 'members.4."),
        ([{"seed": 5, "metrics": {}}] * 999, "the model file has fewer tensors than layers"),
    ],
)
def test_members_that_are_not_valid_are_refused(path, members, what):
    several().save(path)
    refused(rewritten(path, lambda _, parts: parts.update(members=members)), what=what)


# Names, shapes, numbers


def test_the_names_of_the_tensors_are_frozen():
    assert tensor_shapes(ModelSettings(**TINY), 9, 9).keys() == NAMES_OF_ONE_LAYER_EACH
    every = ModelSettings(
        **TINY, norm="pre", tied_embeddings="none", positions="learned", attention_bias=True, output_bias=True
    )
    assert tensor_shapes(every, 9, 9).keys() == NAMES_OF_ONE_LAYER_EACH | NAMES_OF_ALL_OPTIONS
    assert FORMAT == "glassformer-model/2"


# Not there


def test_a_missing_model_is_an_error_that_says_how_to_train_one(tmp_path):
    error = refused(tmp_path / "none.safetensors", what="the model does not exist", hint="glassformer train")
    assert error.where == str(tmp_path / "none.safetensors")
    assert error.expected == "a .safetensors model file or a run directory"
    refused(tmp_path, what="this directory has no model", expected="a model.safetensors in it")
    (tmp_path / "sources.safetensors").touch()
    assert refused(tmp_path, what="this directory has no model").hint is None
    (tmp_path / "recipe.toml").touch()
    hint = f"resume its training: glassformer train TABLE --out {tmp_path} --resume"
    refused(tmp_path, what="this run has no model", hint=hint)
    refused(tmp_path / ("x" * 5000), what="cannot read the model file", got="File name too long")
    os.mkfifo(tmp_path / "m")  # which is refused without waiting
    refused(tmp_path / "m", what="this is not a file of glassformer", got="not a regular file")


# Damaged


class Hostile:
    def __reduce__(self):
        return (os.mkdir, ("run by the pickle",))


@pytest.mark.parametrize(
    "content",
    [
        b"source,target\n1845-01-05,January\n",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f{}",
        b"\2\0\0\0\0\0\0\0{}",
        pickle.dumps(Hostile()),
        b"PK\3\4" + b"\0" * 200,
    ],
)
def test_a_file_of_something_else_is_refused_and_nothing_of_a_pickle_is_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    refused(path)
    assert list(tmp_path.iterdir()) == [path]


def test_the_digest_detects_a_changed_weight(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    refused(path, what="its digest does not match its contents", hint="copy it again from its original location")


def test_a_file_of_another_library_or_another_version_of_the_format_is_refused(path):
    write_tensors(path, "glassformer-model/99", *read_tensors(path, FORMAT))
    hint = "use the glassformer release that wrote it"
    refused(path, what="another format version", got="99", expected="2", hint=hint)
    for header in (None, {"format": "pt"}):
        save_file({"weight": np.zeros(3, np.float32)}, path, metadata=header)
        refused(path, what="this safetensors file was not written by glassformer", expected=FORMAT)


# Hostile: all of these have a digest that fits


def rewritten(path: Path, change) -> Path:
    tensors, parts = read_tensors(path, FORMAT)
    change(tensors, parts)
    write_tensors(path, FORMAT, tensors, parts)
    return path


def with_header(path: Path, **texts: str) -> Path:
    """The model with some parts of its header replaced by these texts, and a digest that fits."""
    with safe_open(path, framework="numpy") as opened:
        header = opened.metadata() | texts
    del header["digest"]
    tensors = load_file(path)
    save_file(tensors, path, metadata=header | {"digest": container._digest(tensors, header)})
    return path


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"value": NaN}'])
def test_metadata_that_is_not_json_is_refused(path, text):
    refused(with_header(path, data=text), what="the metadata of the file is not JSON")


@pytest.mark.parametrize("name", ["settings", "tokenizers", "data", "metrics", "versions"])
def test_a_part_that_is_not_an_object_or_is_missing_is_named(path, name):
    refused(with_header(path, **{name: "[]"}), what=f"'{name}' in the model file is not valid", got="[]")
    refused(rewritten(path, lambda _, parts: parts.pop(name)), what=f"'{name}' in the model file is not valid")


@pytest.mark.parametrize("where", ["settings", "tokenizers"])
def test_deep_nesting_is_refused_at_any_depth(path, where):
    for depth in (10, 500, 900, 1000, 5000):
        inner = "[" * depth + "]" * depth
        text = {"settings": f'{{"model": {inner}}}', "tokenizers": f'{{"source": {inner}}}'}[where]
        refused(with_header(path, **{where: text}))


WEIGHT = "encoder.0.feed_forward.w_1.weight"
NO_SETTINGS = "the settings in the model file are not valid"
NO_TENSOR = f"the tensor '{WEIGHT}' does not match the settings"
NOT_FINITE = f"the tensor '{WEIGHT}' contains a number that is not finite"
OTHER = learn(["xyz"], SideSettings(kind="characters")).to_dict()


@pytest.mark.parametrize(
    ("change", "what", "got"),
    [
        ({"settings": {"training": {"keep": 5}}}, NO_SETTINGS, "there is no setting 'training.keep'"),
        ({"settings": {"self": 1}}, NO_SETTINGS, "there is no setting 'self'"),
        ({"settings": {"model": {"d_model": "x"}}}, NO_SETTINGS, "the setting 'model.d_model' cannot take this value"),
        ({"settings": {"model": {"d_model": 5}}}, NO_SETTINGS, "sinusoids come in pairs"),
        ({"tokenizers": {"target": OTHER}}, "a shared embedding needs vocabularies of the same size", ""),
        ({"data": {"source_counts": [1, 2]}}, "'data.source_counts' in the model file is not valid", "2 counts"),
        ({"versions": {"torch": 2}}, "'versions.torch' in the model file is not valid", "2"),
        (lambda array: array.T, NO_TENSOR, "float32 (4, 6)"),
        (lambda array: array[:-1], NO_TENSOR, "float32 (5, 4)"),
        (lambda array: array.astype(np.float64), NO_TENSOR, "float64 (6, 4)"),
        (lambda array: array.astype(np.float16), NO_TENSOR, "float16 (6, 4)"),
        *((lambda array, one=one: array * np.float32(one), NOT_FINITE, "") for one in (np.nan, np.inf)),
    ],
)
def test_a_part_or_a_tensor_that_is_not_valid_is_named(path, change, what, got):
    def put(tensors, parts):
        if callable(change):
            tensors[WEIGHT] = change(tensors[WEIGHT])
        else:
            for name, part in change.items():
                parts[name] |= part

    error = refused(rewritten(path, put), what=what, got=got)
    assert error.where == str(path)
    assert error.expected == "float32 (6, 4)" or what != NO_TENSOR


def test_a_tensor_that_is_missing_or_of_no_use_is_named(path):
    rewritten(path, lambda tensors, _: tensors.update(zz=np.zeros(2, np.float32)))
    refused(path, what="the tensor 'zz' does not match the settings", got="float32 (2,)", expected="nothing")
    rewritten(path, lambda tensors, _: tensors.pop(WEIGHT))
    refused(path, what=NO_TENSOR, got="nothing", expected="float32 (6, 4)")


@pytest.mark.parametrize("number", [-2, 0.5, 1e6])
def test_what_can_be_copied_is_a_token_of_the_target(tmp_path, number):
    file = character_model("abc", "bcd", model=SMALL.model_copy(update={"copy_mechanism": True}))
    file.save(tmp_path / "model.safetensors")
    assert ModelFile.load(tmp_path / "model.safetensors").tensors.keys() == file.tensors.keys()
    changed = rewritten(tmp_path / "model.safetensors", lambda tensors, _: tensors[TARGET_IDS].__setitem__(4, number))
    refused(changed, what=f"the tensor '{TARGET_IDS}' is not valid")


@pytest.mark.parametrize("model", [{"n_decoder_layers": 10**18}, {"d_model": 10**9}, {"d_ff": 10**30}])
def test_hostile_sizes_are_refused_at_once_and_without_memory(path, model):
    rewritten(path, lambda _, parts: parts["settings"]["model"].update(model))
    with used_little():
        refused(path)


@contextlib.contextmanager
def used_little(kilobytes: int = 50_000) -> Iterator[None]:
    """The context takes little time, and little memory more than was used before."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    yield
    assert time.perf_counter() - started < 30
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < kilobytes


def test_a_header_of_many_small_values_does_not_fill_the_memory(tmp_path):
    values = "[" + ",".join(["[]"] * 5_000_000) + "]"
    header = json.dumps({"__metadata__": {"format": FORMAT, "data": values}}).encode()
    (tmp_path / "m").write_bytes(len(header).to_bytes(8, "little") + header)
    del header, values
    with used_little(100_000):
        error = refused(tmp_path / "m", what="not a file of glassformer")
    assert " values is not valid in a file of " in error.got


def test_a_model_larger_than_memory_is_refused(path, monkeypatch):
    monkeypatch.setattr(container, "memory_limit", lambda: path.stat().st_size - 1)
    error = refused(path, what="the file is too large for this machine", hint="more memory")
    assert error.got == f"{path.stat().st_size:,} bytes"
    monkeypatch.setattr(container, "memory_limit", lambda: None)
    monkeypatch.setattr(container, "safe_open", lambda *_, **_options: np.empty(2**62, np.uint8))
    refused(path, what="the file is too large for this machine")


def test_loading_needs_little_more_memory_than_the_size_of_the_file(tmp_path):
    settings = ModelSettings(d_model=512, d_ff=2048, n_encoder_layers=1, n_decoder_layers=1)
    tokenizer = example().source_tokenizer
    weights = drawn_tensors(settings, len(tokenizer), len(tokenizer))
    made = ModelFile(Settings(model=settings, tokens=example().settings.tokens), tokenizer, tokenizer, weights)
    made.save(tmp_path / "m")
    tracemalloc.start()
    try:
        ModelFile.load(tmp_path / "m")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * (tmp_path / "m").stat().st_size


def test_a_panic_of_a_library_does_not_escape(path, monkeypatch):
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    def fall(_saved):
        raise panic("index out of bounds")

    monkeypatch.setattr(modelfile, "tokenizers_from_dict", fall)
    refused(path, what="this is not a file of glassformer, or it is truncated or damaged", got="index out of bounds")
