"""axe-core, which tests pages for accessibility, finds no violation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from glassformer.glassbox.schema import Trace

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


@pytest.mark.medium
def test_axe_finds_no_violation(window: Any, trained: Trace, measured: Trace) -> None:
    """In the views that the walk (test_walk) leaves out."""
    window.open(replace(trained, heads=measured.heads))
    window.page.evaluate(axe.Axe().axe_script)
    found = {}
    for name, view in VIEWS.items():
        window.panel(name)
        window.press(view)
        found[view] = violations(window, "#panel")
    window.panel("space")
    window.page.select_option("[data-key='expected']", "4")
    found["space, expected token"] = violations(window, "#panel")
    window.panel("attention")
    window.press("view-steps")
    window.page.click(SCORE)
    found["inspector"] = violations(window, "html")
    assert {name: one for name, one in found.items() if one} == {}
