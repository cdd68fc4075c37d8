"""A token under the pointer or the focus is lit wherever it takes part."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.glassbox.schema import Trace

pytestmark = pytest.mark.browser

LIT = """const found = [...document.querySelectorAll(given)].filter((each) => each.classList.contains('glow'));
return found.map((each) => each.dataset.at);"""


@pytest.mark.medium
def test_a_cell_lights_its_row_and_its_column_and_a_selected_score_its_query_and_its_key(
    window: Any, trace: Trace
) -> None:
    window.open(trace, "attention")
    window.page.hover("[data-stage='decoder.1.cross.weights'] td[data-cell='0,1,2']")
    assert set(window.run(LIT, "#panel tr")) == {"t1"}
    assert set(window.run(LIT, "#panel thead th")) == {"s2"}
    matrices = ("scores", "scaled", "weights", "heads", "concatenated", "output")
    rows = [window.run(LIT, f"[data-stage='decoder.1.cross.{name}'] tbody tr") for name in matrices]
    assert rows == [["t1"]] * 6
    assert window.run(LIT, "#steps button") == ["t1"]
    window.page.hover("#header")
    assert window.run(LIT, "body *") == []
    window.page.click("[data-stage='decoder.1.cross.scores'] td[data-cell='0,1,3']")
    window.panel("qkv")
    partner = "return [...document.querySelectorAll(given)].findIndex((each) => each.classList.contains('partner'))"
    found = {
        kind: window.run(partner, f"[data-stage='decoder.1.cross.{kind}'] tbody tr") for kind in ("queries", "keys")
    }
    assert found == {"queries": 1, "keys": 3}
    window.press("head-1")
    assert window.page.locator("tr.partner").count() == 0


def test_the_focus_of_the_keyboard_lights_as_the_pointer_does_in_every_panel(window: Any, trace: Trace) -> None:
    window.open(trace, "qkv")
    window.page.mouse.move(2, 2)
    window.page.focus("[data-stage='decoder.1.cross.keys'] td[data-cell='0,0,0']")
    window.page.keyboard.press("ArrowDown")
    assert window.run(LIT, "[data-stage='decoder.1.cross.keys'] tr") == ["s1"]
    window.page.focus("#steps [data-row='2']")
    assert window.run(LIT, "[data-stage='decoder.1.cross.queries'] tr") == ["t2"]
    assert window.run(LIT, "[data-stage='decoder.1.cross.keys'] tr") == []
    window.panel("tokens")
    window.page.hover(".chip >> nth=2")
    assert window.run(LIT, "#panel *") == ["s2"]
    window.page.hover("#steps [data-row='1']")
    assert set(window.run(LIT, "#panel *")) == {"t1"}
    window.panel("alignment")
    window.page.hover("#steps [data-row='2']")
    assert window.run(LIT, "#panel .heatmap text") == ["t2"] * 2
