"""The story: an opening, two screens and six questions, which the page answers from the numbers of its own model."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.run_records import Errors, WrongAnswer
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_model
from tests.glassbox.page.conftest import PRESS, attentions

pytestmark = pytest.mark.browser

N_QUESTIONS = 8
SVG = "{http://www.w3.org/2000/svg}"
OF_NO_TEXT = ("whatif", "space", "training", "errors")
READY = ".story-words:not(:has-text('being computed'))"
SHOWN = "[...document.querySelectorAll('.paper .strip.on, .paper .token.on, .paper .cable.on')].length"
SCRUB = """const slide = document.querySelector('[data-key=scrub]');
slide.value = given;
slide.dispatchEvent(new Event('input'));"""
ANSWER = "[...document.querySelectorAll('.paper .out.on text')].map((each) => each.textContent).join('')"


def words(window: Any) -> str:
    return str(window.text(".story-words"))


def why(window: Any) -> str:
    """What is behind "why?"."""
    return str(window.run("const why = document.querySelector('.why'); why.open = true; return why.innerText"))


def percent(p: float) -> str:
    return f"{p * 100:.1f}\u00a0%"


def changes(trace: Trace) -> dict[int, tuple[int, Any, Any]]:
    """The layer that turns another token into the output token of a row, by the most: row -> layer, before, after."""
    lens = [name for name in trace.predictions if name.startswith("decoder.") and ".lens." in name]
    found: dict[int, tuple[int, Any, Any]] = {}
    for row, token in enumerate(trace.tokens.target_out):
        tops = [trace.predictions[name][row].top[0] for name in [*lens, "logits"]]
        for layer, (before, after) in enumerate(pairwise(tops), 1):
            if before[0] != token.id == after[0]:
                known = found.get(row)
                if known is None or before[2] * after[2] > known[1][2] * known[2][2]:
                    found[row] = (layer, before, after)
    return found


@pytest.fixture(scope="session")
def surprised(case: Any) -> Trace:
    """A trace where a layer changes a token."""
    for text in ("abcde", "gfab", "ee", "cab", "dbeag"):
        found = explain(case.model, text, weights=True, num_beams=3)
        if changes(found):
            return found
    raise AssertionError("no text of the model has a change")


def boxes_of(window: Any, selectors: tuple[str, ...]) -> list[list[float]]:
    """Top, left, bottom and right of the first element of each selector, at one time."""
    places = "['top', 'left', 'bottom', 'right'].map((side) => box[side])"
    boxes = f".map((each) => document.querySelector(each).getBoundingClientRect()).map((box) => {places})"
    return list(window.run(f"return {json.dumps(list(selectors))}{boxes}"))


@pytest.mark.medium
def test_next_back_and_the_arrow_keys_go_through_all_questions(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    titles = []
    for at in range(N_QUESTIONS + 1):
        assert window.page.get_attribute("[data-question]", "data-question") == str(at)
        titles.append(window.text(".story h2"))
        assert len(window.all(".story-words p", "each.innerText")) >= 1
        if at < N_QUESTIONS:
            if at % 2:
                window.page.keyboard.press("ArrowRight")
            else:
                window.press("story-next")
    assert len(set(titles)) == N_QUESTIONS + 1
    assert titles[1:3] == ["From text to rows", "One layer"]
    assert all(title.endswith("?") for title in titles[3:])
    assert window.page.locator("[data-key='story-next']").is_disabled()
    window.page.keyboard.press("ArrowLeft")
    assert window.text(".story h2") == titles[-2]
    window.page.go_back()
    window.page.wait_for_selector(f"h2:has-text('{titles[-1]}')")
    window.press("yours")
    assert window.run("return document.activeElement.dataset.key") == "live-0"
    for panel, has_depth in (("attention", True), ("search", False)):  # controls have an effect
        window.panel(panel)
        assert window.page.locator("[data-key='depth-words']").is_visible() == has_depth, panel


@pytest.mark.medium
def test_the_step_and_the_head_stay_the_same_from_question_to_question(window: Any, surprised: Trace) -> None:
    window.open(surprised, "story")
    layer, before, _ = (found := changes(surprised))[(row := max(found, key=lambda r: found[r][1][2] * found[r][2][2]))]
    here = "return document.querySelector('#steps [aria-current]').dataset.key"
    for at in range(N_QUESTIONS + 1):
        window.press(f"question-{at}")
        assert window.run(here) == f"row-{row}", at
    address = window.page.url.partition("#")[0]
    window.go(f"{address}#story?question=5")
    window.settle()
    said = f"the one before said “{before[1].replace(' ', '␣')}” ({percent(before[2])})"
    assert f"after layer {layer + 1} of 2: {said}" in words(window)
    logit = surprised.array("logits")[row, surprised.tokens.target_out[row].id]
    assert f"what all of them add, {logit:.3f}; the largest part".replace("-", "−") in words(window)
    other = (row + 1) % len(surprised.tokens.target_out)
    window.press(f"row-{other}")
    window.press("story-back")
    assert window.run(here) == f"row-{other}"
    window.settle()
    window.page.wait_for_url(lambda url: f"row={other}" in url)
    window.page.reload()
    window.settle()
    assert window.run(here) == f"row-{other}"


@pytest.mark.medium
def test_each_question_leads_to_the_panel_that_has_its_numbers(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    first = ("Logits", "Embedding and position", "Add & norm, feed-forward")
    expected = (*first, "Attention", "Heads", "Logits", "Training", "Search", "What if")
    for at, title in enumerate(expected):
        window.press(f"question-{at}")
        window.page.wait_for_selector(READY)
        window.press("proof")
        window.page.wait_for_selector(f"h1:has-text('{title}')")
        window.settle()
        window.page.go_back()
        window.page.wait_for_selector(f"[data-question='{at}']")
        window.settle()


@pytest.mark.medium
def test_the_opening_halts_where_a_layer_changes_the_answer(window: Any, surprised: Trace) -> None:
    window.open(surprised, "story")
    found = changes(surprised)
    row = max(found, key=lambda each: found[each][1][2] * found[each][2][2])
    layer, before, _ = found[row]
    ordinals = ("first", "second", "third")
    assert f"The {ordinals[layer]} writes" in words(window) or f"The {ordinals[layer]} ends it" in words(window)
    assert window.page.is_visible(".reading:has-text('band: sublayer') >> text=why?")
    assert window.text(".figure1 h3").endswith(f"source → target: {surprised.text}")
    document = json.loads(surprised.dumps())
    for name, p in ((name, p) for p in (0.95, 0.6) for name in document["predictions"] if ".lens." in name):
        top = document["predictions"][name][row]["top"]
        top[0] = [surprised.tokens.target_in[0].id, "<eos>", p]
        if name.startswith("decoder.0."):
            window.open(document, f"story?row={row}")
            assert ("sure that the answer has ended" in words(window)) == (p >= 0.9)
            assert ("would stop here" in words(window)) == (p < 0.9)
    window.open(surprised, "story")
    assert f"In step {row}" in why(window)
    assert f"layer {layer + 1} of 2: the one before said “{before[1].replace(' ', '␣')}” ({percent(before[2])})" in why(
        window
    )
    name = f"decoder.{layer}.cross"
    weights, values = surprised.array(f"{name}.weights")[:, row], surprised.array(f"{name}.values")
    sizes = weights * np.linalg.norm(values, axis=-1)
    head, key = np.unravel_index(sizes.argmax(), sizes.shape)
    assert (
        f"Head {head + 1} of decoder layer {layer + 1} of 2, cross-attention, has {percent(weights[head, key])} of"
        in why(window)
    )
    assert f"source token {key}." in why(window)
    lens = [name for name in surprised.predictions if name.startswith("decoder.") and ".lens." in name]
    tops = [surprised.predictions[name][row].top[0] for name in [*lens, "logits"]]
    said = window.all(".paper .speech.on text", "each.textContent.replace(/[\\u2068\\u2069]/g, '')")
    assert said == [f"{text.replace(' ', '␣')}  {percent(p)}" for _, text, p in tops]
    right = window.all(".paper .speech.on", "each.classList.contains('right')")
    assert right == [id_ == surprised.tokens.target_out[row].id for id_, _, _ in tops]
    assert window.all(".paper .out.here", "Number(each.dataset.step)") == [row]


def test_the_figure_has_the_numbers_of_the_trace(window: Any, trace: Trace) -> None:
    """Each strip the largest numbers of its row, and each strand the mean weight of the heads."""
    window.open(trace, "story?row=2")
    names = [step.output for step in trace.steps if step.output.endswith(".residual") and "gold" not in step.output]
    stages = {"encoder": ["source.input", *[n for n in names if n.startswith("encoder")]]}
    stages["decoder"] = ["target.input", *[n for n in names if n.startswith("decoder")]]
    lit = window.all(".paper .strip.on", "[each.dataset.tensor, Number(each.dataset.at)]")
    expected = [[name, at] for name in (*stages["encoder"], *stages["decoder"]) for at in range(len(trace.array(name)))]
    assert sorted(lit) == sorted(expected)
    name = stages["decoder"][-1]
    whole = trace.array(name)
    cells = np.stack(
        [part[np.arange(len(part)), np.abs(part).argmax(axis=1)] for part in np.array_split(whole, 8, axis=1)], axis=1
    )
    shades = np.ceil((np.abs(cells[2]) / np.abs(cells).max()) ** 1.3 * 5 - 1e-9) / 5
    paths = window.all(
        f".strip[data-tensor='{name}'][data-at='2'] path",
        "[each.className.baseVal, +each.getAttribute('fill-opacity'), each.attributes.d.value.match(/M/g).length]",
    )
    found = {(kind, shade): count for kind, shade, count in paths}
    wanted: dict[tuple[str, float], int] = {}
    for number, shade in zip(cells[2], shades, strict=True):
        key = ("minus" if number < 0 else "plus", round(float(shade), 1))
        wanted[key] = wanted.get(key, 0) + 1
    assert found == wanted
    drawn = window.all(".paper .strand", "[each.dataset.line, Number(each.dataset.from), Number(each.dataset.weight)]")
    for attention in ("decoder.0.self", "decoder.1.self", "decoder.0.cross", "decoder.1.cross"):
        mean = trace.array(f"{attention}.weights")[:, 2].mean(axis=0)
        here = {key: weight for line, key, weight in drawn if line == attention}
        assert here == pytest.approx({key: weight for key, weight in enumerate(mean) if weight >= 0.02}, abs=1e-6)
    odds = window.all(".paper .odds .p", "each.textContent")
    assert odds == [percent(p) for _, _, p in trace.predictions["logits"][2].top[:3]]


def test_parts_of_the_figure_open_what_they_show(window: Any, trace: Trace) -> None:
    window.open(trace, "story?row=2")
    window.run(PRESS, ".strip[data-tensor='decoder.0.cross.residual'][data-at='1'] path")
    assert window.text("h1") == "Add & norm, feed-forward"
    assert window.value == pytest.approx(trace.array("decoder.0.cross.residual")[1, 0], abs=1e-5)
    window.page.go_back()
    window.page.wait_for_selector(".paper")
    window.run(PRESS, ".strand[data-line='decoder.1.cross']")
    window.page.wait_for_selector("[data-opened='decoder.1.cross']")
    window.press("story-next")
    window.press("story-back")
    assert window.page.locator(".opened").count() == 0
    box = window.page.locator(".paper [data-band='decoder.0.feed_forward']").bounding_box()
    column = window.page.locator(".column").bounding_box()
    window.page.mouse.click(column["x"] + column["width"] / 2, box["y"] + box["height"] / 2)
    window.page.wait_for_selector("[data-opened='decoder.0.feed_forward']")
    window.press("close-band")
    window.run(PRESS, ".out[data-step='1']")
    assert window.all(".paper .out.here", "each.dataset.step") == ["1"]
    window.page.focus("[data-key='scrub']")
    window.page.keyboard.press("ArrowLeft")
    assert window.all(".paper .out.here", "each.dataset.step") == ["0"]


def test_a_band_opens_in_place_down_to_the_products_of_one_number(window: Any, trace: Trace) -> None:
    window.open(trace, "story?row=2")
    window.run(PRESS, ".paper [data-band='decoder.1.cross'] rect")
    card = "[data-opened='decoder.1.cross']"
    assert "decoder › layer 2 of 2 › cross-attention" in window.text(card)
    window.press("head-1")
    weights, scaled = (trace.array(f"decoder.1.cross.{name}")[1, 2] for name in ("weights", "scaled"))
    shown = window.all(f"{card} .score", "each.textContent")
    assert shown[1::2] == [percent(weight) if weight >= 1e-5 else "< 0.001\u00a0%" for weight in weights]
    assert [float(text.replace("−", "-")) for text in shown[::2]] == pytest.approx(scaled.tolist(), abs=5e-3)
    window.run(PRESS, f"{card} .key:nth-of-type(n+4) .score")
    window.page.wait_for_selector("#inspector [data-value]")
    assert window.text("h1") == "Attention"
    assert window.value in scaled.astype(np.float32).tolist()
    assert window.all("#map [aria-current]", "each.dataset.flow") == ["band-decoder.1.cross"]
    assert window.page.locator("#inspector .terms tr").count() > 1
    window.page.go_back()
    window.page.wait_for_selector(card)
    window.page.keyboard.press("Escape")
    assert window.page.locator(".opened").count() == 0
    window.page.set_viewport_size({"width": 1440, "height": 1200})  # room for a card beside its band
    window.page.focus("[data-key='band-encoder.0.feed_forward']")
    window.page.keyboard.press("Enter")
    assert "10 numbers" in window.text("[data-opened='encoder.0.feed_forward']")
    assert window.all(".band.open", "each.dataset.band") == ["encoder.0.feed_forward"]
    window.page.wait_for_selector(".figure1[style*='--card-top']")
    (card_top, _, card_bottom, _), (band_top, _, band_bottom, _) = boxes_of(window, (".opened", ".band.open rect"))
    assert card_top > band_bottom or card_bottom < band_top
    opacities = window.all(
        "[data-opened] g.at:nth-of-type(3) rect:not(.border)", "Number(each.getAttribute('fill-opacity'))"
    )
    activated = trace.array("encoder.0.feed_forward.activated")[0]
    shown = activated[[i * len(activated) // len(opacities) for i in range(len(opacities))]]
    assert [opacity == 0 for opacity in opacities] == [abs(number) < 0.005 * abs(activated).max() for number in shown]
    window.press("close-band")
    assert window.run("return document.activeElement.dataset.key") == "band-encoder.0.feed_forward"


@pytest.mark.parametrize("width", [1024, 1440, 1920])
def test_an_open_number_stands_beside_the_story(window: Any, trace: Trace, width: int) -> None:
    window.page.set_viewport_size({"width": width, "height": 900})
    window.open(trace, "story?question=3&cell=decoder.1.cross.scaled@0,0,0")
    (story_top, left, _, right), (number_top, number_left, _, number_right) = boxes_of(window, (".story", "#inspector"))
    assert right <= number_left
    assert number_right <= width < 2.2 * (right - left)
    assert abs(number_top - story_top) < 40


def test_the_figure_is_saved_as_a_moving_svg_and_as_a_png(window: Any, surprised: Trace) -> None:
    window.open(surprised, "story")
    picture = ElementTree.fromstring(window.saved("[data-key='poster-SVG']"))
    texts = [each.text for each in picture.iter(f"{SVG}text")]
    for tokens in (surprised.tokens.source, surprised.tokens.target_in, surprised.tokens.target_out):
        assert {token.text.replace(" ", "␣") for token in tokens} <= set(texts)
    style = "".join(each.text or "" for each in picture.iter(f"{SVG}style"))
    played = {name for each in picture.iter() for name in each.get("class", "").split() if re.fullmatch(r"k\d+", name)}
    assert len(played) > len(surprised.tokens.target_out)
    assert all(f"@keyframes {name}{{" in style for name in played)
    assert "prefers-reduced-motion" in style
    assert all(f"{name}:" in style for name in re.findall(r"var\((--[\w-]+)\)", style))  # it has its colors
    with window.page.expect_download() as download:
        window.press("poster-PNG")
    assert struct.unpack(">II", Path(download.value.path()).read_bytes()[16:24]) == (1200, 630)


def test_weights_of_a_cross_attention_that_is_off_are_not_told(window: Any, surprised: Trace) -> None:
    window.open(surprised, "story")
    assert "of its weight on" in why(window)
    off = "&".join(f"edit=attention+decoder.{layer}.cross+off" for layer in (0, 1))
    window.go(f"{window.report}#story?{off}")
    window.page.wait_for_selector(".story-words:has-text('The answer after the edit')")
    assert "of its weight on" not in why(window)
    assert window.page.locator(".strand[data-line$='cross']").count() == 0
    assert window.page.locator(".strand[data-line$='self']").count() > 0


def test_without_a_surprise_the_opening_says_so_and_begins_at_the_least_certain_step(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    for name in [name for name in document["predictions"] if ".lens." in name]:
        document["predictions"][name] = document["predictions"]["logits"]
    window.open(document, "story")
    if all(rows[0]["top"][0][0] == token["id"] for rows, token in zip(
        zip(document["predictions"]["logits"], strict=True), document["tokens"]["target_out"], strict=True)
    ):  # fmt: skip
        assert "No surprise" in words(window)
    ids = [token.id for token in trace.tokens.target_out]
    row = int(trace.array("log_probs")[range(len(ids)), ids].argmin())
    assert window.page.get_attribute("#steps [aria-current]", "data-key") == f"row-{row}"
    assert window.page.locator(".speech").count() == 0


@pytest.mark.medium
def test_the_answer_writes_itself_and_without_motion_it_is_there(window: Any, surprised: Trace) -> None:
    window.page.emulate_media(reduced_motion="reduce")
    window.open(surprised, "story")
    still = window.run(f"return {SHOWN}")
    answer = "".join(token.text for token in surprised.tokens.target_out).replace(" ", "␣")
    assert window.run(f"return {ANSWER}") == answer
    assert window.page.locator(".story.told").count() == 1
    window.page.emulate_media(reduced_motion="no-preference")
    window.press("again")
    window.page.wait_for_function(f"() => {SHOWN} < {still}")
    assert window.run(f"return {ANSWER}.length") < len(answer)
    assert window.page.input_value("[data-key='scrub']") == "0"
    window.page.wait_for_function(f"() => {SHOWN} > 0")
    window.press("again")  # pause
    paused = window.run(f"return {SHOWN}")
    window.page.wait_for_timeout(400)
    assert window.run(f"return {SHOWN}") == paused > 0
    window.press("again")
    window.page.wait_for_function(f"() => {SHOWN} === {still}")
    assert window.run(f"return {ANSWER}") == answer
    window.settle()  # the check of the numbers waits until nothing moves
    assert window.checks()[1] == 0


@pytest.mark.medium
def test_a_text_is_answered_while_it_is_typed(window: Any, case: Any) -> None:
    trace = explain(case.model, "abcde", weights=True, num_beams=3)
    window.open(replace(trace, provenance=replace(trace.provenance, columns=["birthday (column 0)", "x"])), "story")
    assert not window.run("return document.activeElement.matches('input')")  # keys work from the first moment
    window.page.keyboard.type("5")
    assert window.page.input_value("[data-key='live-0']") == "abcde"  # it was not entered
    window.page.keyboard.press("e")
    assert window.run("return document.activeElement.dataset.key") == "live-0"
    assert window.text(".live label") == "birthday"
    window.page.keyboard.press("End")
    window.page.keyboard.type("ga")
    expected = explain(case.model, "abcdega", weights=True, num_beams=3)
    answer = "".join(token.text for token in expected.tokens.target_out).replace(" ", "␣")
    window.page.wait_for_function(f"() => {ANSWER} === {json.dumps(answer)}")
    assert window.run("return document.activeElement.value") == "abcdega"
    window.page.keyboard.press("Escape")
    window.page.keyboard.press("ArrowRight")
    assert window.text(".story h2") == "From text to rows"
    window.page.keyboard.press("ArrowLeft")
    window.page.fill("[data-key='live-0']", " ")
    window.page.wait_for_selector(".live .wrong:has-text('the text is empty')")
    assert "abcdega" in window.text("dl.answer")  # what was answered last is still shown
    assert window.run(f"return {ANSWER}") == answer


@pytest.mark.medium
def test_the_story_is_told_of_one_layer_and_post_norm_and_without_weights_and_evidence(window: Any, case: Any) -> None:
    window.open(explain(make_model(3, n_heads=1), "a", weights=True, num_beams=2, max_new_tokens=1), "story")
    assert "has one layer" in why(window)
    for at in range(N_QUESTIONS + 1):
        window.press(f"question-{at}")
        assert words(window)
    small = without_weights(explain(case.model, case.text, evidence=False, num_beams=1))
    window.open(small, "story")
    assert "does not include the weights of the model" in window.text(".story")
    for at in range(N_QUESTIONS + 1):
        window.press(f"question-{at}")
        assert words(window)
    window.press("question-4")
    assert "does not include the weights" in words(window)
    assert window.page.locator(".story figure").count() >= 1


@pytest.mark.medium
def test_two_heads_do_different_things_and_what_breaks_is_as_in_python(window: Any, case: Any, trace: Trace) -> None:
    """In Python the answer is the gold target of the edited model."""
    rows = [(row, token.id) for row, token in enumerate(trace.tokens.target_out)]

    def scores(edits: list[str]) -> np.ndarray:
        found = explain(case.model, case.text, target=trace.translation, edits=edits, num_beams=1)
        return np.array([found.array("gold.log_probs")[row, token] for row, token in rows])

    names = [(name, head) for name in attentions(trace) for head in range(trace.axes["head"].length)]
    falls = {(name, head): scores([]) - scores([f"head {name} {head} off"]) for name, head in names}
    most = max(falls, key=lambda each: falls[each].sum())
    window.open(trace, "story?question=4")
    window.page.wait_for_selector(READY)
    name, head = most
    side, layer, kind = name.split(".")
    row = int(falls[most].argmax())
    before, after = (float(np.exp(score)) for score in (scores([])[row], scores([])[row] - falls[most][row]))
    assert f"Head {head + 1} of {side} layer {int(layer) + 1} of 2, {kind}-attention" in words(window)
    assert f"in step {row} falls from {percent(before)} to {percent(after)}" in words(window)
    titles = window.all(".story figure figcaption", "each.firstChild.textContent")
    assert len(titles) == len(set(titles)) == 2
    found = window.run(
        "const { headsOfAnswer } = await import('glassbox/story/needed.js');"
        "const { App } = await import('glassbox/shell/app.js');"
        "const app = new App(JSON.parse(document.getElementById('trace').textContent));"
        "while (!headsOfAnswer(app)) await new Promise((resolve) => setTimeout(resolve, 20));"
        "return headsOfAnswer(app).heads.map(({ name, head, falls }) => [name, head, falls]);"
    )
    assert {(name, head) for name, head, _ in found} == set(falls)
    for name, head, given in found:
        assert given == pytest.approx(falls[name, head].tolist(), abs=2e-4)


def test_the_checkpoints_are_right_wrong_and_right_again(window: Any, trained: Trace) -> None:
    assert trained.training is not None
    window.open(trained, "story?question=6")
    assert "right answer" in words(window) or "final answer" in words(window)
    answers = [replace(one, text=text) for one, text in zip(
        trained.training.checkpoints, (trained.translation, "hi", trained.translation), strict=True)]  # fmt: skip
    training = replace(trained.training, checkpoints=answers)
    plain = replace(trained, target=None, tokens=replace(trained.tokens, gold=None, gold_in=None), training=training)
    assert "its weights are" not in words(window)
    metrics = {**plain.provenance.metrics, "chosen": "the mean of the last 3 validations"}
    plain = replace(plain, provenance=replace(plain.provenance, metrics=metrics))
    window.open(plain, "story?question=6")
    assert "none of them: its weights are the mean of the last 3 validations." in words(window)
    assert "It is right after 10 steps of training, wrong after 50 (“hi”), and right again after 100." in words(window)
    window.open(replace(plain, training=None), "story?question=6")
    assert "--html FILE" in words(window)


def test_the_rival_is_the_answer_with_the_highest_score(window: Any, trace: Trace) -> None:
    best, *others = trace.search.beam.answers
    expected = max((one for one in others if one.text != best.text), key=lambda one: one.score)
    window.open(trace, "story?question=7")
    assert f"Beam search has {trace.search.beam.num_beams} places" in words(window)
    places = re.search(r"The (\d) places after step \d+: (\d) with .*?, (\d) with .*?, (\d) with", words(window))
    assert places
    assert int(places[1]) == sum(int(places[i]) for i in (2, 3, 4))
    found = re.search(
        f"score \\(log-probability\\) of (.+?). The best other answer is “{expected.text}”, with (.+)\\.", words(window)
    )
    assert found
    scores = [float(score.replace("−", "-")) for score in found.groups()]
    assert scores == pytest.approx([best.score, expected.score], rel=0.001)
    document = json.loads(trace.dumps())
    document["search"]["beam"]["answers"] = document["search"]["beam"]["answers"][:1]
    window.open(document, "story?question=7")
    dropped = max((node for node in trace.search.beam.nodes if node.state == "pruned"), key=lambda node: node.sum)
    assert f"It was dropped in step {dropped.step}:" in words(window)


def test_the_surest_wrong_answer_is_beside_the_text_with_the_right_one(window: Any, case: Any, trace: Trace) -> None:
    plain = replace(trace, target=None, tokens=replace(trace.tokens, gold=None, gold_in=None))
    sure = explain(case.model, "gab", num_beams=3)
    wrong = [
        WrongAnswer("abc", "hij", "hj", -90.0),
        WrongAnswer("gab", "hijk", sure.translation, sure.search.beam.answers[0].score),
    ]
    window.open(replace(plain, errors=Errors(90, 2, wrong)), "story?question=8")
    window.page.wait_for_selector(READY)
    assert "Of 90 held-out rows, 2 are answered wrong." in words(window)
    found = re.search("“gab” became “(.+)”, with a score of (.+). Right is “hijk”", words(window))
    assert found
    assert found[1] == sure.translation
    assert float(found[2].replace("−", "-")) == pytest.approx(wrong[1].score, rel=0.001)
    rows = window.all(".story-card th", "each.textContent")
    assert rows.count("text") == rows.count("answer") == 3
    shown = window.text(".story-card")
    assert shown.count("✗ right is") == shown.count("✗ right is “hijk”") == 1
    assert f"score {found[2]}" in shown  # computed by this page
    assert len(window.all(".story-token.changed", "each.textContent")) >= 1


def test_the_gold_target_is_not_that_of_an_edited_text(window: Any, trace: Trace) -> None:
    window.open(trace, "story?question=8")
    window.page.wait_for_selector(READY)
    assert "This answer is wrong" in words(window)
    assert window.text(".story-card").count("✗ right is “hij”") == 1
    window.go(f"{window.report}#story?question=8&edit=token+1%3Dg")
    window.page.wait_for_selector(".edited .pill")
    window.page.wait_for_selector(READY)
    assert "right is" not in window.text(".story-card")
    assert "No wrong answer is known here" in words(window)


def test_every_term_has_its_meaning_one_press_away(window: Any, trace: Trace) -> None:
    window.open(trace, "story?question=3")
    terms = window.all(".story-words .term", "each.textContent.toLowerCase()")
    assert {"query", "key", "value", "head", "layer", "softmax", "token", "decoder"} <= set(terms)
    assert len(terms) == len(set(terms))  # each one once
    window.page.click(".term:text-is('query')")
    assert window.text(".meaning:popover-open").startswith("query: What a position looks for")
    window.page.keyboard.press("Escape")
    assert window.page.locator(".meaning:popover-open").count() == 0


@pytest.mark.medium
def test_figures_and_matrices_are_saved_as_svg(window: Any, trace: Trace) -> None:
    window.open(trace, "story?question=3")
    picture = window.saved(".story-card [data-key^='svg-']")
    assert picture.startswith("<svg")
    assert "class=" not in picture
    assert 'fill="rgb' in picture
    window.panel("attention")
    window.press("head-1")
    name = "decoder.1.cross.weights"
    matrix = ElementTree.fromstring(window.saved(f"[data-stage='{name}'] [data-key^='svg-']"))
    texts = [each.text for each in matrix.iter(f"{SVG}text")][-trace.array(name)[1].size :]
    numbers = [float(text.replace("·", "0").replace("−", "-")) for text in texts]
    assert numbers == pytest.approx(trace.array(name)[1].ravel().tolist(), abs=6e-3)
    assert "rgb(47, 127, 214)" in {each.get("fill") for each in matrix.iter(f"{SVG}path")}
    assert window.page.locator(".heatmap-box.visually-hidden").count() == 0
    for panel in ("attention", "search", "space", "alignment"):
        window.panel(panel)
        assert window.page.locator("#panel [data-key^='svg-']").count() >= 1, panel


def test_candidates_of_the_beam_have_their_log_probabilities(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    for node in document["search"]["beam"]["nodes"]:
        node["sum"] = min(node["sum"], float(np.log(4.3e-7)))
    window.open(document, "story?question=7&row=0")
    labels = window.all(".candidates span", "each.textContent")
    assert labels
    assert all(label.startswith("−14.659 ") for label in labels), labels


@pytest.mark.medium
def test_no_label_of_a_picture_is_cut_off(window: Any, trace: Trace) -> None:
    """By the picture, and by the card that it is in, unless the caption says that it is wider."""
    document = json.loads(trace.dumps())
    for node in document["search"]["beam"]["nodes"]:
        node["text"] = "letters"
    window.open(document, "story")
    for width, at in product((1280, 390), range(N_QUESTIONS + 1)):
        window.page.set_viewport_size({"width": width, "height": 844})
        window.press(f"question-{at}")
        window.page.wait_for_selector(READY)
        outside = """[...each.querySelectorAll('text')].filter((text) => {
          const [one, all, card] = [text, each, each.closest('.scroller')].map((part) => part.getBoundingClientRect());
          const isWide = each.closest('figure').textContent.includes('scroll it sideways');
          return (one.right > card.right && !isWide) || one.left < all.left - 1 || one.right > all.right + 1
            || one.top < all.top - 1 || one.bottom > all.bottom + 2;
        }).map((text) => text.textContent)"""
        assert not any(window.all(".story svg:not(.heat, .paper)", outside)), (width, at)


def test_of_a_long_text_the_figure_shows_what_is_around_the_step(window: Any) -> None:
    words = [" ".join(f"word{i}" for i in range(60))]
    model = make_model(5, "words", texts=(words, words))
    window.page.set_viewport_size({"width": 390, "height": 844})
    window.open(explain(model, words[0], weights=True, num_beams=1, max_new_tokens=50), "story?row=0")
    assert window.run("return document.documentElement.scrollWidth") <= 390
    for row in (0, 30, 49):
        window.run(SCRUB, row)
        assert window.all(".paper .out.here", "Number(each.dataset.step)") == [row]
        shown = window.all(".paper .out", "each.getBoundingClientRect().right")
        assert 1 < len(shown) < 30
        assert max(shown) <= 390
        assert any("more" in text for text in window.all(".paper .more", "each.textContent"))


def test_the_gold_text_in_other_subwords_is_not_called_different(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    document["target"] = trace.translation
    document["tokens"]["gold"] = document["tokens"]["target_out"][::-1]
    window.open(document, "story?question=8")
    assert "✓ equal" in window.text("dl.answer")
    assert "is wrong" not in words(window)
    assert "gives this answer a score (log-probability) of −" in words(window)


def test_the_opening_says_what_must_be_known_of_the_answer(window: Any, trace: Trace) -> None:
    document = json.loads(trace.dumps())
    document["search"]["beam"]["answers"][0]["finished"] = False
    document["confidence"] = 0.25
    window.open(document, "story")
    assert f"Cut off at {document['search']['beam']['max_new_tokens']} tokens" in words(window)
    assert "confidence, calibrated on held-out rows, is 25" in why(window)
    assert not window.page.is_visible("dl.answer")


@pytest.mark.medium
def test_a_page_around_this_one_keeps_the_keyboard(window: Any, trace: Trace) -> None:
    """Space and PageDown scroll the site, whose first page has this one in a frame."""
    window.open(trace, "story")
    around = window.path.with_name("around.html")
    around.write_text(f'<title>around</title><iframe src="{window.path.name}"></iframe>', "utf-8")
    window.go(around.as_uri())
    window.page.frame_locator("iframe").locator("body[data-checked='true']").wait_for()
    assert window.run("return document.activeElement.tagName") == "BODY"
    window.page.goto(f"{window.report}#story")
    window.settle()


def test_the_link_has_what_is_typed_before_it_is_answered(window: Any, case: Any) -> None:
    window.open(explain(case.model, "abcde", weights=True, num_beams=3), "story?question=1")
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.page.fill("[name=text]", "gab cd")
    window.press("copy-link")
    window.page.wait_for_selector(".copied:has-text('copied'), .copied input")
    copied = window.run("return document.querySelector('.copied input')?.value ?? navigator.clipboard.readText()")
    assert "text=gab+cd" in copied
    assert "gab" not in window.page.url


def test_the_screens_of_the_lecture_have_the_numbers_of_this_text(window: Any, case: Any) -> None:
    trace = explain(case.model, "abbde", weights=True, num_beams=3)
    window.open(trace, "story?question=1&row=1&column=2")
    assert f"is split into {len(trace.tokens.source)} tokens" in words(window)
    assert "“b” is at the positions 2 and 3: one embedding, but 2 different rows." in words(window)
    cells = window.all(".story-strip", "[...each.querySelectorAll('.cells span')].map((one) => one.textContent)")
    rows = [trace.array(f"source.{name}")[2] for name in ("embedded", "scaled", "positions", "input")]
    assert [[float(cell.replace("−", "-")) for cell in row] for row in cells] == [
        pytest.approx(row[: len(cells[0])].tolist(), abs=0.006) for row in rows
    ]
    window.press("question-2")
    assert "Here is layer" in words(window)
    layer = re.search(r"layer (\d) of 2 of the decoder, in step 1", words(window))
    assert layer
    name = f"decoder.{int(layer[1]) - 1}"
    formula = re.search(
        r"here: \(*(\S+?)\)? − \(?(\S+?)\)\)? ÷ (\S+) × \(?(\S+?)\)? \(γ\) \+ \(?(\S+?)\)? \(β\) ≈ (\S+)\.",
        words(window),
    )
    assert formula
    x, mu, deviation, gamma, beta, output = (float(text.replace("−", "-").strip("()")) for text in formula.groups())
    assert (x - mu) / deviation * gamma + beta == pytest.approx(output, abs=0.01)
    lines = window.all(".story-line strong", "each.textContent")
    sublayers = ("masked self-attention", "cross-attention", "feed-forward")
    assert lines == ["the row", *(title for name in sublayers for title in ("norm", name, "add"))]
    last = window.all(".story-line:last-of-type .cells span", "each.textContent")
    numbers = trace.array(f"{name}.feed_forward.residual")[1][: len(last)].tolist()
    assert [float(text.replace("−", "-")) for text in last] == pytest.approx(numbers, abs=0.06)
    weights = trace.array(f"{name}.cross.weights")[:, 1].mean(axis=0)
    assert f"{percent(weights.max())} (mean of 2 heads) on" in " ".join(window.all(".story-line", "each.textContent"))
    n_steps = trace.array(f"{name}.self.weights").shape[-1]
    (strokes,) = window.all(".story path.masked", "each.getAttribute('d')")
    assert strokes.count("l") == n_steps * (n_steps - 1) // 2
    rows = window.all(".story .heatmap .label[text-anchor='end']", "each.textContent")
    assert [text.split(":")[0] for text in rows] == [str(step) for step in range(n_steps)]
    window.page.set_viewport_size({"width": 390, "height": 844})  # one paragraph, the picture, the other words
    order = (".story h2", ".story-words p", ".story .story-card", ".story-words p + p", ".story .heatmap-box", ".proof")
    tops = [top for top, *_ in boxes_of(window, order)]
    assert tops == sorted(tops)
    window.page.set_viewport_size({"width": 1440, "height": 900})
    (words_top, _, _, words_right), (card_top, card_left, _, _) = boxes_of(
        window, (".story-words", ".story .story-card")
    )
    assert words_right <= card_left
    assert abs(words_top - card_top) < 30
    window.press("question-4")
    labels = window.all(".story .heatmap .label[text-anchor='end']", "each.textContent")
    assert labels
    assert all(re.match(r"\d+: ", text) for text in labels), labels


@pytest.mark.medium
def test_next_is_at_the_same_place_on_every_screen_and_none_is_too_wide(window: Any, trained: Trace) -> None:
    for width in (390, 1440):
        window.page.set_viewport_size({"width": width, "height": 844})
        window.open(trained, "story")
        places = []
        for _ in range(N_QUESTIONS):
            box = window.page.locator("[data-key='story-next']").bounding_box()
            places.append((box["x"], box["y"]))
            assert window.run("return document.documentElement.scrollWidth - innerWidth") <= 0
            window.press("story-next")
            assert window.run("return scrollY") == 0
        assert len(set(places)) == 1, places


@pytest.mark.medium
def test_with_a_difference_every_panel_shows_it_or_says_which_text_it_shows(window: Any, trace: Trace) -> None:
    window.open(trace, "whatif")
    window.press("toggle-positions off")
    window.page.wait_for_selector("[data-side='after']")
    window.press("compare-difference")
    for name in window.panels:
        window.panel(name)
        stages = window.all("#panel .stage:has(.matrix) h2", "each.textContent")
        assert all(title.endswith("after − before") for title in stages), name
        expected = "The matrices have after − before." if stages else "This panel shows the text before the edits."
        said = window.all("#panel .compared", "each.textContent")
        assert [text.startswith(expected) for text in said] == [True] * (name not in OF_NO_TEXT), name
    window.panel("attention")
    assert window.page.locator("#panel .product").count() == 0
    window.page.click("#panel td[data-cell]")
    assert "before the edits" in window.text("#inspector .part")
