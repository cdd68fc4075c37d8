"""The page in Firefox: every panel and screen of the story, another text and an edit, with the numbers of Chromium."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.report import report_html
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.browser import PATIENCE
from tests.glassbox.page.conftest import OPEN

FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
pytestmark = [pytest.mark.browser, pytest.mark.skipif(FIREFOX is None, reason="apt-get install firefox-esr")]

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


CLICK = "document.querySelector(arguments[0]).click()"
FILL = "document.querySelector(arguments[0]).value = arguments[1]"


def in_firefox(url: str, actions: Actions, home: Path) -> list[Any]:
    driver = pytest.importorskip("marionette_driver.marionette")
    stills = {"ui.prefersReducedMotion": 1}  # as in Chromium
    firefox = driver.Marionette(
        bin=FIREFOX, headless=True, gecko_log=str(home / "log"), workspace=str(home), prefs=stills
    )
    try:
        firefox.start_session()
        firefox.navigate(url)
        found = []
        for kind, *given in actions:
            if kind == "read":
                found.append(firefox.execute_script(f"return {given[0]}"))
            elif kind == "wait":
                until = time.monotonic() + PATIENCE / 1000
                while not firefox.execute_script(f"return Boolean({given[0]})"):
                    assert time.monotonic() < until, given[0]
                    time.sleep(0.05)
            else:
                firefox.execute_script(CLICK if kind == "click" else FILL, script_args=given)
        return found
    finally:
        firefox.quit(in_app=False)
        firefox.cleanup()


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
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the driver leaves sockets open
def test_firefox_shows_what_chromium_shows(window: Any, case: Any, trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_bytes(report_html(trace))
    url = f"{path.as_uri()}#story"
    actions = [["read", "[innerWidth, innerHeight]"], *walk(window.panels)]
    found = in_firefox(url, actions, home=tmp_path)
    width, height = found[0]
    window.page.set_viewport_size({"width": width, "height": height})
    assert found == in_chromium(window, url, actions)
    assert found[1] == f"{len(trace.steps)}/0/{len(trace.steps)}"
    expected = [explain(case.model, TEXT, edits=edits, num_beams=3).translation or "(empty)" for edits in ([], [EDIT])]
    assert found[-2:] == expected
