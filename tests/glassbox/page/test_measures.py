"""Logits with sampling settings, training through time, errors by kind, the embedding map, and matrices as pictures."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.run_records import Errors, WrongAnswer
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_model

pytestmark = pytest.mark.browser

COUNTS = "[each.dataset.kind, Number(each.querySelector('h2').textContent.split(': ').at(-1))]"
SET = """const input = document.querySelector(`[data-key='${given[0]}']`);
input.value = given[1]; input.dispatchEvent(new Event('input')); input.dispatchEvent(new Event('change'));"""
BARS = """[...document.querySelectorAll('.distribution li')].map((each) => [Number(each.dataset.token),
  parseFloat(each.querySelector('i').style.getPropertyValue('--fraction')) / 100,
  each.querySelector('i').classList.contains('cut')])"""


def sampled(logits: np.ndarray, temperature: float, top_p: float) -> np.ndarray:
    powers = np.exp((logits - logits.max()) / temperature)
    found: np.ndarray = powers / powers.sum()
    order = np.argsort(-found)
    dropped = order[1:][np.cumsum(found[order])[:-1] >= top_p]
    found[dropped] = 0
    return found / found.sum()


def test_the_bars_of_the_logits_are_those_of_sampling_on_both_scales_and_after_each_layer(
    window: Any, trace: Trace
) -> None:
    window.open(trace, "logits")
    logits = trace.array("logits")[0].astype(float)
    for temperature, top_p in ((1, 1), (0.5, 1), (2, 0.6), (0.1, 0.3)):
        window.run(SET, ["temperature", temperature])
        window.run(SET, ["top-p", top_p])
        expected = sampled(logits, temperature, top_p)
        for token, fraction, is_cut in window.run(f"return {BARS}"):
            assert fraction == pytest.approx(expected[token], abs=1e-4)
            assert is_cut == (expected[token] == 0)
        kept = int((expected > 0).sum())
        assert f"draws from {kept} of {len(logits)} tokens" in window.text("[aria-label='predictions']") or (
            kept == len(logits)
        )
    assert window.run("return document.activeElement !== null")
    for name in ("temperature", "top-p"):
        window.run(SET, [name, 1])
    window.press("scale-log")
    expected = sampled(logits, 1, 1)
    bars = window.run(f"return {BARS}")
    decades = int(re.search(r"10−(\d+)", window.text("[aria-label='predictions']"))[1])
    assert 10**-decades < min(expected[token] for token, _, _ in bars)
    for token, fraction, _ in bars:
        assert fraction == pytest.approx(1 + np.log10(expected[token]) / decades, abs=1e-3)
        assert fraction > 0
    cells = window.all(".lens-cell", "each.title")
    pieces = trace.axes["target_vocabulary"].labels
    expected = []
    for x in (trace.array("logits").astype(float), trace.array("decoder.0.lens.logits").astype(float)):
        for logits, token in zip(x, trace.tokens.target_out, strict=True):
            best = int(logits.argmax())
            after = "" if best == token.id else ", not the output token"
            probability = f"{100 * sampled(logits, 1, 1)[best]:.1f}\u00a0%"
            expected.append(f"{pieces[best].replace(' ', '␣')}: {probability}{after}")
    assert cells == expected


def test_the_charts_follow_the_checkpoint_and_a_log_loss_is_a_straight_line_where_it_is_a_power(
    window: Any, trained: Trace
) -> None:
    window.open(trained, "training")
    marks = "return [...document.querySelectorAll('.chart')].map((each) => Number(each.dataset.mark))"
    assert window.run(marks) == [100] * 4
    window.run(SET, ["checkpoint", 1])
    assert window.run(marks) == [50] * 4
    assert "step 50: hi" in window.text(".then")
    chart = window.page.locator(".chart svg").first
    chart.click(position={"x": chart.bounding_box()["width"] * 0.16, "y": 60})
    assert window.run(marks) == [10] * 4
    assert "hhh" in window.text(".then")
    places = """const points = document.querySelector('.chart polyline').getAttribute('points');
    return points.split(' ').map((one) => Number(one.split(',')[1]));"""
    linear = window.run(places)
    assert window.all(".chart text", "each.textContent")[:6] == ["0", "1", "2", "3", "4", "20"]  # round numbers
    window.press("loss-log")
    log = window.run(places)
    losses = np.log([4 / step for step in range(1, 101)])
    lowest, highest = np.log(3 / 100), np.log(4)
    expected = log[0] + (highest - losses) / (highest - lowest) * (190 - 38 - 10)
    assert log == pytest.approx(list(expected), abs=0.2)
    assert linear != log


WRONG = (
    ("gold 1833", "gold 183", "a doubled digit was dropped"),
    ("May 11", "May 1", "a doubled digit was dropped"),
    ("hij", "hj", "a letter was dropped"),
    ("hij", "hiij", "a letter was repeated"),
    ("hij", "hixj", "a letter was added"),
    ("hij", "hkj", "a letter was replaced"),
    ("hij", "h1j", "a letter was replaced by a digit"),
    ("hij", "hji", "two neighboring letters were swapped"),
    ("h, i", "h i", "a punctuation mark was dropped"),
    ("h i", "hi", "a space was dropped"),
    ("hijklm", "hij", "the end is missing"),
    ("one two three", "one zzz three", "one word is wrong"),
    ("one two three", "one tw thre", "two characters are wrong"),
    ("hij", "mmmmm", "one word is wrong"),
    ("a b c d", "d c b a x", "more than two characters are wrong"),
)


PROSE = (
    ("ein mann in einem hemd", "ein mann in hemd", "one word was dropped"),
    ("ein mann in einem hemd", "ein mann in einem roten hemd", "one word was added"),
    ("ein mann in einem hemd", "ein hund in einem hemd", "one word was replaced"),
    ("ein mann in einem hemd", "ein in mann einem hemd", "two neighboring words were swapped"),
    ("ein mann in einem hemd", "ein mann in", "the end is missing"),
    ("ein mann in einem hemd", "hemd ein mann in einem", "the words are in another order"),
    ("ein mann in einem hemd", "ein hund in roten hemd", "two words are wrong"),
    ("ein mann in einem hemd und ein hund", "der hund in einem kleid und ein hund", "three words or more are wrong"),
    ("ein mann in einem hemd", "zwei hunde", "half of the words or more are wrong"),
)


def test_errors_of_prose_are_compared_word_by_word(window: Any, trace: Trace) -> None:
    source = "abcdefg"  # characters that this model knows
    examples = [WrongAnswer(source, gold, answer, -1.0) for gold, answer, _ in PROSE]
    window.open(replace(trace, errors=Errors(100, len(PROSE), examples)), "errors")
    kinds = window.all("#panel [data-kind]", COUNTS)
    assert dict(kinds) == {kind: 1 for _, _, kind in PROSE}
    row = "section[aria-label='one word was replaced'] tbody tr"
    assert window.text(f"{row} td:nth-child(1)") == source
    assert [each.strip() for each in window.page.locator(f"{row} mark").all_inner_texts()] == ["mann", "hund"]
    assert window.text(f"{row} td:nth-child(3)").strip() == "ein hund in einem hemd"
    for width in (1440, 390):
        window.page.set_viewport_size({"width": width, "height": 900})
        boxes = window.all(f"{row} td", "each.getBoundingClientRect().width")
        assert min(boxes[:3]) > 180
        assert window.page.locator(row).bounding_box()["height"] < 90  # a few lines, not one for each syllable


@pytest.mark.medium
def test_errors_are_counted_by_kind_marked_inside_the_answer_and_opened_in_the_page_or_with_a_command(
    window: Any, trace: Trace
) -> None:
    examples = [WrongAnswer("abc", gold, answer, -1.0) for gold, answer, _ in WRONG]
    window.open(replace(trace, errors=Errors(100, 20, examples)), "errors")
    kinds = window.all("#panel [data-kind]", COUNTS)
    assert dict(kinds) == Counter(kind for _, _, kind in WRONG)
    counts = [count for _, count in kinds]
    assert counts == sorted(counts, reverse=True)  # the commonest first
    assert f"A doubled digit was dropped in 2 of {len(WRONG)}." in window.text("#panel")
    found = replace(trace, errors=Errors(100, 1, [WrongAnswer("cab", "May 1833", "Mai 183x", -1.0)]))
    window.open(found, "errors")
    gold, answer = window.page.locator(".diff").all()
    assert gold.locator("mark").all_inner_texts() == ["y", "3"]
    assert answer.locator("mark").all_inner_texts() == ["i", "x"]
    assert answer.inner_text() == "Mai␣183x"
    window.page.click("td button")
    window.page.wait_for_selector("dd:has-text('cab')")
    window.open(without_weights(found), "errors")
    window.page.click("td button")
    command = window.text("code.command")
    assert "--target 'May 1833'" in command
    assert "…" not in command


@pytest.mark.medium
def test_the_frame_of_an_overview_is_dragged(window: Any) -> None:
    window.open(explain(make_model(size=0.05, d_model=96, d_k=4), "abc", weights=True, num_beams=2), "embedding")
    card = "[data-stage='source.input']"
    box = window.page.locator(f"{card} .map").bounding_box()
    assert box["width"] >= window.page.locator(f"{card} .matrix").bounding_box()["width"] - 2
    first = "return Number(document.querySelector(given).dataset.cell.split(',').at(-1))"
    cell = f"{card} td[data-cell]"
    assert window.run(first, cell) == 0
    window.page.locator(f"{card} .map").scroll_into_view_if_needed()
    box = window.page.locator(f"{card} .map").bounding_box()
    middle = box["y"] + box["height"] / 2
    window.page.mouse.move(box["x"] + 10, middle)
    window.page.mouse.down()
    seen = []
    for part in (0.4, 0.6, 0.99):
        window.page.mouse.move(box["x"] + box["width"] * part, middle)
        seen.append(window.run(first, cell))
    window.page.mouse.up()
    assert seen == sorted(set(seen))
    assert window.all(cell, "each.dataset.cell")[-1].endswith(",95")
    assert "× 96; the table shows rows" in window.text(f"{card} .overview small")
    before = window.run(first, cell)
    window.page.locator(cell).first.focus()
    window.page.keyboard.press("ArrowLeft")
    assert window.run(first, cell) == before - 1


def test_a_matrix_has_a_legend_and_a_zero_is_a_dot(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    scores = trace.array("decoder.1.cross.scores")[0]
    text = window.text("[data-stage='decoder.1.cross.scores'] .legend")
    assert ("orange: below 0 · blue: above 0" in text) == bool((scores < 0).any())
    largest = float(np.abs(scores).max())
    assert f"{largest:.2f}"[:3] in text
    window.page.select_option("[data-key='attention']", "decoder.0.self")
    cell = window.page.locator("[data-stage='decoder.0.self.weights'] td[data-cell='0,0,1']")
    assert (cell.inner_text(), cell.get_attribute("aria-label")) == ("·", "0, masked: causal")
    assert "masked" in window.text("[data-stage='decoder.0.self.weights'] .legend")


@pytest.mark.medium
def test_numbers_outside_of_matrices_open_the_inspector(window: Any, trace: Trace) -> None:
    window.open(trace)
    for name in ("tokens", "norm", "logits", "search"):
        window.panel(name)
        number = window.page.locator("#panel button.number").first
        tensor, _, cell = number.get_attribute("data-pick").partition("@")
        number.click()
        assert window.value == float(trace.array(tensor)[tuple(map(int, cell.split(",")))]), name
        window.press("close")
    window.panel("alignment")
    window.page.focus("[data-evidence='occlusion'] .heatmap")
    for _ in range(2):  # to the first cell, and on
        window.page.keyboard.press("ArrowRight")
    window.page.keyboard.press("Enter")
    assert window.value == float(trace.array("evidence.occlusion")[0, 1])
    window.panel("space")
    window.press("inspect-embedding")
    assert window.page.locator("#inspector [data-tensor]").count() == 1
