"""Where the page is read: phones to 4k, 200 % zoom, dark, and on paper."""

from __future__ import annotations

import re
from typing import Any

import pytest

from glassformer.glassbox.schema import Trace

pytestmark = pytest.mark.browser

# What a control hides of another one, what is cut without "…", what leaves the window, and names in figure 1 that are
# too small or crossed by a line
FAULTS = """
const shown = (each) => each.checkVisibility() && each.getClientRects().length;
const box = (each) => each.getBoundingClientRect();
const found = [];
const controls = [...document.querySelectorAll('button, input, select, a')].filter(shown);
const scrolled = (each) => each.closest('.scroller, .track, #tabs, .map, #map, #inspector, dl, .lines') !== null;
for (const each of controls.filter((one) => !scrolled(one) && !one.closest('.skip, svg') && one.id !== 'skip')) {
  const { left, right } = box(each);
  if (left < -1 || right > innerWidth * 1.001 + 1) found.push(`outside: ${each.outerHTML.slice(0, 120)}`);
}
for (const one of controls) {
  for (const other of controls) {
    if (one === other || one.parentElement !== other.parentElement || one.closest('svg')) continue;
    const [a, b] = [box(one), box(other)];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 2 && down > 2) found.push(`overlap: ${one.textContent} / ${other.textContent}`);
  }
}
for (const each of document.querySelectorAll('h1, h2, h3, p, dt, dd, li, th, td, label, button, figcaption, small')) {
  const style = getComputedStyle(each);
  if (!shown(each) || style.clipPath !== 'none' || each.closest('.visually-hidden, .skip, svg')) continue;
  const isCut = each.scrollWidth > each.clientWidth + 2 && each.clientWidth > 0;
  if (isCut && ['hidden', 'clip'].includes(style.overflowX) && style.textOverflow !== 'ellipsis')
    found.push(`cut: ${each.tagName}.${each.className} ${each.textContent.slice(0, 40)}`);
}
const inPaper = (selector) => [...document.querySelectorAll(`.paper ${selector}`)]
  .filter((each) => each.checkVisibility({ opacityProperty: true, visibilityProperty: true }));
for (const text of inPaper('text')) {
  const { a, b } = text.getScreenCTM();
  const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
  if (size < 8.9) found.push(`small: ${text.textContent}, ${size} px`);
}
const names = inPaper(':is(.stack, .band text, .odds text)').filter((each) => !each.closest('.small')).map(box);
for (const line of inPaper('.strand')) {
  for (let at = 0; at < line.getTotalLength(); at += 4) {
    const { x, y } = line.getPointAtLength(at).matrixTransform(line.getScreenCTM());
    if (names.some(({ left, right, top, bottom }) => x > left && x < right && y > top && y < bottom))
      found.push(`crossed by ${line.dataset.line}`);
  }
}
const isLow = document.documentElement.scrollHeight > innerHeight + 1 && innerHeight > 700;
if (isLow && document.body.matches('.opening')) found.push('the first screen is taller than the window');
return [...new Set(found)];
"""


@pytest.mark.parametrize(("width", "height"), [(640, 400), (3840, 2160)])
def test_header_steps_and_inspector_fit_the_window(window: Any, trace: Trace, width: int, height: int) -> None:
    """On large screens the page is enlarged, and at 200 % zoom it is half as large: what stays in sight still fits."""
    window.page.set_viewport_size({"width": width, "height": height})
    window.open(trace, "attention")
    window.page.click("[data-stage='decoder.1.cross.weights'] td[data-cell]")
    assert "decoder layer 2 of 2, cross-attention" in window.text("#inspector")
    box = window.page.locator("#inspector").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width + 1
    assert box["y"] + box["height"] <= height + 1
    if width == 3840:
        steps = window.page.locator("#steps").bounding_box()
        assert steps["y"] + steps["height"] <= height + 1
        assert box["y"] + box["height"] <= steps["y"] + 1
        letters = window.run("return document.querySelector('h1').getBoundingClientRect().height")
        assert letters > 30


