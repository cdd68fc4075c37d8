"""The inspector: it appears when a number is selected, its terms lead to their cells, Escape closes it."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.glassbox.schema import Trace

pytestmark = pytest.mark.browser

SCORE = "[data-stage='decoder.1.cross.scores'] td[data-cell='0,1,2']"
BOX = """const box = (selector) => document.querySelector(selector).getBoundingClientRect();
const [panel, inspector, cell] = [box('#panel'), box('#inspector'), box(given)];
return {panel: [panel.left, panel.right], inspector: [inspector.left, inspector.right, inspector.top, inspector.bottom],
  cell: [cell.left, cell.right, cell.top, cell.bottom]};"""


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_the_inspector_appears_next_to_the_panel_or_below_the_number_which_stays(
    window: Any, trace: Trace, width: int
) -> None:
    window.page.set_viewport_size({"width": width, "height": 800})
    window.open(trace, "attention")
    assert not window.page.locator("#inspector").is_visible()
    window.page.locator(SCORE).scroll_into_view_if_needed()
    before = window.run(BOX, SCORE)["cell"]
    window.page.click(SCORE)
    boxes = window.run(BOX, SCORE)
    left, right, top, bottom = boxes["inspector"]
    if width == 390:  # a sheet
        assert (left, right, round(bottom)) == (0, 390, 800)
        assert boxes["cell"][3] <= top + 1
        return
    assert 0 <= left < right <= width
    assert left >= boxes["panel"][1]
    assert 0 <= top < bottom
    assert 0 <= window.page.locator("#inspector [data-value]").bounding_box()["y"] < 700
    assert boxes["panel"][0] <= boxes["cell"][0] < boxes["cell"][1] <= boxes["panel"][1]
    if width == 1024:  # the panel becomes narrower
        assert boxes["cell"][2] == pytest.approx(before[2], abs=2)


def test_escape_closes_the_inspector_and_returns_to_the_number(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    window.page.click(SCORE)
    window.page.focus("#inspector .terms")
    window.page.keyboard.press("Escape")
    assert not window.page.locator("#inspector").is_visible()
    assert window.run("return document.activeElement.dataset.cell") == "0,1,2"
    window.panel("logits")
    number = window.page.locator(".distribution .number").nth(2)
    key = number.get_attribute("data-key")
    number.click()
    assert window.page.locator("#inspector .value").is_visible()
    window.page.keyboard.press("Escape")
    assert window.run("return document.activeElement.dataset.key") == key


def test_a_term_leads_to_its_cell(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    window.page.click(SCORE)
    window.page.locator("#inspector tr[data-term]").nth(1).locator("button").nth(1).click()
    assert window.text("h1") == "Q, K, V"
    chosen = window.page.locator("#panel td[aria-selected]")
    assert chosen.get_attribute("data-cell") == "0,2,1"
    assert chosen.locator("xpath=ancestor::*[@data-tensor]").get_attribute("data-tensor") == "decoder.1.cross.keys"
    assert window.run("return document.activeElement.dataset.cell") == "0,2,1"
    top, bottom = window.run(BOX, "#panel td[aria-selected]")["cell"][2:]
    assert 0 <= top < bottom <= 900
    assert window.value == float(trace.array("decoder.1.cross.keys")[0, 2, 1])
    window.press("head-1")
    window.page.click("[data-stage='decoder.1.cross.keys'] td[data-cell='1,0,2']")
    window.page.locator("#inspector tr[data-term]").nth(3).locator("button").nth(1).click()
    chosen = window.page.locator("#inspector td[aria-selected]")  # which no panel shows
    tensor = "decoder.1.cross_attention.w_k.weight"
    assert chosen.locator("xpath=ancestor::*[@data-tensor]").get_attribute("data-tensor") == tensor
    index = tuple(map(int, chosen.get_attribute("data-cell").split(",")))
    assert index == (1 * trace.axes["d_k"].length + 2, 3)
    assert window.value == float(trace.array(tensor)[index])


def test_a_score_has_its_place_its_terms_and_its_product(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    window.page.click(SCORE)
    inputs, outputs, source = (
        [token.text.replace(" ", "␣") for token in tokens]
        for tokens in (trace.tokens.target_in, trace.tokens.target_out, trace.tokens.source)
    )
    expected = f"head 1 · step 1: '{inputs[1]}' → '{outputs[1]}' · source 2: '{source[2]}'"
    assert window.text("#inspector .where") == expected
    assert window.page.get_attribute(SCORE, "title").startswith(expected)
    text = window.text("#inspector")
    assert "The dot product of each query with each key." in text
    assert "matmul" not in text
    window.page.click("#inspector .identifier summary")
    assert "matmul_transposed" in window.text("#inspector .identifier")
    assert "decoder.1.cross.scores" in window.text("#inspector .identifier")
    plain = window.all("#inspector [data-term]", "Number(each.dataset.term)")
    window.press("terms-size")
    ranked = window.all("#inspector [data-term]", "Number(each.dataset.term)")
    assert ranked == sorted(plain, key=abs, reverse=True) != plain
    assert len(ranked) == trace.axes["d_k"].length
    for total in (sum(ranked), float(window.page.get_attribute("#inspector [data-sum]", "data-sum"))):
        assert total == pytest.approx(float(trace.array("decoder.1.cross.scores")[0, 1, 2]), abs=1e-5)
    bars = window.all("#inspector .size-bar", "parseFloat(each.style.getPropertyValue('--fraction'))")
    assert bars == pytest.approx([abs(term) / abs(ranked[0]) * 100 for term in ranked])
    marks = """(kind) => { const mark = document.querySelector(`#inspector .product .spot.${kind}`);
      return ['x', 'y', 'width', 'height'].map((name) => Number(mark.getAttribute(name))); }"""
    width = trace.axes["d_k"].length
    for kind, place in (("left", [0, 1, width, 1]), ("right", [2, 0, 1, width]), ("result", [2, 1, 1, 1])):
        assert window.page.evaluate(marks, kind) == place
    assert window.all("#panel .product", "[each.dataset.row, each.dataset.column]")[0] == ["1", "2"]
    window.page.locator("#inspector .product .heat").nth(2).click(position={"x": 1, "y": 1})
    assert window.text("#inspector .where").startswith("head 1 · step 0")
