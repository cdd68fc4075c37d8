"""The page in Firefox: every panel, every screen of the story, another text and an edit, with the numbers of Chromium.

It needs Firefox, and puppeteer-core in `node_modules` of the repository, or of the folder that $GLASSFORMER_NODE names:
`npm install --no-save --ignore-scripts puppeteer-core`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.report import report_html
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.page.conftest import OPEN

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
MODULES = Path(os.environ.get("GLASSFORMER_NODE", Path(__file__).parents[3]))
SCRIPT = Path(__file__).parent / "firefox.mjs"
MISSING = (
    "Firefox is not installed: apt-get install firefox-esr"
    if FIREFOX is None
    else "Node is not installed"
    if shutil.which("node") is None
    else "puppeteer-core is not in node_modules"
    if not (MODULES / "node_modules" / "puppeteer-core").is_dir()
    else ""
)
pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

EDIT = "head decoder.1.cross 1 off"
TEXT = "gfab"
CHECKED = "document.body.dataset.checked === 'true'"
SETTLED = f"{CHECKED} && !document.querySelector('#panel').textContent.includes('comput')"
OUTPUT = "document.querySelector('dd .output').textContent"
NUMBERS = "[...document.querySelectorAll('#panel td[data-cell]')].map((each) => [each.dataset.cell, each.textContent])"
Actions = list[list[str]]


def walk(panels: tuple[str, ...]) -> Actions:
    """Through the story, the panels, another text, and an edit of the first text."""
    actions: Actions = [["wait", CHECKED], ["read", "document.querySelector('[data-checks]').dataset.checks"]]
    for at in range(7):
        actions += [
            ["click", f"[data-key='question-{at}']"],
            ["wait", SETTLED],
            ["read", "document.querySelector('.story').textContent"],
        ]
    for name in panels[1:]:
        actions += [
            ["wait", f"(({OPEN})('{name}'), true)"],
            ["read", "document.querySelector('#panel').textContent"],
            ["read", NUMBERS],
        ]
    again = ["wait", f"document.querySelector('dl.answer dd').textContent === '{TEXT}' && {CHECKED}"]
    actions += [["fill", "[name=text]", TEXT], ["click", "[data-key='ask']"], again, ["read", OUTPUT]]
    actions += [["wait", f"(({OPEN})('whatif'), true)"], ["click", f"[data-key='toggle-{EDIT}']"]]
    actions += [["wait", f"document.querySelector('.edited .pill') && {CHECKED}"], ["read", OUTPUT]]
    return actions


def in_firefox(url: str, actions: Actions, home: Path) -> dict[str, Any]:
    request = json.dumps({"executable": FIREFOX, "url": url, "actions": actions})
    environment = os.environ | {"HOME": str(home)}  # for its profile
    command = ["node", str(SCRIPT), str(MODULES)]
    done = subprocess.run(
        command, input=request, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def in_chromium(window: Any, url: str, actions: Actions) -> list[Any]:
    window.page.goto(url)
    found = []
    for kind, what, *text in actions:
        if kind == "click":
            window.page.evaluate("(selector) => document.querySelector(selector).click()", what)
        elif kind == "fill":
            window.page.fill(what, text[0])
        elif kind == "wait":
            turn = "await new Promise((resolve) => setTimeout(resolve, 20))"
            window.run(f"for (let n = 0; n < 1500 && !({what}); n++) {turn}")  # the page forbids eval to Playwright too
        else:
            found.append(window.run(f"return {what}"))
    return found


@pytest.mark.medium
def test_firefox_shows_what_chromium_shows(window: Any, case: Any, trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(report_html(trace))
    url = f"{path.as_uri()}#story"
    actions = walk(window.panels)
    answer = in_firefox(url, actions, home=tmp_path)
    assert answer["complaints"] == []
    found = answer["found"]
    assert found == in_chromium(window, url, actions)
    assert found[0] == f"{len(trace.steps)}/0/{len(trace.steps)}"
    expected = [explain(case.model, TEXT, edits=edits, num_beams=3).translation or "(empty)" for edits in ([], [EDIT])]
    assert found[-2:] == expected
