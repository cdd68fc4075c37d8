"""The exported page in a browser, opened from a file: typing, many lines, files, bad texts, and its glass box."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

from glassformer import translate_stream
from glassformer.export import html
from glassformer.glassbox.trace import explain
from glassformer.inference.translator import Translator
from glassformer.settings import ModelSettings
from glassformer.storage.modelfile import ModelFile, join
from glassformer.storage.records import TakenColumn, TakenColumns, TrainingData
from tests.browser import PATIENCE, chromium, seen_before_reading
from tests.export.conftest import calibrated, restored
from tests.glassbox.page import conftest as page
from tests.untrained import character_model

pytestmark = pytest.mark.browser

SHAPE = ModelSettings(
    d_model=12, d_ff=20, n_heads=2, d_k=5, d_v=4, n_encoder_layers=2, n_decoder_layers=2, norm="pre",
    tied_embeddings="none", positions="learned", max_length=24, activation="gelu", attention_bias=True,
)  # fmt: skip
EMPTY = "The answer is empty."
MAX_TOKENS = 22  # of a source: the positions without the frame


def make_model() -> ModelFile:
    data = TrainingData(longest_target=12)
    return character_model("abcdefg '<>&", "hijkl mn<b>", 16, model=SHAPE, scale=0.9, gain=1.0, data=data)


class Window(page.Window):
    """The page, which may request nothing but its file."""

    sources = staticmethod(html.modules)

    def __init__(self, page: Any, folder: Path) -> None:
        super().__init__(page, folder)
        self.origin = self.url = (folder / "index.html").as_uri()

    def open(self, query: str = "") -> Window:
        self.page.goto(self.url + query)
        self.page.wait_for_selector("body[data-ready='true']")
        return self

    def choose_beam(self, width: int) -> None:
        """Choose the beam width with the keyboard."""
        if not self.page.is_visible("input[type=range]"):
            self.page.click("text=Options")
        self.page.focus("input[type=range]")
        while (now := int(self.page.input_value("input[type=range]"))) != width:
            self.page.keyboard.press("ArrowLeft" if now > width else "ArrowRight")

    def type(self, text: str) -> Window:
        """Replace the text and wait for all answers."""
        self.page.fill("#text", text)
        # Longer than the delay after the last key, by the clock of the page.
        self.page.evaluate("new Promise((resolve) => setTimeout(resolve, 120))")
        self.page.wait_for_selector(".output-area[aria-busy='false']")
        return self

    def wait(self, expression: str) -> None:
        """Wait until an expression is true. Playwright's own way is forbidden by the policy of the page."""
        until = time.monotonic() + PATIENCE / 1000
        while not self.page.evaluate(expression):
            assert time.monotonic() < until, expression
            self.page.wait_for_timeout(20)

    @property
    def answer(self) -> str:
        return str(self.page.inner_text(".output-area"))

    def table(self) -> list[list[str]]:
        """The text, answer and confidence of each row."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            "[...document.querySelectorAll('.answers tbody tr')].map((row) => "
            "[...row.cells].slice(1, 4).map((cell) => cell.textContent))"
        )

    def answers(self) -> list[str]:
        """The answer of each row, without remarks."""
        return self.page.evaluate(  # type: ignore[no-any-return]
            "[...document.querySelectorAll('.answers td:nth-child(3) bdi')].map((answer) => answer.textContent)"
        )

    def leave(self) -> None:
        """Leave the page blank and the only one, for another test."""
        for other in self.page.context.pages:
            if other != self.page:
                other.close()
        self.page.goto("about:blank")

    def drop(self, name: str, content: bytes) -> None:
        """Drop a file on the page."""
        program = """([name, text]) => {
          const data = new DataTransfer();
          const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
          data.items.add(new File([bytes], name, { type: 'text/plain' }));
          for (const kind of ['dragover', 'drop'])
            document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
        self.page.evaluate(program, [name, content.decode("latin-1")])

    def download(self, key: str) -> tuple[str, str]:
        """The name and the content of what a button downloads."""
        with self.page.expect_download() as waiting:
            self.page.click(f"[data-key='{key}']")
        return waiting.value.suggested_filename, Path(waiting.value.path()).read_text("utf-8")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def model_file() -> ModelFile:
    return calibrated(make_model(), ["abc", "gfedcba", "bad cab"])


@pytest.fixture(scope="module")
def folder(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page")
    html.FORMAT.write(model_file, path, "float16")
    return path


@pytest.fixture(scope="module")
def translator(model_file: ModelFile) -> Translator:
    """The model with the weights of the page."""
    return Translator(replace(model_file, tensors=restored(model_file.tensors, "float16")), device="cpu")


@pytest.fixture(scope="module")
def kept(browser: Any, folder: Path) -> Window:
    """The window that one test leaves to the next: a new page takes more processor time than most tests."""
    return Window(browser.new_page(viewport={"width": 1280, "height": 800}), folder)


@pytest.fixture
def window(kept: Window) -> Iterator[Window]:
    yield kept
    complaints, kept.complaints = kept.complaints, []
    kept.leave()
    assert complaints == []


def percent(score: float) -> str:
    """A probability as the page shows it, written independently of the page."""
    p = float(np.exp(score))
    if p > 0.999:
        return ">\u00a099.9\u00a0%"
    if p < 1e-5:
        return "<\u00a00.001\u00a0%"
    return f"{float(f'{100 * p:.2g}'):g}\u00a0%" if p < 0.001 else f"{100 * p:.1f}\u00a0%"


def test_the_page_says_that_it_opens_before_it_reads_the_weights(browser: Any, folder: Path) -> None:
    assert "Opening the page" in seen_before_reading(browser, (folder / "index.html").as_uri())


def test_typing_gives_the_answer_and_its_confidence(window: Window, translator: Translator) -> None:
    window.open()
    assert window.page.evaluate("document.activeElement.id") == "text"
    assert window.answer == "The answer appears here as you type."
    for text in ("abc", "d"):
        window.type("")
        window.page.keyboard.type(text)
        (right,) = translate_stream(translator, [text], min_confidence=0.0)
        assert right.confidence is not None
        window.wait(f"document.querySelector('.answer-text')?.textContent === {json.dumps(right.text or EMPTY)}")
        window.page.wait_for_selector(".output-area[aria-busy='false']")  # the confidence comes later
        assert f"score −{-right.score:.4f}" in window.answer
        assert f"confidence {percent(np.log(right.confidence))}" in window.answer
        assert window.page.locator(".badge.red").count() == (right.confidence < 0.5)
    assert window.page.get_attribute(".output-area", "aria-live") == "polite"
    window.type("")
    assert window.answer == "The answer appears here as you type."


@pytest.mark.medium
def test_the_search_can_be_chosen(window: Window, translator: Translator) -> None:
    texts = ["abcdefg", "gg", "fade", "bad cab"]
    window.open()
    answers = {}
    for num_beams in (5, 1, 3):
        window.choose_beam(num_beams)
        window.type("\n".join(texts))
        answers[num_beams] = [answer.text for answer in translator.translate(texts, num_beams=num_beams)]
        assert window.answers() == answers[num_beams]
    assert answers[1] != answers[5]


def test_many_lines_give_as_many_answers(window: Window, translator: Translator) -> None:
    texts = ["abc", "", "cab", "abc", "ag ß q", "b" * (MAX_TOKENS + 1), "<b>&'"]
    window.open().type("\n".join(texts))
    rows = window.table()
    assert [row[0] for row in rows] == texts
    kept = [text for text in texts if len(text) <= MAX_TOKENS]
    right = dict(zip(kept, translate_stream(translator, kept, min_confidence=0.0), strict=True))
    for text, answer, confidence in rows:
        if text in right:
            assert answer.startswith(right[text].text)
            assert confidence == (percent(np.log(right[text].confidence or 1)) if text else "")
    assert "Not in the vocabulary: “ß” (U+00DF), “q” (U+0071). The model reads <unk> instead." in rows[4][1]
    too_long = f"The text is longer than the model takes: {MAX_TOKENS + 1} tokens, at most {MAX_TOKENS}."
    assert rows[5][1:] == [too_long, ""]
    assert "7 of 7 texts" in window.answer
    assert "1 without an answer" in window.answer


@pytest.mark.parametrize("n_more", [0, 100])
def test_a_file_is_dropped_and_its_answers_are_downloaded(window: Window, translator: Translator, n_more: int) -> None:
    texts = ["abc", "", "gabe", "b" * (MAX_TOKENS + 1), "fß"]
    texts += ["bad"] * n_more
    window.open()
    window.drop("names.txt", ("\r\n".join(texts) + "\r\n").encode())
    window.page.wait_for_selector("[data-key='save-text']")
    assert "names.txt" in window.page.inner_text(".source")
    assert f"{len(texts)} lines" in window.page.inner_text(".source")
    assert window.page.inner_text(".answers th:nth-child(4)") == ("score" if n_more else "confidence")
    kept = [text for text in texts if len(text) <= MAX_TOKENS]
    right = dict(zip(kept, translate_stream(translator, kept, min_confidence=0.0), strict=True))
    name, content = window.download("save-text")
    assert name == "names.answers.txt"
    assert content.split("\n") == [*(right[text].text if text in right else "" for text in texts), ""]
    name, content = window.download("save-json")
    assert name == "names.answers.jsonl"
    for text, line in zip(texts, content.splitlines(), strict=True):
        answer = json.loads(line)
        assert answer.pop("source") == text
        if text in right:
            assert (answer["text"], answer["finished"]) == (right[text].text, right[text].finished)
            assert answer["score"] == pytest.approx(right[text].score, abs=1e-4)
            confidence = None if n_more else right[text].confidence
            assert answer.get("confidence") == (confidence and pytest.approx(confidence, abs=1e-3))
            assert answer["unknown"] == list(right[text].unknown)
        else:
            error = f"the text is longer than the model takes: {len(text)} tokens, at most {MAX_TOKENS}"
            assert answer == {"error": error}
    window.page.click("[data-key='close-file']")
    assert window.page.evaluate("document.activeElement.id") == "text"
    assert window.answer == "The answer appears here as you type."


def test_a_file_that_is_not_text_is_refused(window: Window) -> None:
    window.open()
    window.drop("picture.png", b"\x89PNG\xff\xfe")
    window.page.wait_for_selector("[role=alert]")
    assert window.answer == "The file picture.png cannot be read: it is not text in UTF-8."
    assert window.type("abc").answer


def test_a_speed_is_shown_where_it_is_at_least_one_a_second(window: Window) -> None:
    window.open()
    report = """
      const { Lines } = await import('translator/lines.js');
      return given.map(([n, seconds]) => {
        const made = { n, started: performance.now() - 1000 * seconds, answers: [], texts: Array(90), status: {} };
        Lines.prototype.report.call(made);
        return made.status.textContent;
      });"""
    shown = window.run(report, [[0, 9], [2, 9], [81, 9.01], [9, 0.1]])
    assert shown == ["0 of 90 texts", "2 of 90 texts", "81 of 90 texts, 9 a second", "9 of 90 texts"]


@pytest.mark.medium
def test_stop_ends_the_work_and_keeps_what_was_found(window: Window, translator: Translator) -> None:
    texts = ["".join("abcdefg"[i // 7**k % 7] for k in range(6)) for i in range(20_000)]
    window.open()
    window.drop("many.txt", "\n".join(texts).encode())
    window.wait("document.querySelector('progress')?.value > 100")
    assert window.page.is_visible("[data-key='stop']")
    window.page.click("[data-key='stop']")
    status = window.page.inner_text("[role=status]")
    done = int(status.split(" of ")[0].replace(",", ""))
    assert status.endswith(", stopped")
    assert 100 < done < 20_000
    assert not window.page.is_visible("[data-key='stop']")
    window.page.wait_for_timeout(200)
    assert window.page.inner_text("[role=status]") == status  # nothing comes in any more
    lines = window.download("save-json")[1].splitlines()
    found = [json.loads(line) for line in lines]
    assert sum("text" in one for one in found) == done
    assert {one["error"] for one in found if "text" not in one} == {"stopped before this text"}
    window.page.click("[data-key='close-file']")
    window.type("abc")  # the worker takes the next job
    assert window.page.text_content(".answer-text") == (translator.translate(["abc"])[0].text or EMPTY)


@pytest.mark.medium
def test_title_labels_and_example_are_those_of_the_run(browser: Any, model_file: ModelFile, tmp_path: Path) -> None:
    columns = TakenColumns(
        inputs=(TakenColumn(name="raw <b>", position=0),), target=TakenColumn(name="clean", position=1), width=2
    )
    named = replace(model_file, data=model_file.data.model_copy(update={"columns": columns}))
    for title, shown in ((None, "raw <b> to clean"), ("Names & <i>things</i> \udcff", "Names & <i>things</i> ?")):
        html.FORMAT.write(named, tmp_path, "float32", title=title, example="bad cab")
        window = Window(browser.new_page(), tmp_path).open()
        assert window.page.inner_text("h1") == shown
        assert window.page.title() == shown
        assert window.page.locator(".card > h2").all_inner_texts() == ["raw <b>", "clean"]
        window.page.click("[data-key='example']")
        window.page.wait_for_selector(".answer-text")
        assert window.page.input_value("#text") == "bad cab"
        window.type("abc\nbad")
        assert window.page.locator(".answers th").all_inner_texts() == ["raw <b>", "clean", "confidence"]
        assert window.complaints == []
        window.page.close()


def test_the_columns_of_the_table_are_fixed_and_a_long_text_opens_when_it_is_pressed(window: Window) -> None:
    place = (
        "JSON.stringify([...document.querySelectorAll('.answers :is(th, tr:last-child td)')].map((e) => e.offsetLeft))"
    )
    height = "document.querySelector('.answers tbody tr').offsetHeight"
    window.open().type("abc\nbad")
    before = window.page.evaluate(place)
    window.type("b" * 300 + "\nbad")
    assert window.page.evaluate(place) == before
    assert window.table()[0][0] == "b" * 300
    cut = window.page.evaluate(height)
    window.page.click(".cut > summary")
    assert window.page.evaluate(height) > 2 * cut


def test_in_a_frame_the_page_takes_no_focus(browser: Any, folder: Path, tmp_path: Path) -> None:
    readme = html.README
    assert "index.html" in readme
    frame = re.search(r"<iframe .*</iframe>", readme)
    assert frame is not None
    (tmp_path / "translator.html").write_bytes((folder / "index.html").read_bytes())
    (tmp_path / "site.html").write_text(f"<input id=own autofocus>{frame[0]}")
    page = browser.new_page()
    page.goto((tmp_path / "site.html").as_uri())
    page.frames[1].wait_for_selector("body[data-ready='true']")
    assert page.evaluate("document.activeElement.id") == "own"
    page.frames[1].fill("#text", "abc")
    page.frames[1].wait_for_selector(".answer-text")
    page.close()


def test_the_newest_text_wins(window: Window, translator: Translator) -> None:
    window.open()
    for text in ("a", "ab", "abc", "abcd", "abcde"):
        window.page.fill("#text", text)
        window.page.wait_for_timeout(60)
    window.type("gfe")
    assert window.page.text_content(".answer-text") == (translator.translate(["gfe"])[0].text or EMPTY)


@pytest.mark.parametrize("beams", [1, 5])
@pytest.mark.medium
def test_the_glass_box_of_an_answer_is_that_of_python(window: Window, translator: Translator, beams: int) -> None:
    text = "bad ßcab"
    window.open()
    if beams == 1:
        window.choose_beam(1)
    window.type(text)
    with window.page.context.expect_page() as waiting:
        window.page.click("text=Open in the glass box")
    opened = Window(waiting.value, Path(window.url.removeprefix("file://")).parent)
    opened.page.wait_for_selector("body[data-checked='true']")
    trace = explain(translator.model_file, text, evidence=False, num_beams=beams)
    right, wrong, every = map(int, opened.page.get_attribute("[data-checks]", "data-checks").split("/"))
    assert (right, wrong, every) == (len(trace.steps), 0, len(trace.steps))
    shown = opened.page.inner_text("#header")
    assert trace.translation in shown
    assert ("greedy search" if beams == 1 else "beam width 5") in shown
    assert ("confidence" in shown) == (beams == 5)  # the beam of the calibration
    opened.page.click("[data-key='group-Answer']")
    opened.page.click(".tab[data-panel='search']")
    opened.page.wait_for_selector("#panel[data-panel='search']")
    opened.page.fill("[name=text]", "gab")
    opened.page.click("[data-key='ask']")
    opened.page.wait_for_selector("dd:has-text('gab')")
    (other,) = translate_stream(translator, ["gab"], num_beams=beams, min_confidence=0.0 if beams == 5 else None)
    header = opened.page.inner_text("#header")
    if beams == 5:
        assert f"confidence {percent(np.log(other.confidence))}" in header
    else:
        score = re.search(r"score (−\d+\.\d+)", header)
        assert score
        assert float(score[1].replace("−", "-")) == pytest.approx(other.score, rel=0.001)
    opened.page.click("text=← translator")
    opened.page.wait_for_selector("#text")
    assert opened.complaints == []


COMPARE = """
  const { Trace } = await import('glassbox/model/trace.js');
  const { traceOf } = await import('translator/explain.js');
  const { Translator } = await import('translator/translator.js');
  const expected = new Trace(JSON.parse(given.trace));
  const made = traceOf(new Translator(description, weights), given.text, given.beams);
  let largest = 0;
  const missing = [];
  for (const name of expected.names()) {
    const [one, other] = [expected.get(name), made.get(name)];
    if (!other || one.axes.join() !== other.axes.join() || one.shape.join() !== other.shape.join()) missing.push(name);
    else one.numbers.forEach((number, i) => {
      largest = Math.max(largest, Math.abs(number - other.numbers[i]) / Math.max(1, Math.abs(number)));
    });
  }
  const plain = ({ text, translation, tokens, axes, steps, search, vocabularies, provenance: { decoding } }) => ({
    text, translation, tokens, axes, vocabularies, decoding,
    steps: Object.fromEntries(steps.map((step) => [step.output, step])),
    nodes: [search.greedy, search.beam].map(({ nodes }) => nodes.map(({ token, state, rank }) => [token, state, rank])),
    answers: [search.greedy, search.beam].map(({ answers }) => answers.map(({ ids, finished }) => [ids, finished])),
    limits: [search.greedy, search.beam].map((one) => [one.num_beams, one.max_new_tokens, one.length_alpha]),
  });
  return { largest, missing, made: plain(made), expected: plain(expected) };
"""


def test_every_number_of_that_glass_box_is_that_of_python(window: Window, translator: Translator) -> None:
    text = "bad ßcab"
    window.open()
    trace = explain(translator.model_file, text, evidence=False, weights=True, num_beams=5)
    found = window.run(COMPARE, {"text": text, "beams": 5, "trace": trace.dumps()})
    assert found["missing"] == []
    assert found["largest"] < 1e-5
    assert found["made"] == found["expected"]


@pytest.mark.medium
def test_the_glass_box_of_members_says_that_it_shows_the_first(browser: Any, tmp_path: Path) -> None:
    texts, one = ["abc", "gfedcba", "d"], make_model()
    other = replace(one, tensors={name: 0.9 * array for name, array in one.tensors.items()})
    model_file = calibrated(join([one, other]), texts)
    html.FORMAT.write(model_file, tmp_path, "float32")
    window = Window(browser.new_page(), tmp_path).open()
    assert "2 members answer together; the glass box shows the first of them." in window.page.inner_text("main")
    answers = Translator(model_file, device="cpu").translate(texts, num_return_sequences=5)
    of_first = Translator(one, device="cpu").translate(texts)
    assert {answer.text == first.text for answer, first in zip(answers, of_first, strict=True)} == {True, False}
    for text, answer, first in zip(texts, answers, of_first, strict=True):
        window.open(f"?{urlencode({'explain': text, 'beams': 5})}")
        bar, header, panel = (window.page.text_content(place) for place in ("#bar", "#header", "#panel"))
        assert bar.count("the first of 2 members") == 1
        assert (first.text or "(empty)") in header
        assert "confidence" not in header
        for words in (header, panel):
            together = f"ll 2 members together answer “{answer.text or '(empty)'}”"
            assert (together in words) == (answer.text != first.text)
    assert window.complaints == []
    window.page.close()


def test_the_glass_box_of_a_bad_text_says_what_is_wrong(window: Window) -> None:
    for text, words in (("%20", "the text is empty"), ("a" * 40, "longer than the model takes")):
        window.page.goto(f"{window.url}?explain={text}")
        window.page.wait_for_selector("body[data-ready='failed']")
        assert words in window.page.inner_text("#page")


def test_a_model_too_large_for_the_glass_box_names_the_command(
    browser: Any, model_file: ModelFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(html, "MAX_PARAMETERS", 100)
    html.FORMAT.write(model_file, tmp_path, "float32")
    window = Window(browser.new_page(), tmp_path).open().type("it's")
    assert "Open in the glass box" not in window.answer
    assert "glassformer explain MODEL TEXT --html answer.html" in window.answer
    window.page.goto(window.url + "?explain=abc")
    window.page.wait_for_selector("body[data-ready='failed']")
    assert "the model is too large for the glass box in a page" in window.page.inner_text("#page")
    assert window.complaints == []
    window.page.close()


DAMAGES = {
    "weights": lambda page: page.replace('weights.push("', 'weights.push("AAAA', 1),
    "engine": lambda page: page.replace('engine = "', 'engine = " ', 1),
    "script": lambda page: page.replace("'use strict';", "'use strict'; ", 1),
    "policy": lambda page: page.replace("script-src 'sha256-", "script-src 'sha256-A", 1),
    "half": lambda page: page[: len(page) // 2],
}


@pytest.mark.medium
def test_a_damaged_page_says_so_and_answers_nothing(browser: Any, folder: Path, tmp_path: Path) -> None:
    whole, page = (folder / "index.html").read_text("utf-8"), browser.new_page()
    for part, damage in DAMAGES.items():
        damaged = damage(whole)
        assert damaged != whole, part
        (tmp_path / "index.html").write_text(damaged, "utf-8")
        page.goto((tmp_path / "index.html").as_uri())
        if part == "weights":
            page.wait_for_selector("body[data-ready='failed']")
        page.evaluate("new Promise((resolve) => setTimeout(resolve, 200))")
        assert "this file is not the one that was exported" in page.inner_text("#page"), part
        assert page.evaluate("globalThis.glassformer === undefined || document.body.dataset.ready === 'failed'"), part
    page.close()


@pytest.mark.medium
def test_the_page_fits_on_a_phone_and_in_the_dark(window: Window) -> None:
    for width, scheme in ((390, "dark"), (1280, "light")):
        window.page.set_viewport_size({"width": width, "height": 800})
        window.page.emulate_media(color_scheme=scheme)
        window.open()
        for text in ("abcdefg", "b" * 300, "\n".join(["abc", "b" * 300, "a ß"])):
            window.type(text)
            assert window.page.evaluate("document.documentElement.scrollWidth") <= width
        background = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, background[4:-1].split(","))) < 200) == (scheme == "dark")


def test_everything_is_reached_with_the_keyboard_and_has_a_name(window: Window) -> None:
    window.open().type("abc\nbad")
    reached = set()
    for _ in range(20):
        window.page.keyboard.press("Tab")
        name = window.page.evaluate(
            "(() => { const e = document.activeElement; "
            "return e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent; })()"
        )
        assert str(name).strip()
        reached.add(str(name).strip())
    assert {"Open a file …", "Options", "Download the answers", "light or dark theme"} <= reached
    assert window.page.evaluate("document.querySelector('#text').labels.length") == 1
