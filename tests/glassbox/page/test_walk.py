"""A walk through every screen of the story and every panel, by keyboard alone, in each window that people have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glassformer.glassbox.run_records import Errors, WrongAnswer
from glassformer.glassbox.schema import Trace
from tests.glassbox.page.conftest import compare
from tests.glassbox.page.test_sizes import FAULTS
from tests.glassbox.page.test_story import SCRUB

pytestmark = pytest.mark.browser
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

VIEWS = {"attention": "view-mistakes", "search": "search-greedy", "heads": "sort-damage"}
SCORE = "[data-stage='decoder.1.cross.scores'] td[data-cell='0,1,2']"
RUN = "async (within) => (await axe.run(within, { resultTypes: ['violations'] })).violations"


def violations(window: Any, within: str) -> list[str]:
    """What axe finds in an element: the rule, and the elements."""
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:160]} {node['failureSummary'][:200]}"
        for rule in window.page.evaluate(RUN, within)
        for node in rule["nodes"][:4]
    ]


PANELS_OF_THE_PAGE = """const { panels } = await import('glassbox/panels/all.js');
return Object.entries(panels).map(([name, { title }]) => [name, title]);"""
MOVING = """() => document.getAnimations().some((each) =>
  each.playState === 'running' && each.effect.getComputedTiming().endTime < 60000)"""
WIDER = "return document.documentElement.scrollWidth - innerWidth"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("light", "motion", "width", "height"),
    [
        ("dark", "reduce", 390, 844),
        ("dark", "reduce", 640, 400),  # 1280 with a zoom of 200 %
        ("light", "reduce", 768, 1024),
        ("dark", "no-preference", 1280, 800),
        ("light", "reduce", 1920, 1080),
        ("dark", "reduce", 2560, 1440),
        ("light", "reduce", 3840, 2160),
    ],
)
def test_every_screen_and_panel_is_reached_with_keys_fits_and_is_accessible(
    window: Any, trained: Trace, measured: Trace, light: str, motion: str, width: int, height: int
) -> None:
    page = window.page
    page.emulate_media(color_scheme=light, reduced_motion=motion)
    page.set_viewport_size({"width": width, "height": height})
    wrong = [WrongAnswer("abc", "hij", answer, -1.0) for answer in ("hj", "hkj", "ijk")]
    trace = replace(trained, heads=measured.heads, errors=Errors(90, 3, wrong))
    window.open(trace, "story")
    page.evaluate(axe.Axe().axe_script)
    found: dict[str, list[str]] = {}

    def look(name: str) -> None:
        window.settle()
        if motion == "reduce":
            assert not page.evaluate(MOVING), name
        page.wait_for_function(f"() => !({MOVING})()")  # a function: the page allows no `eval`
        wider = window.run(WIDER)
        within = "#panel" if found else "html"
        found[name] = [*window.run(FAULTS), *violations(window, within), *[f"{wider} px too wide"] * (wider > 0)]

    screens: list[str] = []
    while (screen := page.get_attribute(".story", "aria-label")) not in screens:
        screens.append(screen)
        look(screen)
        if page.evaluate("document.activeElement.matches('input')"):  # the opening has a field with the cursor in it
            page.keyboard.press("Tab")
        page.keyboard.press("ArrowRight")
    assert len(screens) == page.locator(".story-steps li").count() >= 6
    panels = window.run(PANELS_OF_THE_PAGE)
    assert {name for name, _ in panels} == set(window.panels)
    for name, title in panels[1:]:
        page.keyboard.press("]")
        page.wait_for_function("(title) => document.querySelector('h1')?.innerText === title", arg=title)
        look(name)
    window.open(trace, "story")
    for row in range(len(trace.tokens.target_out)):
        window.run(SCRUB, row)
        found[f"step {row}"] = window.run(FAULTS)
    assert {name: one for name, one in found.items() if one} == {}


@pytest.mark.medium
@pytest.mark.parametrize(("width", "light"), [(390, "dark"), (1440, "light")])
def test_views_that_the_walk_leaves_out_fit_and_are_accessible(
    window: Any, trained: Trace, measured: Trace, width: int, light: str
) -> None:
    window.page.emulate_media(color_scheme=light)
    window.page.set_viewport_size({"width": width, "height": 900})
    window.open(replace(trained, heads=measured.heads))
    window.page.evaluate(axe.Axe().axe_script)
    found = {}

    def look(view: str, within: str = "#panel") -> None:
        window.settle()
        found[view] = [*window.run(FAULTS), *violations(window, within)]
        assert window.run(WIDER) <= 0, view

    for name, view in VIEWS.items():
        window.panel(name)
        window.press(view)
        look(view)
    window.panel("attention")
    window.press("view-steps")
    window.page.click(SCORE)
    found["inspector"] = violations(window, "html")
    window.panel("whatif")
    compare(window, "gb")
    window.press("measure-patches")
    window.page.wait_for_selector("[data-explained]")
    look("whatif")
    window.panel("logits")
    look("logits")
    assert {name: one for name, one in found.items() if one} == {}
