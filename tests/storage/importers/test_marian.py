"""MarianMT folders: the same ids, logits and answers as transformers; what is missing or does not fit is named."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from glassformer.errors import EngineError, ModelFileError
from glassformer.export import agreement as agree
from glassformer.export.agreement import compare_with_transformers
from glassformer.inference.translator import Translator
from glassformer.storage.importers.marian import import_marian, is_marian
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.weights import build_model, get_weights
from glassformer.training.train import train
from tests.storage.importers.conftest import write_marian

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Recommended. pip install sacremoses")

TEXTS = ["abc de", "ghi éß  abc", ">>fra<< abc", "a", "漢 abc 漢字", "cab " * 9, "ａｂｃ ﬁg"]

SHAPES: dict[str, dict[str, Any]] = {
    "as OPUS-MT": {},
    "relu, unscaled, deep encoder": {"activation_function": "relu", "scale_embedding": False, "encoder_layers": 3},
    "two vocabularies, gelu": {"share_encoder_decoder_embeddings": False, "activation_function": "gelu"},
}


@pytest.fixture(scope="module")
def imported(marian: Path) -> ModelFile:
    return import_marian(marian)


@pytest.mark.parametrize("name", SHAPES)
def test_ids_and_logits_are_those_of_transformers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agree, "TOLERANCE", 1e-5)
    folder = write_marian(tmp_path / "marian", seed=3, **SHAPES[name])
    assert f" on {len(TEXTS)} texts" in compare_with_transformers(import_marian(folder), folder, TEXTS)


def test_the_settings_of_the_search_are_those_of_the_folder(imported: ModelFile) -> None:
    decoding = imported.settings.decoding
    assert (decoding.num_beams, decoding.max_new_tokens, decoding.length_alpha) == (4, 63, 1.0)
    assert imported.settings.max_source_tokens == 63
    assert imported.data.imported_from == "opus-mt-aa-kk"
    assert imported.target_tokenizer.vocabulary.forbidden_ids == (1, len(imported.target_tokenizer) - 1)


def test_a_saved_model_comes_back_and_answers_the_same(imported: ModelFile, tmp_path: Path) -> None:
    imported.save(tmp_path / "model.safetensors")
    again = ModelFile.load(tmp_path / "model.safetensors")
    assert again.source_tokenizer.to_dict() == imported.source_tokenizer.to_dict()
    assert again.data == imported.data
    one, other = (Translator(model, device="cpu").translate(TEXTS, max_new_tokens=20) for model in (imported, again))
    assert one == other
    assert one[4].unknown == ("漢", "漢字")


def test_a_pickled_file_of_weights_is_read_with_copies_and_positions(copied: Path, imported: ModelFile) -> None:
    import transformers

    model = transformers.MarianMTModel.from_pretrained(copied)
    torch.save(model.state_dict(), copied / "pytorch_model.bin")
    (copied / "model.safetensors").unlink()
    again = import_marian(copied)
    assert all(np.array_equal(array, imported.tensors[name]) for name, array in again.tensors.items())


def test_weights_in_half_precision_become_float32(copied: Path) -> None:
    theirs = load_file(copied / "model.safetensors")
    save_file({name: array.astype(np.float16) for name, array in theirs.items()}, copied / "model.safetensors")
    assert {array.dtype for array in import_marian(copied).tensors.values()} == {np.dtype("float32")}


def test_training_from_an_imported_model_keeps_its_tokens(imported: ModelFile, tmp_path: Path) -> None:
    imported.save(tmp_path / "model.safetensors")
    pairs = [(f"abc {'abcdefghi'[i % 9]} ab", f"klm {'klmnopqrs'[i % 9]}") for i in range(40)]
    overrides = {"training": {"steps": 3, "validate_every": 3, "validate_rows": 2, "batch_tokens": 200}}
    init = tmp_path / "model.safetensors"
    train(pairs, None, tmp_path / "run", init=init, overrides=overrides, device="cpu").finish()
    trained = ModelFile.load(tmp_path / "run")
    assert trained.source_tokenizer.to_dict() == imported.source_tokenizer.to_dict()
    before, after = (each.tensors["output_projection.bias"] for each in (imported, trained))
    assert not np.array_equal(before, after)


# The comparison finds what is wrong


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("source_embedding.weight", lambda array: array[:, np.arange(16).reshape(8, 2).T.ravel()].copy()),
        ("decoder.1.feed_forward_norm.bias", lambda array: array + 0.01),
        ("output_projection.bias", lambda array: np.zeros_like(array)),
    ],
)
def test_a_wrong_weight_is_found(name: str, change: Callable[[Any], Any], marian: Path, imported: ModelFile) -> None:
    wrong = replace(imported, tensors=imported.tensors | {name: change(imported.tensors[name].copy())})
    with pytest.raises(EngineError, match="the logits of the imported model differ"):
        compare_with_transformers(wrong, marian, TEXTS[:3])


def test_a_wrong_frame_is_found(marian: Path, imported: ModelFile) -> None:
    assert re.search(r" on 1\d texts| on 20 texts", compare_with_transformers(imported, marian))
    framed = replace(imported, source_tokenizer=imported.target_tokenizer)
    with pytest.raises(EngineError, match="the token ids of the imported model differ"):
        compare_with_transformers(framed, marian)


def test_a_model_built_from_a_file_has_its_weights_and_draws_none(imported: ModelFile) -> None:
    state = torch.get_rng_state()
    weights = get_weights(build_model(imported))
    assert weights.keys() == imported.tensors.keys()
    assert all(np.array_equal(array, imported.tensors[name]) for name, array in weights.items())
    assert torch.equal(torch.get_rng_state(), state)


# Bad input


def refused(folder: Path) -> str:
    with pytest.raises(ModelFileError) as caught:
        import_marian(folder)
    assert str(folder.name) in str(caught.value)
    return str(caught.value)


def test_all_files_that_are_missing_are_named(copied: Path, tmp_path: Path) -> None:
    for name in ("source.spm", "vocab.json", "model.safetensors"):
        (copied / name).unlink()
    message = refused(copied)
    assert "this is not a MarianMT folder" in message
    assert "no source.spm, no vocab.json, no model.safetensors or pytorch_model.bin" in message
    assert "this is not a MarianMT folder" in refused(tmp_path / "nothing")
    assert not is_marian(copied)


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "bart"}, "not a MarianMT model"),
        ({"activation_function": "tanh"}, "the activation is 'tanh'"),
        ({"decoder_ffn_dim": 25}, "encoder_ffn_dim and decoder_ffn_dim differ"),
        ({"normalize_before": True}, "normalize_before is true"),
        ({"decoder_start_token_id": 0}, "does not start with the pad token"),
        ({"d_model": "wide"}, "the setting 'd_model' is not valid"),
        ({"d_model": 18}, "do not have the shape that config.json gives"),
        ({"encoder_layers": 3}, "'model.encoder.layers.2.self_attn.q_proj.weight' are missing"),
        ({"decoder_layers": 1}, "weights that MarianMT does not have"),
        ({"vocab_size": 5, "decoder_vocab_size": 5}, "not as large as config.json says"),
        ({"eos_token_id": 5}, "the vocabulary does not have </s> where config.json says"),
        ({"dropout": 2.0}, "a setting that ours cannot have"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(changes: dict[str, Any], words: str, copied: Path) -> None:
    edit_json(copied / "config.json", **changes)
    assert words in refused(copied)


def test_a_wrong_setting_of_the_search_names_its_file(copied: Path) -> None:
    edit_json(copied / "generation_config.json", num_beams="many")
    assert "generation_config.json" in refused(copied)
    edit_json(copied / "generation_config.json", num_beams=0)
    assert "decoding.num_beams" in refused(copied)


def test_a_vocabulary_that_does_not_fit_is_refused(copied: Path) -> None:
    vocabulary = json.loads((copied / "vocab.json").read_text())
    renamed = {piece if piece in ("</s>", "<unk>", "<pad>") else f"x{piece}": at for piece, at in vocabulary.items()}
    odd = [{piece if at == 20 else old: at for old, at in vocabulary.items()} for piece in ("", "\ud800")]
    for content, words in (
        (json.dumps(renamed), "the SentencePiece model does not fit the vocabulary"),
        (json.dumps({piece: 2 * at for piece, at in vocabulary.items()}), "are not 0, 1, 2"),
        (json.dumps({piece: float(at) for piece, at in vocabulary.items()}), "are not 0, 1, 2"),
        *((json.dumps(one), "is empty or has a lone surrogate") for one in odd),
        ("[1, 2", "not valid JSON"),
        ("[1, 2]", "not a JSON object"),
    ):
        (copied / "vocab.json").write_text(content)
        assert words in refused(copied)


def without(arrays: dict[str, Any], name: str) -> dict[str, Any]:
    return {other: array for other, array in arrays.items() if other != name}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda arrays: arrays | {"model.shared.weight": arrays["model.shared.weight"][:-1]}, "do not have the shape"),
        (lambda arrays: arrays | {"lm_head.weight": arrays["model.shared.weight"] + 1}, "should be the same"),
        (lambda arrays: arrays | {"model.encoder.layer_norm.weight": np.ones(16, "f4")}, "MarianMT does not have"),
        (lambda arrays: without(arrays, "final_logits_bias"), "'final_logits_bias' are missing"),
        (lambda arrays: without(arrays, "model.shared.weight"), "shared.weight' are missing"),
        (lambda arrays: arrays | {"final_logits_bias": np.full((1, 5), np.nan, "f4")}, "do not have the shape"),
        (lambda arrays: {n: a * np.float32("nan") for n, a in arrays.items()}, "contain a number that is not finite"),
        (lambda arrays: arrays | {"model.encoder.embed_positions.weight": np.ones((64, 16), "f4")}, "were learned"),
        (lambda arrays: arrays | {"model.shared.weight": np.ones((3, 16), "i4")}, "tensors of floating-point numbers"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(change: Callable[[Any], Any], words: str, copied: Path) -> None:
    path = copied / "model.safetensors"
    save_file(change(load_file(path)), path)
    assert words in refused(copied)


class Evil:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("executed"),))


def test_code_in_a_pickled_file_is_never_executed(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(copied)
    (copied / "model.safetensors").unlink()
    torch.save({"model.shared.weight": Evil()}, copied / "pytorch_model.bin")
    assert "not a file of weights" in refused(copied)
    (copied / "pytorch_model.bin").write_bytes(pickle.dumps(Evil()))
    refused(copied)
    torch.save([1, 2], copied / "pytorch_model.bin")
    assert "not a file of weights" in refused(copied)
    assert not (copied / "executed").exists()
