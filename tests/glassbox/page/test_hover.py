"""A token under the pointer or the focus is lit wherever it takes part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.schema import Trace

pytestmark = pytest.mark.browser

LIT = """const found = [...document.querySelectorAll(given)].filter((each) => each.classList.contains('glow'));
return found.map((each) => each.dataset.at);"""


def test_a_cell_lights_its_row_and_its_column_in_every_matrix(window: Any, trace: Trace, tmp_path: Path) -> None:
    window.open(trace, tmp_path, "attention")
    window.page.hover("[data-stage='decoder.1.cross.weights'] td[data-cell='0,1,2']")
    assert set(window.run(LIT, "#panel tr")) == {"t1"}
    assert set(window.run(LIT, "#panel thead th")) == {"s2"}
    matrices = ("scores", "scaled", "weights", "heads", "concatenated", "output")
    rows = [window.run(LIT, f"[data-stage='decoder.1.cross.{name}'] tbody tr") for name in matrices]
    assert rows == [["t1"]] * 6
    assert window.run(LIT, "#steps button") == ["t1"]
    window.page.hover("#header")
    assert window.run(LIT, "body *") == []


def test_the_focus_of_the_keyboard_lights_as_the_pointer_does(window: Any, trace: Trace, tmp_path: Path) -> None:
    window.open(trace, tmp_path, "qkv")
    window.page.mouse.move(2, 2)
    window.page.focus("[data-stage='decoder.1.cross.keys'] td[data-cell='0,0,0']")
    window.page.keyboard.press("ArrowDown")
    assert window.run(LIT, "[data-stage='decoder.1.cross.keys'] tr") == ["s1"]
    window.page.focus("#steps [data-row='2']")
    assert window.run(LIT, "[data-stage='decoder.1.cross.queries'] tr") == ["t2"]
    assert window.run(LIT, "[data-stage='decoder.1.cross.keys'] tr") == []
