"""The panel of heads: damage, entropy and kinds are those of the numbers, and they sort the tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.schema import Trace
from tests.glassbox.page.conftest import attentions

pytestmark = pytest.mark.browser

TILES = "[...document.querySelectorAll('.tile')].map((each) => ({ ...each.dataset }))"


def test_tiles_have_the_kind_and_entropy_of_the_weights_and_their_axes(window: Any, trace: Trace) -> None:
    window.open(trace, "heads")
    tiles = window.run(f"return {TILES}")
    names = [(name, head) for name in attentions(trace) for head in range(trace.axes["head"].length)]
    assert sorted(tile["head"] for tile in tiles) == sorted(f"{name} {head}" for name, head in names)
    for tile in tiles:
        name, head = tile["head"].split()
        weights = trace.array(f"{name}.weights")[int(head)].astype(float)
        entropy = -(weights * np.log(np.where(weights > 0, weights, 1))).sum(axis=1).mean()
        assert float(tile["entropy"]) == pytest.approx(entropy, abs=1e-5)
    assert "--heads TABLE" in window.text(".head-legend")
    assert window.page.locator("[data-key='sort-damage']").count() == 0
    tile_of = "[data-head='decoder.1.cross 0']"
    assert window.page.locator(f"{tile_of} .axis-down").inner_text() == "step ↓"
    assert window.page.locator(f"{tile_of} .axis-across").inner_text() == "source →"


def test_every_kind_is_found_where_it_is(window: Any, trace: Trace) -> None:
    window.open(trace, "heads")
    find = """const { kindOf } = await import('glassbox/model/headkinds.js');
    const { named } = await import('glassbox/core/numbers.js');
    const rows = given.weights.length, columns = given.weights[0].length;
    const x = named(['target', 'source_key'], [rows, columns], Float64Array.from(given.weights.flat()));
    return kindOf(x, given.isCross, [...'abca'], [...'cabx']).kind;"""
    eye = np.eye(4)
    first = np.tile(eye[0], (4, 1))
    kinds = {
        "previous": (np.roll(eye, -1, axis=1), False),
        "same": (eye, False),
        "first": (first, False),
        "copying": (np.array([[0, 0, 1, 0], [0.5, 0, 0, 0.5], [0, 1, 0, 0], [0, 1, 0, 0]]), True),
        "mixed": (np.full((4, 4), 0.25), False),
    }
    for kind, (weights, is_cross) in kinds.items():
        given = {"weights": weights.tolist(), "isCross": is_cross}
        assert window.run(find, given) == kind
    assert window.run(find, {"weights": first.tolist(), "isCross": True}) == "first"


def test_tiles_are_sorted_and_colored_by_damage(window: Any, measured: Trace) -> None:
    window.open(measured, "heads")
    assert "measured on 100 sources" in window.text(".head-legend")
    window.press("sort-damage")
    damage = [float(tile["damage"]) for tile in window.run(f"return {TILES}")]
    assert measured.heads is not None
    expected = sorted((90 - 100 * head.exact_match for head in measured.heads.heads), reverse=True)
    assert damage == pytest.approx(expected)
    levels = window.all(".tile .damage", "Number(/damage-(\\d)/.exec(each.className)[1])")
    assert levels == sorted(levels, reverse=True)
    assert levels[0] == 4
    window.press("sort-entropy")
    entropies = [float(tile["entropy"]) for tile in window.run(f"return {TILES}")]
    assert entropies == sorted(entropies)
    window.press("sort-kind")
    order = ["previous", "same", "first", "copying", "mixed"]
    kinds = [order.index(tile["kind"]) for tile in window.run(f"return {TILES}")]
    assert kinds == sorted(kinds)
