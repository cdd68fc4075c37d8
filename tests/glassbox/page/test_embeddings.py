"""The embedding map: labels that are whole, and every token by the keyboard."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_model

pytestmark = pytest.mark.browser

WORDS = ["hello, my friend the ship sails tonight.", "morning evening good where is captain", "hello, captain"]


@pytest.fixture(scope="module")
def words() -> Trace:
    model = make_model(5, "words", texts=(WORDS, ["hallo, mijn vriend", "het schip vaart"]))
    return explain(model, "hello, my captain", weights=True, num_beams=2)


@pytest.fixture(scope="module")
def crowded() -> Trace:
    """Three tokens are at one place at the right edge, where the labels of two are hidden."""
    model = make_model(5, "words", texts=(WORDS, ["hallo, mijn vriend"]))
    ids = [model.source_tokenizer.vocabulary.lookup(token) for token in ("hello,", "tonight.", "captain")]
    rows = model.tensors["source_embedding.weight"]
    rows[:] = 0.0
    rows[:, 1] = np.linspace(-0.1, 0.1, len(rows))
    rows[ids, 0] = 9.0
    rows[ids, 1] = 0.0
    return explain(model, "hello,", weights=True, num_beams=2)


def test_labels_of_the_embedding_map_do_not_overlap(window: Any) -> None:
    many = [" ".join(f"word{i}" for i in range(first, first + 12)) for first in range(0, 96, 12)]
    model = make_model(5, "words", texts=(many, many))
    window.open(explain(model, "word1 word2", weights=True, num_beams=2), "space")
    boxes = window.all(
        ".point:not(.crowded) text",
        "['left', 'top', 'right', 'bottom'].map((side) => each.getBoundingClientRect()[side])",
    )
    assert len(boxes) > 20
    for (left, top, right, bottom), other in combinations(boxes, 2):
        assert min(right, other[2]) - max(left, other[0]) <= 3 or min(bottom, other[3]) - max(top, other[1]) <= 5


@pytest.mark.parametrize(("width", "name"), [(1280, "words"), (390, "words"), (1280, "crowded")])
def test_the_label_of_a_token_is_seen_and_not_cut_by_the_edge_of_the_map(
    window: Any, request: pytest.FixtureRequest, width: int, name: str
) -> None:
    """Also a label that is hidden until its token is pointed at."""
    window.page.set_viewport_size({"width": width, "height": 900})
    window.open(request.getfixturevalue(name), "space")
    outside = window.run(
        """const edge = document.querySelector('.plane svg').getBoundingClientRect();
        const found = [];
        for (const point of document.querySelectorAll('.point')) {
          point.focus();
          const text = point.querySelector('text');
          const [box, isHidden] = [text.getBoundingClientRect(), getComputedStyle(text).visibility === 'hidden'];
          const isCut = isHidden || box.left < edge.left || box.right > edge.right;
          if (isCut || box.top < edge.top || box.bottom > edge.bottom || box.height < 10) found.push(text.textContent);
        }
        return found;"""
    )
    assert outside == []
    labels = window.all(".point text", "each.textContent")
    assert {"hello,", "tonight."} <= set(labels)


def test_the_columns_of_a_small_matrix_have_whole_labels(window: Any, words: Trace) -> None:
    window.open(words, "alignment")
    labels = window.all("[data-evidence='attention'] text.label", "each.textContent")
    assert {token.text for token in words.tokens.source} <= set(labels)
    boxes = window.run(
        """const image = document.querySelector("[data-evidence='attention'] svg").getBoundingClientRect();
        return [...document.querySelectorAll("[data-evidence='attention'] text.label")].filter((each) => {
          const box = each.getBoundingClientRect();
          return box.left < image.left - 1 || box.right > image.right + 1 || box.top < image.top - 1; }).length"""
    )
    assert boxes == 0


def test_the_map_is_one_stop_for_tab_and_the_arrow_keys_reach_every_token(window: Any, words: Trace) -> None:
    window.open(words, "space")
    assert window.page.locator(".plane [tabindex='0']").count() == 1
    points = window.all(".point", "each.getAttribute('aria-label')")
    assert window.all(".plane [role='listbox'] > [role='option']", "each.getAttribute('aria-label')") == points
    window.page.focus(".plane [tabindex='0']")
    for back, on in (("ArrowLeft", "ArrowRight"), ("ArrowUp", "ArrowDown")):
        for _ in points:
            window.page.keyboard.press(back)
        seen = []
        for _ in points:
            seen.append(window.run("return document.activeElement.getAttribute('aria-label')"))
            window.page.keyboard.press(on)
        assert sorted(seen) == sorted(points)
    assert window.page.locator(".plane [tabindex='0']").count() == 1
    last = window.run("return document.activeElement.getAttribute('aria-label')")
    window.page.keyboard.press("Space")
    assert window.page.get_attribute(".point[aria-selected='true']", "aria-label") == last
    assert window.run("return document.activeElement.getAttribute('aria-label')") == last
    window.page.keyboard.press("Tab")
    assert window.run("return document.activeElement.closest('.plane svg')") is None