@pytest.mark.medium
def test_paper_is_white_and_as_wide_as_its_figures(window: Any, trained: Trace) -> None:
    window.page.emulate_media(color_scheme="dark")
    window.page.set_viewport_size({"width": 1800, "height": 900})
    window.open(trained, "attention")
    columns = "[data-stage='decoder.1.cross.output'] tbody tr:first-child td"
    on_screen = window.page.locator(columns).count()
    window.page.emulate_media(media="print", color_scheme="dark")
    assert window.page.locator(columns).count() <= on_screen
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert window.run(ground) == "rgb(255, 255, 255)"
    for control in ("#tools", "#tabs", "#map", "#steps", "#ask", ".save"):
        assert not window.page.locator(control).first.is_visible(), control
    assert window.page.locator("[data-key='attention']").is_visible()  # which attention it is
    window.page.emulate_media(media="null")
    assert window.page.locator("#tabs").is_visible()
    # A matrix is as wide as the paper before the browser measures it: with a wider one it prints everything smaller
    window.page.set_viewport_size({"width": 390, "height": 844})
    count = f"document.querySelectorAll(`{columns}`).length"
    assert window.run(f"return {count}") < 8
    window.run(f"addEventListener('beforeprint', () => {{ window.printed = {count}; }}, {{ once: true }});")
    window.page.pdf(format="A4")
    assert window.run("return window.printed") == 8
    assert window.run(f"return {count}") < 8  # and on the screen again


@pytest.mark.medium
def test_a_printed_figure_has_a_page_of_its_own(window: Any, trained: Trace) -> None:
    def pages() -> int:
        return len(re.findall(rb"/Type\s*/Page\b(?!s)", window.page.pdf(format="A4")))

    window.open(trained, "story")
    assert pages() == 1
    window.panel("training")
    window.settle()
    charts = window.page.locator(".chart").count()
    assert charts == 4
    assert charts <= pages() <= charts + 1
    window.panel("attention")
    window.settle()
    matrices = window.page.locator("#panel .stage:has(.matrix)").count()
    assert matrices <= pages() <= matrices + 1
    window.panel("search")
    window.page.emulate_media(media="print")
    assert window.all(".so-far", "getComputedStyle(each).overflow") == ["visible"]  # nothing of it is cut off
    window.page.emulate_media(media="null")


def test_the_beam_width_has_a_label_that_is_seen(window: Any, trace: Trace) -> None:
    window.open(trace)
    label = window.page.locator("#ask label:has([name='beams']) > span")
    assert label.inner_text() == "beam width"
    for width in (1440, 1024, 768, 390):
        window.page.set_viewport_size({"width": width, "height": 800})
        field, box, text = (
            found.bounding_box()
            for found in (window.page.locator("[name='beams']"), label, window.page.locator("[name='text']"))
        )
        assert box["width"] > 50
        assert box["x"] + box["width"] <= field["x"]
        assert abs(box["y"] + box["height"] / 2 - field["y"] - field["height"] / 2) < 4
        assert text["width"] > 110
        assert text["y"] == field["y"]  # in one line


@pytest.mark.medium
def test_the_matrix_of_a_panel_is_in_sight_without_scrolling(window: Any, trace: Trace) -> None:
    window.page.set_viewport_size({"width": 1280, "height": 800})
    window.open(trace)
    for name in ("embedding", "qkv", "attention", "norm", "heads", "search", "alignment", "logits"):
        window.panel(name)
        parts = "#panel table, #panel .picture, #panel .tree svg, #panel .heatmap, #panel .bars"
        assert min(window.all(parts, "each.getBoundingClientRect().top")) < 560, name


@pytest.mark.medium
@pytest.mark.parametrize("size", ["2000", "3840"])
def test_a_wide_window_has_columns_and_the_story_is_in_the_middle(window: Any, measured: Trace, size: str) -> None:
    window.page.set_viewport_size({"width": int(size), "height": int(size) * 9 // 16})
    window.open(measured, "story")
    left, right, middle = window.run(
        """const [map, story] = ['#map', '.story'].map((each) => document.querySelector(each).getBoundingClientRect());
        return [story.left - map.right, innerWidth - story.right, story.width];"""
    )
    assert left == pytest.approx(right, abs=30)
    assert middle > 1000
    window.panel("attention")
    boxes = window.all(
        "#panel .stage", "['left', 'right', 'top', 'bottom'].map((k) => each.getBoundingClientRect()[k])"
    )
    (first, end, top, _), (second, last, beside, scale_end), (third, _, scaled, _) = boxes[:3]
    assert end < second == third
    assert top == beside  # the scale is one number
    assert scale_end < scaled < scale_end + 40
    assert last > int(size) * 0.95
    assert end - first == pytest.approx(last - second, abs=1)
    for card in window.all("#panel .stage .scroller", "each.scrollWidth - each.clientWidth"):
        assert card <= 1
    window.panel("heads")
    lefts = window.all("#panel > section", "Math.round(each.getBoundingClientRect().left)")
    assert len(set(lefts)) == {"2000": 2, "3840": 3}[size]
    window.panel("attention")
    window.page.click("#panel td[data-cell]")
    lefts = window.all("#panel .stage", "Math.round(each.getBoundingClientRect().left)")
    assert len(set(lefts)) == {"2000": 1, "3840": 2}[size]  # the inspector takes the place of a column
