"""One contract for all formats: an export gives the answers of the model, or the model is refused with a reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from glassformer.cli import export as verb
from glassformer.errors import EngineError, SettingsError
from glassformer.export import FORMATS, Exported, __name__ as export_module, export, load_format
from glassformer.inference.translator import Translator
from glassformer.storage.modelfile import ModelFile
from glassformer.text import Tokenizer
from tests.export.conftest import make_model, make_texts

SHAPES: dict[str, dict[str, Any]] = {
    "the paper's": {},
    "pre-norm": {"norm": "pre", "tied_embeddings": "all"},
    "two vocabularies": {"shared": False, "tied_embeddings": "target"},
    "pre-norm with two vocabularies": {"norm": "pre", "shared": False, "tied_embeddings": "target"},
    "learned positions": {"positions": "learned", "max_length": 42},
    "values wider than keys": {"d_k": 5, "d_v": 9},
    "other layers": {"n_encoder_layers": 1, "n_decoder_layers": 3, "activation": "gelu", "attention_bias": True},
    "other constants": {"norm_eps": 0.1, "position_base": 50.0, "scale_embeddings": False},
    "words": {"kind": "words"},
    "bytes": {"kind": "bytes"},
    "bpe": {"kind": "bpe"},
    "unigram": {"kind": "unigram"},
    "imported": {"kind": "sentencepiece"},
    "no <unk>": {"side": {"unknown": False}},
    "normalized": {"side": {"normalization": "NFD", "lowercase": True}},
    "greedy by itself": {"decoding": {"num_beams": 1}},
    "a copy mechanism": {"copy_mechanism": True, "norm": "pre", "tied_embeddings": "none"},
    "two members": {"members": 2, "shared": False, "tied_embeddings": "target"},
}
REFUSED = {
    "ctranslate2": {"values wider than keys", "two members", "a copy mechanism"},
    "huggingface": {"values wider than keys", "other constants", "normalized"}
    | {"imported", "two members", "a copy mechanism"},
    "html": {"imported"},
}
"""Format -> the shapes that it cannot represent."""
CASES = [("ctranslate2", shape) for shape in SHAPES]
CASES += [
    (name, shape) for name in ("onnx", "html", "huggingface") for shape in SHAPES if shape in REFUSED.get(name, ())
]
CASES += [("onnx", "imported"), ("html", "a copy mechanism")]
"""What a format refuses, and for ONNX, the page and Hugging Face, whose own tests have all other shapes, an example."""
WRONG = [
    ("html", "transpose"),
    ("ctranslate2", "shifted"),
    ("onnx", "special_token"),
    ("onnx", "penalty"),
    pytest.param("huggingface", "transpose", marks=pytest.mark.medium),
]


pytestmark = pytest.mark.usefixtures("in_process")


def exported(model_file: ModelFile, to: str, folder: Path, texts: list[str], **options: Any) -> Exported:
    """Export with a check on these texts; the right answers are those of the model, so the metric is 1 before."""
    model_file.save(folder / "model.safetensors")
    taken = [text for text in texts if fits(model_file, text)]
    rows = [(text, answer.text) for text, answer in zip(taken, Translator(model_file).translate(taken), strict=True)]
    return export(folder / "model.safetensors", to, folder / "out", rows=rows, **options)


def fits(model_file: ModelFile, text: str) -> bool:
    if model_file.source_tokenizer.vocabulary.unk_id is None and model_file.source_tokenizer.unknown(text):
        return False
    return len(model_file.source_tokenizer.encode(text)) <= model_file.settings.max_source_tokens


def test_each_format_is_in_this_contract_and_in_the_help() -> None:
    (option,) = get_type_hints(verb.export, include_extras=True)["to"].__metadata__
    assert all(to in option.help for to in FORMATS)
    assert {to for to, _ in CASES} == set(FORMATS)


@pytest.mark.parametrize(("to", "shape"), CASES)
def test_an_export_gives_the_answers_of_the_model_or_is_refused_with_a_reason(
    to: str, shape: str, tmp_path: Path
) -> None:
    model_file = make_model(**SHAPES[shape])
    if shape in REFUSED.get(to, ()):
        with pytest.raises(SettingsError) as refused:
            exported(model_file, to, tmp_path, make_texts(model_file), precision="float32")
        assert refused.value.got
        assert refused.value.hint
        assert not (tmp_path / "out").exists()
        return
    found = exported(model_file, to, tmp_path, make_texts(model_file), precision="float32")
    assert found.check.score_difference <= 1e-3
    for search in found.check.searches:
        assert search.rows >= 25
        assert search.equal + search.ties + search.other == search.rows
        assert search.other == 0 or load_format(to).beam == "own"
        assert search.equal > 0.6 * search.rows
    assert json.loads((tmp_path / "out" / "check.json").read_text())["precision"] == "float32"


@pytest.mark.parametrize("to", ["onnx", "html"])
def test_of_tokens_that_are_tied_the_lowest_id_wins(to: str, tmp_path: Path) -> None:
    """Every third token has the same logit after every beginning, which is the highest."""
    if to == "html" and shutil.which("node") is None:
        pytest.skip("node is not installed")
    model_file = make_model(output_bias=True, decoding={"max_new_tokens": 4})
    bias = np.full(len(model_file.target_tokenizer), -5.0, np.float32)
    bias[5::3], bias[model_file.target_tokenizer.vocabulary.eos_id] = 1.0, 0.5
    nothing = np.zeros_like(model_file.tensors["output_projection.weight"])
    tensors = model_file.tensors | {"output_projection.weight": nothing, "output_projection.bias": bias}
    model_file = replace(model_file, tensors=tensors)
    load_format(to).write(model_file, tmp_path, "float32")
    lowest = model_file.target_tokenizer.decode([5] * 4)
    for num_beams in (1, 3, 9):
        (expected,) = Translator(model_file, device="cpu").translate(["ab"], num_beams=num_beams)
        (found,) = load_format(to).answer(tmp_path, ["ab"], num_beams)
        assert found.text == expected.text
        assert num_beams > 3 or found.text == lowest


def test_a_weight_that_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    model_file = make_model()
    model_file.tensors["output_projection.weight"][0, 0] = 70_000
    with pytest.raises(SettingsError, match="a weight is too large for float16") as error:
        exported(model_file, "onnx", tmp_path, ["ab cd"], precision="float16")
    assert str(error.value.got).startswith("7e+04 in '")
    assert error.value.hint == "export with --precision float32"


def transpose(model_file: ModelFile) -> ModelFile:
    name = "decoder.0.cross_attention.w_q.weight"
    return replace(model_file, tensors=model_file.tensors | {name: np.ascontiguousarray(model_file.tensors[name].T)})


def shifted(model_file: ModelFile) -> ModelFile:
    name = "source_positions.table"
    return replace(model_file, tensors=model_file.tensors | {name: np.roll(model_file.tensors[name], -1, axis=0)})


def special_token(model_file: ModelFile) -> ModelFile:
    saved = model_file.target_tokenizer.to_dict()
    saved["specials"] = saved["specials"] | {"<bos>": saved["specials"]["<pad>"], "<pad>": saved["specials"]["<bos>"]}
    swapped = Tokenizer.from_dict(saved)
    return replace(model_file, source_tokenizer=swapped, target_tokenizer=swapped)


def penalty(model_file: ModelFile) -> ModelFile:
    decoding = model_file.settings.decoding.model_copy(update={"length_alpha": 0.0})
    return replace(model_file, settings=model_file.settings.model_copy(update={"decoding": decoding}))


@pytest.mark.parametrize(("to", "mutation"), WRONG)
def test_the_check_finds_a_wrong_export(
    to: str, mutation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, model_file = load_format(to), make_model(positions="learned", max_length=42)

    def write(model_file: ModelFile, folder: Path, precision: str, **page: str) -> None:
        target.write(globals()[mutation](model_file), folder, precision, **page)

    monkeypatch.setattr(f"{export_module}.load_format", lambda _: replace(target, write=write))
    with pytest.raises(EngineError) as caught:
        exported(model_file, to, tmp_path, make_texts(model_file, 6), precision="float32")
    assert caught.value.got
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.safetensors"]
