"""The position table as a picture and its dot products, for sinusoids and for a learned table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.paper import reference
from tests.glassbox.conftest import make_model

pytestmark = pytest.mark.browser


def read(window: Any, table: str, which: int, cell: tuple[int, int]) -> str:
    """What the picture says of a cell under the pointer."""
    picture = window.page.locator(f"[data-table='{table}'] .heatmap").nth(which)
    picture.scroll_into_view_if_needed()
    plot, box = picture.locator(".ground").bounding_box(), picture.locator(".heat").first
    columns, rows = map(int, box.get_attribute("viewBox").split()[2:])
    x, y = ((cell[1] + 0.5) * plot["width"] / columns, (cell[0] + 0.5) * plot["height"] / rows)
    window.page.mouse.move(plot["x"] + x, plot["y"] + y)
    return str(window.page.locator(f"[data-table='{table}'] .heatmap-box output").nth(which).inner_text())


def number(text: str) -> float:
    return float(text.rpartition(": ")[2].replace("−", "-"))


@pytest.mark.medium
def test_the_table_of_sinusoids_and_its_dot_products_are_those_of_numpy(window: Any, trace: Trace) -> None:
    window.open(trace, "embedding")
    assert window.all("[data-table]", "each.dataset.table") == ["sinusoidal"]
    table = reference.sinusoids(100, 8)
    for cell in ((0, 1), (3, 0), (50, 5), (99, 7)):
        found = read(window, "sinusoidal", 0, cell)
        assert found.startswith(f"position {cell[0]}, feature {cell[1]}: ")
        assert number(found) == pytest.approx(table[cell], abs=6e-5)
    for cell in ((0, 0), (10, 90), (99, 3)):
        assert number(read(window, "sinusoidal", 1, cell)) == pytest.approx((table @ table.T)[cell], abs=6e-5)
    whole = window.run(
        """const { sinusoids, similarities } = await import('glassbox/panels/positiontable.js');
        return Array.from(similarities(sinusoids(100, 8, 10000)).numbers);"""
    )
    np.testing.assert_allclose(whole, (table @ table.T).ravel(), atol=1e-9)
    assert "mean of the diagonal: 4" in window.page.inner_text("[aria-label='position table']")


@pytest.mark.medium
def test_a_learned_table_is_next_to_sinusoids(window: Any) -> None:
    model = make_model(4, positions="learned", max_length=20, position_base=100.0)
    trace = explain(model, "abcd", weights=True, num_beams=2)
    window.open(trace, "embedding")
    assert window.all("[data-table]", "each.dataset.table") == ["learned", "sinusoidal"]
    for part in ("source", "target"):
        window.press(f"side-{part}")
        table = trace.array(f"{part}_positions.table").astype(float)
        for cell in ((0, 0), (7, 3), (19, 7)):
            assert number(read(window, "learned", 0, cell)) == pytest.approx(table[cell], abs=6e-5)
        assert number(read(window, "learned", 1, (5, 19))) == pytest.approx((table @ table.T)[5, 19], abs=6e-5)
    sines = reference.sinusoids(20, 8, 100.0)
    assert number(read(window, "sinusoidal", 0, (19, 2))) == pytest.approx(sines[19, 2], abs=6e-5)
    assert "The model has 20 rows" in window.page.inner_text("[aria-label='position table']")
    window.open(without_weights(trace), "embedding")
    length = len(trace.tokens.source)
    assert f"Learned table, positions 0 to {length - 1}" in window.page.inner_text("[data-table='learned']")
    assert "it has only the rows of this text" in window.page.inner_text("[aria-label='position table']")
