"""axe-core, which tests pages for accessibility, finds no violation in any panel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.run_records import Errors, WrongAnswer
from glassformer.glassbox.schema import Trace

pytestmark = pytest.mark.browser
axe = pytest.importorskip("axe_playwright_python.sync_playwright")

VIEWS = {
    "attention": ("view-mistakes",),
    "search": ("search-greedy",),
    "heads": ("sort-damage",),
    "examples": ("example-padding", "example-norms", "example-search", "example-lookup"),
}
SCORE = "[data-stage='decoder.1.cross.scores'] td[data-cell='0,1,2']"


def violations(window: Any) -> list[str]:
    """What axe finds: the rule, and the elements."""
    found = axe.Axe().run(window.page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:160]} {node['failureSummary'][:200]}"
        for rule in found
        for node in rule["nodes"][:4]
    ]


@pytest.mark.parametrize(
    ("light", "width"),
    [
        ("light", 1280),
        *(pytest.param(*each, marks=pytest.mark.slow) for each in (("dark", 1280), ("light", 390), ("dark", 390))),
    ],
)
def test_axe_finds_no_violation(
    window: Any, trained: Trace, measured: Trace, tmp_path: Path, light: str, width: int
) -> None:
    """Slow: the dark page and the narrow one. Their contrast and width are also in the fast suite (test_access)."""
    window.page.emulate_media(color_scheme=light)
    window.page.set_viewport_size({"width": width, "height": 800})
    wrong = [WrongAnswer("abc", "hij", answer, -1.0) for answer in ("hj", "hkj", "ijk")]
    window.open(replace(trained, heads=measured.heads, errors=Errors(90, 3, wrong)), tmp_path)
    found = {}
    for name in window.panels:
        window.panel(name)
        found[name] = violations(window)
        for view in VIEWS.get(name, ()):
            if window.page.locator(f"[data-key='{view}']").count():
                window.press(view)
                found[f"{name}, {view}"] = violations(window)
    window.page.fill("[data-key='field-query-0']", "much")
    found["examples, not a number"] = violations(window)
    window.panel("space")
    window.page.select_option("[data-key='expected']", "4")
    found["space, expected token"] = violations(window)
    window.panel("attention")
    window.press("view-steps")
    window.page.click(SCORE)
    found["inspector"] = violations(window)
    assert {name: one for name, one in found.items() if one} == {}
