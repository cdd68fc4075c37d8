"""Exports of a model with several inputs: two texts and two features, in every format that can hold them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from glassformer.errors import EngineError
from glassformer.export import export, load_format
from glassformer.export.programs import describe_export
from glassformer.export.rows import drawn_rows
from glassformer.glassbox.trace import explain
from glassformer.inference.translator import Translator
from glassformer.settings import Settings
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import TrainingData
from glassformer.text import learn_both
from glassformer.text.inputs import compose, inputs_of
from tests.export.conftest import TINY
from tests.export.test_html_page import COMPARE, Window, browser  # noqa: F401
from tests.export.test_texts import runner
from tests.untrained import listening_model

INPUTS = inputs_of(["lemma", "other"], ["tags", "language"])
WORDS = ["bap", "dél", "kot", "bat dak", "léd"]
TAGS = ["V;PST", "V;PRS;3", "V ; PTCP", "N;é"]


def make_model(*, shared: bool = True) -> ModelFile:
    """Return a model with random weights, whose answers depend on all inputs."""
    generator = random.Random(2)
    words, tags, languages = (partial(generator.choice, values) for values in (WORDS, TAGS, "xyz"))
    pairs = [(compose([words(), words(), tags(), languages()]), words()) for _ in range(60)]
    tokens = {"shared": shared, "source": {"kind": "characters"}, "target": {"kind": "characters"}}
    shape = TINY | {"tied_embeddings": "all" if shared else "none"}
    settings = Settings.model_validate({"tokens": tokens, "model": shape, "data": {"max_source_length": 40}})
    source, target = learn_both(pairs, settings.tokens, INPUTS)
    return replace(listening_model(settings, source, target, 4, sharp=4), data=TrainingData(longest_target=8))


GIVEN = [
    {"lemma": "bap", "other": "kot", "tags": "V;PST", "language": "x"},
    {"lemma": "bap", "other": "kot", "tags": "V;PRS;3", "language": "x"},
    {"lemma": "bap", "other": "kot", "tags": "V;PRS;3", "language": "y"},
    {"lemma": "kot", "other": "bap", "tags": "V;PST", "language": "x"},
    {"lemma": "de\u0301l", "other": " ", "tags": "V", "language": "z"},
    {"lemma": "dél\x1fžq", "other": "<tags=V>", "tags": " V ;; FUT;e\u0301;", "language": "w"},
    {"lemma": " ", "other": "", "tags": "V;PST", "language": "x"},
]
VALID = [one for one in GIVEN if one["other"].strip() or not one["lemma"].strip()]


@pytest.fixture(scope="module")
def model_file() -> ModelFile:
    return make_model()


@pytest.fixture(scope="module")
def exported(model_file: ModelFile) -> Any:
    """The export of the model, as its programs read it."""
    return runner("source").Export(json.loads(json.dumps(describe_export(model_file))))


@pytest.mark.parametrize(("to", "shared"), [("onnx", False), ("ctranslate2", True), ("html", False)])
def test_an_export_gives_the_answers_of_the_model(to: str, shared: bool, tmp_path: Path) -> None:
    pytest.importorskip({"onnx": "onnxruntime", "ctranslate2": "ctranslate2", "html": "numpy"}[to])
    exported_model = make_model(shared=shared)
    exported_model.save(tmp_path / "model.safetensors")
    answers = Translator(exported_model, device="cpu").translate(VALID)
    assert len({round(answer.score, 3) for answer in answers[:4]}) == 4  # they depend on every input
    rows = [(given, answer.text) for given, answer in zip(VALID, answers, strict=True)]
    found = export(tmp_path / "model.safetensors", to, tmp_path / "out", rows=rows, precision="float32")
    assert found.check.score_difference <= 1e-3
    for search in found.check.searches:
        assert search.rows >= len(VALID) + 3
        assert search.equal + search.ties + search.other == search.rows
        assert search.equal > 0.6 * search.rows


@pytest.mark.usefixtures("in_process")
def test_the_check_finds_symbols_that_are_swapped(
    model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file.save(tmp_path / "model.safetensors")

    def describe_wrongly(model_file: ModelFile) -> Any:
        text = json.dumps(describe_export(model_file)).replace('"PST"', '"_"')
        return json.loads(text.replace('"PRS"', '"PST"').replace('"_"', '"PRS"'))

    monkeypatch.setattr("glassformer.export.programs.describe_export", describe_wrongly)
    with pytest.raises(EngineError, match="gives other answers"):
        export(tmp_path / "model.safetensors", "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_drawn_rows_have_all_inputs_and_unknown_symbols(model_file: ModelFile) -> None:
    rows = drawn_rows(model_file)
    cells = [one for one in rows.given if isinstance(one, dict)]
    assert {tuple(one) for one in cells} == {("lemma", "other", "tags", "language")}
    assert len({one["tags"] for one in cells}) > 50
    assert [row.name for row in rows.rows][-2:] == ["an unknown symbol of tags", "an unknown symbol of language"]


# Runners


def test_the_ids_of_a_source_are_those_of_the_package(model_file: ModelFile, exported: Any) -> None:
    tokenizer, inputs = model_file.source_tokenizer, exported.inputs
    for given in VALID[:-1]:
        source = compose(list(given.values()))
        ids, unknown = exported.encode(inputs.read_json(given))
        assert (ids, unknown) == (tokenizer.frame(tokenizer.encode(source)), tokenizer.unknown(source))
    assert inputs.read_json(GIVEN[-1]) == inputs.read_line(" ") == []


@pytest.mark.parametrize("run", ["onnx"], indirect=True)
def test_lines_have_all_inputs_between_tabs(run: Any, model_file: ModelFile) -> None:
    done = run(model_file, b"bap\tkot\tV;PST\tx\n\nbap\tkot\t;\tx\nkot\tbap\tV;PST\tx\n")
    first, second = (answer.text for answer in Translator(model_file, device="cpu").translate([GIVEN[0], GIVEN[3]]))
    assert (done.returncode, done.stdout.decode().split("\n")) == (4, [first, "", "", second, ""])
    assert "row 3 (the feature 'tags' is empty)" in done.stderr.decode()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bap\tkot\tV", r"expected 4 cells between tabs \(lemma, other, tags, language\), got 3"),
        ('"bap"', "expected a JSON object"),
        ('{"lemma": "a", "other": "k", "tags": "V", "language": "x", "z": "1"}', "no input is called 'z'"),
        ('{"lemma": "a", "language": 1}', "expected a JSON object with a string for each of lemma, other, tags, lan"),
    ],
)
def test_a_line_that_is_no_source_is_an_error(exported: Any, line: str, message: str) -> None:
    with pytest.raises(runner().InputError, match=message):
        exported.read(line, as_json=line[0] in '"{')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("bap\tkot\t;\tx", "the feature 'tags' is empty"),
        ("bap\t \tV\tx", "the text 'other' is empty"),
        (json.dumps(GIVEN[0] | {"language": None}), "the input 'language' is missing"),
        ('{"lemma": "a", "other": "k", "tags": "V"}', "the input 'language' is missing"),
    ],
)
def test_a_row_without_an_input_is_left_empty(exported: Any, line: str, reason: str) -> None:
    with pytest.raises(runner("source").LeftOutError, match=re.escape(reason)):
        exported.read(line, as_json=line[0] == "{")


# The page


@pytest.fixture
def window(browser: Any, model_file: ModelFile, tmp_path: Path) -> Iterator[Window]:  # noqa: F811
    load_format("html").write(model_file, tmp_path, "float32", example=compose(GIVEN[0].values()))
    opened = Window(browser.new_page(), tmp_path)
    yield opened
    opened.page.close()
    assert opened.complaints == []


@pytest.mark.browser
def test_the_page_has_a_field_for_each_further_input(window: Window, model_file: ModelFile) -> None:
    translator = Translator(model_file, device="cpu")
    window.open()
    assert window.page.inner_text("label[for=text]") == "lemma"
    fields = window.page.locator(".source input[name]")
    assert [field.get_attribute("name") for field in fields.all()] == ["input-other", "input-tags", "input-language"]
    assert "symbols, with “;” between them: 3, N, PRS" in fields.nth(1).get_attribute("placeholder")
    window.type("bap")
    assert "The text “other” is empty" in window.answer
    for name, cell in list(GIVEN[0].items())[1:]:
        window.page.fill(f"input[name=input-{name}]", cell)
    (right,) = translator.translate([GIVEN[0]])
    window.wait(f"document.querySelector('.answer-text')?.textContent === {json.dumps(right.text)}")
    window.page.fill("#text", "")
    window.page.fill("input[name=input-tags]", "")
    window.page.click("[data-key='example']")
    window.wait(f"document.querySelector('.answer-text')?.textContent === {json.dumps(right.text)}")
    window.type("bap\n\nkot\tbap\tV;FUT\tx")
    other = GIVEN[3] | {"tags": "V;FUT"}
    sources = ["bap · other: kot · tags: V;PST · language: x", "", "kot · other: bap · tags: V;FUT · language: x"]
    assert [row[0] for row in window.table()] == sources
    assert window.answers() == [right.text, "", translator.translate([other])[0].text]
    assert "Not in the vocabulary: “<tags=FUT>”" in window.table()[2][1]
    _, text = window.download("save-json")
    sources = [json.loads(line)["source"] for line in text.splitlines()]
    assert (sources[0], sources[2]) == (GIVEN[0], other)


@pytest.mark.browser
def test_programs_give_the_page_an_object(window: Window, model_file: ModelFile) -> None:
    sources = [*VALID, {"lemma": "bap"}]
    *answers, refused = window.open().page.evaluate("(given) => glassformer.translate(given, 3)", sources)
    expected = Translator(model_file, device="cpu").translate(VALID, num_beams=3)
    assert [answer["text"] for answer in answers] == [answer.text for answer in expected]
    assert refused["error"] == "the input “other” is missing"


@pytest.mark.browser
@pytest.mark.medium
def test_the_glass_box_of_the_page_is_that_of_python(window: Window, model_file: ModelFile) -> None:
    window.open()
    trace = explain(model_file, GIVEN[0] | {"tags": "V;FUT;3"}, evidence=False, weights=True, num_beams=5)
    source = compose(["bap", "kot", "V;FUT;3", "x"])
    program = COMPARE.replace("plain = ({ text,", "plain = ({ inputs, text,").replace(
        "    text, tr", "    inputs, text, tr"
    )
    found = window.run(program, {"text": source, "beams": 5, "trace": trace.dumps()})
    assert found["missing"] == []
    assert found["largest"] < 1e-5
    assert found["made"]["inputs"] == {"lemma": "bap", "other": "kot", "tags": "V;FUT;3", "language": "x"}
    assert found["made"] == found["expected"]
    window.page.goto(f"{window.url}?{urlencode({'explain': source, 'beams': 5}, doseq=True)}#tokens")
    window.page.wait_for_selector("body[data-checked='true']")
    assert trace.translation in window.page.inner_text("#header")
    window.page.fill("input[name=input-tags]", "V;PST")
    with window.page.expect_navigation():
        window.page.click("[data-key=ask]")
    window.page.wait_for_selector("body[data-checked='true']")
    assert window.page.input_value("input[name=input-tags]") == "V;PST"
