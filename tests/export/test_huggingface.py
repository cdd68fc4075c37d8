"""The Hugging Face folder: loaded and searched by transformers alone, it gives the answers and scores of the model."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from glassformer.errors import MissingExtraError, SettingsError
from glassformer.export.huggingface import FORMAT
from glassformer.inference.translator import Translation, Translator
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import Metrics
from tests.export.conftest import assert_same, make_model

transformers = pytest.importorskip("transformers", reason="the extra huggingface is not installed")

SHAPES: dict[str, dict[str, Any]] = {
    "post": {},
    "pre, tied target": {"norm": "pre", "tied_embeddings": "target"},
    "post, tied all": {"tied_embeddings": "all", "shared": True},
    "post, learned": {"positions": "learned", "max_length": 40},
    "pre, learned": {"norm": "pre", "positions": "learned", "max_length": 40, "tied_embeddings": "all", "shared": True},
    "pre, other sinusoids": {"norm": "pre", "position_base": 50.0},
    "gelu, attention bias, unequal depths": {"attention_bias": True, "norm": "pre", "n_encoder_layers": 1}
    | {"activation": "gelu", "scale_embeddings": False},
}
AT_ONCE = ("post", "post, tied all", "pre, tied target", "post, learned", "gelu, attention bias, unequal depths")
"""The shapes of the fast suite."""
TEXTS = ["hello fgh", "a<eos>b f", "<bos>", "é漢 a", "abcdefgh " * 3, "<unk>", "a", "hello  abc\tfgh", "▁x"]
LONGEST = 14


LENGTHS = {"max_new_tokens": LONGEST}
untrained = partial(make_model, shared=False, decoding=LENGTHS, loud={"<eos>": 1.5})


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers.logging.disable_progress_bar()
    yield
    transformers.logging.enable_progress_bar()


def exported(model_file: ModelFile, folder: Path, precision: str = "float32") -> Path:
    FORMAT.check_supported(model_file)
    FORMAT.write(model_file, folder, precision)
    return folder


def load(folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model as a stranger loads them: no weight is missing, unexpected or of another shape."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model, told = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, output_loading_info=True)
    assert not any(told.values()), told
    return tokenizer, model


def generate(folder: Path, texts: Sequence[str], **options: Any) -> tuple[list[list[int]], list[str]]:
    """The ids after <bos> and the texts that a stranger gets."""
    tokenizer, model = load(folder)
    batch = tokenizer(list(texts), return_tensors="pt", padding=True)
    ids = model.generate(**batch, **options)
    assert set(ids[:, 0].tolist()) == {model.config.decoder_start_token_id}
    return ids[:, 1:].tolist(), tokenizer.batch_decode(ids, skip_special_tokens=True)


def translate(model_file: ModelFile, texts: Sequence[str], num_beams: int = 1) -> list[Translation]:
    return Translator(model_file, device="cpu").translate(list(texts), num_beams=num_beams)


def drawn_texts() -> list[str]:
    """TEXTS, and random ones of two lengths: each length is a batch of the engine, which takes time."""
    generator = random.Random(3)
    lengths = [12] * 10 + [26] * 4
    return TEXTS + ["a" + "".join(generator.choices("abcdefgh <>o", k=length)) + "b" for length in lengths]


def check_greedy(model_file: ModelFile, folder: Path) -> list[Translation]:
    """The ids and the texts of `generate` are those of the model; the scores that its logits give are, too."""
    texts, vocabulary = drawn_texts(), model_file.target_tokenizer.vocabulary
    expected = translate(model_file, texts)
    tokenizer, model = load(folder)
    batch = tokenizer(texts, return_tensors="pt", padding=True)
    ids = model.generate(**batch)
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == [answer.text for answer in expected]
    with torch.inference_mode():
        logits = model(**batch, decoder_input_ids=ids[:, :-1]).logits
    scores = logits.log_softmax(dim=2).gather(2, ids[:, 1:, None])[:, :, 0].tolist()
    for row, score, answer in zip(ids.tolist(), scores, expected, strict=True):
        pieces = [*answer.tokens, *([vocabulary.pieces[vocabulary.eos_id]] if answer.finished else [])]
        assert row[0] == vocabulary.bos_id
        assert model_file.target_tokenizer.tokens(row[1 : 1 + len(pieces)]) == pieces
        assert set(row[1 + len(pieces) :]) <= {vocabulary.pad_id}
        assert score[: len(pieces)] == pytest.approx(answer.token_scores, abs=1e-4)
    return expected


@pytest.mark.parametrize(
    "shape", [pytest.param(shape, marks=() if shape in AT_ONCE else pytest.mark.slow) for shape in SHAPES]
)
def test_generate_gives_the_ids_texts_and_scores_of_every_shape(shape: str, tmp_path: Path) -> None:
    model_file = untrained(**SHAPES[shape])
    found = check_greedy(model_file, exported(model_file, tmp_path))
    assert len({answer.text for answer in found}) > 4  # or else equality would say little
    assert shape != "post" or {answer.finished for answer in found} == {True, False}


@pytest.mark.parametrize("kinds", [("bytes", "words"), ("bpe", "characters"), ("unigram", "unigram")])
def test_every_kind_of_token_is_the_same(kinds: tuple[str, str], tmp_path: Path) -> None:
    model_file = untrained(kind=kinds[0], target_kind=kinds[1])
    check_greedy(model_file, exported(model_file, tmp_path))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_longest_source_and_answer_have_positions(norm: str, tmp_path: Path) -> None:
    model_file = untrained(norm=norm, loud={"<eos>": 0.0}, decoding={"max_new_tokens": 60})
    folder = exported(model_file, tmp_path)
    text = "abcdefgh hg" * 3 + "abcdefg"
    (answer,) = translate(model_file, [text])
    assert (len(text), len(answer.tokens)) == (model_file.settings.max_source_tokens, 60)
    assert generate(folder, [text])[1] == [answer.text]


@pytest.mark.parametrize(("special", "norm"), [("pad_id", "post"), ("unk_id", "pre")])
def test_no_special_token_is_written(special: str, norm: str, tmp_path: Path) -> None:
    model_file = untrained(norm=norm)
    vocabulary = model_file.target_tokenizer.vocabulary
    weights = model_file.tensors["output_projection.weight"]
    weights[getattr(vocabulary, special)] = 3 * weights[vocabulary.eos_id]
    folder = exported(model_file, tmp_path)
    free, _ = generate(folder, TEXTS, suppress_tokens=None)
    assert any(getattr(vocabulary, special) in row for row in free)  # it would be written
    check_greedy(model_file, folder)


@pytest.mark.parametrize("shape", [{}, {"norm": "pre", "position_base": 50.0}], ids=["post", "pre"])
def test_a_model_saved_again_gives_the_same_answers(shape: dict[str, Any], tmp_path: Path) -> None:
    folder, again = tmp_path / "first", tmp_path / "again"
    folder.mkdir()
    for part in load(exported(untrained(**shape), folder)):
        part.save_pretrained(again)
    assert generate(again, TEXTS) == generate(folder, TEXTS)


def test_marianmt_saves_no_other_positions_than_its_own_and_the_card_says_so(tmp_path: Path) -> None:
    folder, again = tmp_path / "first", tmp_path / "again"
    folder.mkdir()
    _, model = load(exported(untrained(**SHAPES["post, learned"]), folder))
    assert "`save_pretrained` does not write them" in (folder / "README.md").read_text()
    model.save_pretrained(again)
    with safe_open(again / "model.safetensors", "np") as file:
        assert [name for name in file.keys() if "position" in name] == []  # noqa: SIM118  (no mapping)
    other = tmp_path / "other"
    other.mkdir()
    assert "save_pretrained" not in (exported(untrained(), other) / "README.md").read_text()


# --- The check ---


def test_the_check_answers_as_the_model_does_and_keeps_the_progress_bar(tmp_path: Path) -> None:
    model_file, folder, texts = untrained(), exported(untrained(), tmp_path), ["", *TEXTS, " \t", "a\u2028b\x85c"]
    assert_same(FORMAT.answer(folder, texts, 1), model_file, texts, 1)
    assert not transformers.logging.is_progress_bar_enabled()
    transformers.logging.enable_progress_bar()
    FORMAT.answer(folder, texts[:2], 1)
    assert transformers.logging.is_progress_bar_enabled()


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_beam_is_ranked_by_the_models_penalty(norm: str, tmp_path: Path) -> None:
    model_file = untrained(norm=norm, decoding=LENGTHS | {"length_alpha": 1.0, "num_beams": 3})
    found = FORMAT.answer(exported(model_file, tmp_path), drawn_texts(), 3)
    expected = translate(model_file, drawn_texts(), num_beams=3)
    same = [row for row, answer in enumerate(found) if answer.text == expected[row].text]
    assert len(same) >= 0.9 * len(found)  # its beam has rules of its own
    assert_same([found[row] for row in same], model_file, [drawn_texts()[row] for row in same], 3)
    greedy = translate(model_file, drawn_texts())
    assert sum(one.text != other.text for one, other in zip(expected, greedy, strict=True)) > 3


def test_an_answer_of_a_beam_ends_with_its_first_end(tmp_path: Path) -> None:
    model_file = untrained(decoding=LENGTHS | {"num_beams": 3})
    answers = FORMAT.answer(exported(model_file, tmp_path), drawn_texts(), 3)
    assert len({len(answer.ids) for answer in answers if answer.finished}) > 1
    assert all(model_file.target_tokenizer.vocabulary.eos_id not in answer.ids for answer in answers)


# --- The folder ---


def test_where_no_length_penalty_is_set_generate_searches_with_a_beam(tmp_path: Path) -> None:
    model_file = untrained(decoding=LENGTHS | {"length_alpha": 0.0, "num_beams": 3})
    answers = generate(exported(model_file, tmp_path), drawn_texts())[1]
    expected = [answer.text for answer in translate(model_file, drawn_texts(), num_beams=3)]
    assert expected != [answer.text for answer in translate(model_file, drawn_texts())]
    assert sum(one == other for one, other in zip(answers, expected, strict=True)) >= 0.9 * len(expected)


def test_the_card_has_the_metadata_of_the_hub_what_is_different_here_and_code_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file = untrained()
    model_file = replace(model_file, metrics=Metrics(metric="exact_match", value=0.5, step=1, rows="validation"))
    card = (exported(model_file, tmp_path) / "README.md").read_text(encoding="utf-8")
    _, metadata, text = card.split("---\n", 2)
    assert metadata.splitlines() == [
        "library_name: transformers",
        "pipeline_tag: translation",
        "tags:",
        "- glassformer",
        "- marian",
        "- encoder-decoder",
        "metrics:",
        "- exact_match",
        "# license: choose one (https://huggingface.co/docs/hub/repositories-licenses)",
    ]
    assert "| exact_match on validation rows | 0.5000 |" in text
    assert "at most 40 tokens, an answer at most 14 " in text
    assert "ranked by score / ((5 + length) / 6)^0.6" in text
    assert "The vocabulary has the target's tokens first" in text
    code = card.split("```python\n")[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code.replace('["a text", "another one"]', '["abc", "hello fgh"]'), names)
    assert names["answers"] == [answer.text for answer in translate(model_file, ["abc", "hello fgh"])]


# --- What is refused ---


@pytest.mark.parametrize(
    ("shape", "what"),
    [
        ({"norm_eps": 1e-6}, "their norms have a fixed ε\n  got: norm_eps=1e-06, expected 1e-05"),
        ({"n_heads": 3, "d_k": 5}, "d_model / n_heads wide\n  got: d_model=16, n_heads=3, d_k=5, d_v=5"),
    ],
)
def test_a_shape_that_the_classes_do_not_have_is_refused_with_the_reason(shape: dict[str, Any], what: str) -> None:
    with pytest.raises(SettingsError) as error:
        FORMAT.check_supported(untrained(**shape))
    assert str(error.value).startswith("huggingface does not support this model: MarianMT and Blenderbot")
    assert what in str(error.value)
    assert error.value.hint == "--to onnx"


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError) as error:
        FORMAT.check_supported(untrained())
    assert error.value.hint == "pip install '.[huggingface]' in the folder that has pyproject.toml"
