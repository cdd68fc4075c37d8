"""A headless Chromium that opens the page, and records its requests and its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glassformer.glassbox.report import modules, report_html
from glassformer.glassbox.run_records import (
    CheckpointAnswer,
    HeadEffect,
    HeadEffects,
    HistoryPoint,
    TrainingRecord,
    Validation,
)
from glassformer.glassbox.schema import Trace
from tests.browser import PATIENCE, chromium, with_modules

PANELS = (
    "story", "tokens", "embedding", "qkv", "attention", "norm", "heads", "logits",
    "search", "whatif", "space", "training", "alignment", "errors",
)  # fmt: skip

CHOOSE = """(selector) => {
  const button = document.querySelector(selector);
  if (!button.checkVisibility()) throw new Error(`${selector} is hidden`);
  button.focus({ preventScroll: true });
  button.click();
}"""
"""Without the pointer, which takes as long as to draw a panel."""
OPEN = """(name) => {
  const tab = () => document.querySelector(`.tab[data-panel='${name}']`);
  let shown = tab();
  while (shown.hidden) shown = shown.previousElementSibling;
  shown.click();
  tab().focus({ preventScroll: true });
  tab().click();
}"""
"""Click the tab of a panel, after the button of its group where that is folded."""


PRESS = "document.querySelector(given).dispatchEvent(new MouseEvent('click', { bubbles: true }))"
"""A press of a part of a picture."""

ARRIVE = """(hash) => {
  document.querySelector('dialog')?.close();
  delete document.documentElement.dataset.light;
  document.activeElement.blur();
  scrollTo(0, 0);
  history.pushState(null, '', hash);
  dispatchEvent(new PopStateEvent('popstate'));
}"""
"""The state that an address has, in a page that is open: a page is read and started in four times the time."""


class Window:
    """One page. `complaints` are console messages, exceptions, dialogs, and requests for anything from outside."""

    panels = PANELS
    sources = staticmethod(modules)

    def __init__(self, page: Any, folder: Path) -> None:
        page.set_default_timeout(PATIENCE)
        self.page = page
        self.path = folder / "report.html"
        self.report = self.path.as_uri()
        self.written = b""
        self.origin = "file:"
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)[:500]))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self._see(request.url))

    def _see(self, url: str) -> None:
        if not url.startswith((self.origin, "data:", "blob:")):
            self.complaints.append(f"it requested {url}")

    def open(self, trace: Trace | dict[str, Any], panel: str = "tokens") -> Window:
        """The report of a trace, once every step is recomputed; of attention with all rows."""
        panel = "attention?rows=all" if panel == "attention" else panel
        whole = trace if isinstance(trace, Trace) else Trace.loads(json.dumps(trace))
        report = report_html(whole)
        if report == self.written and self.page.url.startswith(self.report):
            self.page.evaluate(ARRIVE, f"#{panel}")
            self.settle()
            return self
        self.written = report
        self.path.write_bytes(report)
        self.go(f"{self.report}#{panel}")
        self.page.wait_for_selector("body[data-checked='true']")
        return self

    def go(self, url: str) -> None:
        """Load a page, also where only the part after # is another."""
        if self.page.url.partition("#")[0] == url.partition("#")[0]:
            self.page.goto("about:blank")
        self.page.goto(url)

    def settle(self) -> None:
        """Wait until the page is computed, drawn and checked."""
        self.page.evaluate("new Promise((resolve) => setTimeout(resolve))")  # after the event of a new address
        self.page.wait_for_selector("body[data-checked='true']")

    @property
    def address(self) -> str:
        """The address from the "#" on, once it is written."""
        self.run("dispatchEvent(new Event('pagehide'))")  # now, and not a moment later
        return str(self.run("return location.hash"))

    def panel(self, name: str) -> None:
        """Open a panel; of attention all rows."""
        self.page.evaluate(OPEN, name)
        if name == "attention":
            self.page.evaluate("document.querySelector('[data-key=rows-all]')?.click()")

    def press(self, key: str) -> None:
        """Click with the pointer."""
        self.page.click(f"[data-key='{key}']")

    def depth(self, name: str) -> None:
        """Words, numbers or formula, in the panels that have matrices."""
        if self.page.locator(f"[data-key='depth-{name}']").is_visible():
            self.page.evaluate(CHOOSE, f"[data-key='depth-{name}']")

    def run(self, program: str, given: Any = None) -> Any:
        """The body of an async function of `given`, which may import the page's modules."""
        return self.page.evaluate(f"async (given) => {{ {with_modules(program, self.sources())} }}", given)

    def all(self, selector: str, expression: str) -> list[Any]:
        """The expression for `each` element."""
        found: list[Any] = self.run(
            f"return [...document.querySelectorAll(given)].map((each) => {expression})", selector
        )
        return found

    @property
    def value(self) -> float:
        """The number that the inspector shows."""
        return float(self.page.get_attribute("#inspector [data-value]", "data-value"))

    def text(self, selector: str) -> str:
        """What is read in an element."""
        return str(self.page.inner_text(selector))

    def saved(self, selector: str) -> str:
        """The file that a button saves."""
        with self.page.expect_download() as download:
            self.page.click(selector)
        return Path(download.value.path()).read_text("utf-8")

    def ask(self, text: str) -> None:
        """Explain another text."""
        self.page.fill("[name=text]", text)
        self.press("ask")
        self.page.wait_for_selector(f"dd:has-text('{text}')")
        self.settle()

    def checks(self) -> tuple[int, ...]:
        """How many tensors are right, wrong, and in the trace."""
        return tuple(map(int, self.page.get_attribute("[data-checks]", "data-checks").split("/")))


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="package")
def left(browser: Any) -> list[Window]:
    """The window that one test leaves to the next: a new page takes three times the processor time of most tests."""
    return []


@pytest.fixture
def window(
    browser: Any, left: list[Window], request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Window]:
    """A window of the browser, which must have nothing to complain about at the end."""
    window = left.pop() if left else Window(browser.new_page(), tmp_path_factory.mktemp("page"))
    page, n_failed = window.page, request.session.testsfailed
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(media="null", color_scheme="light", reduced_motion="reduce", forced_colors="none")
    page.context.clear_permissions()
    page.mouse.move(0, 0)
    yield window
    if request.session.testsfailed > n_failed or page.is_closed():
        page.close()  # with keys that are still pressed, perhaps
    else:
        if window.origin != "file:":
            page.goto("about:blank")
        left.append(window)
    complaints, window.complaints, window.origin = window.complaints, [], "file:"
    assert complaints == []


@pytest.fixture
def trained(trace: Trace) -> Trace:
    """The trace with a history, and three checkpoints."""
    tokens = [token.text for token in trace.tokens.target_out]
    attention = np.full((len(tokens), len(trace.tokens.source)), 0.2).tolist()
    texts = ["hhh", "hi", trace.translation]
    checkpoints = [
        CheckpointAnswer(step, text, -0.5, finished=True, tokens=tokens, attention=attention)
        for step, text in zip((10, 50, 100), texts, strict=True)
    ]
    history = [HistoryPoint(step, 4 / step, 0.001, 1.0) for step in range(1, 101)]
    validations = [Validation(step, 3 / step, "exact_match", step / 100) for step in (10, 50, 100)]
    return replace(trace, training=TrainingRecord(history, validations, checkpoints))


def attentions(trace: Trace) -> list[str]:
    """The names of its attentions, in the order of the steps."""
    return [
        step.output.removesuffix(".weights") for step in trace.steps if step.op == "softmax" and "gold" not in step.id
    ]


@pytest.fixture
def measured(trace: Trace) -> Trace:
    """The trace with an effect of each head, all different."""
    names = [(name, head) for name in attentions(trace) for head in range(trace.axes["head"].length)]
    effects = [HeadEffect(name, head, 0.9 - 0.01 * (i * 7 % len(names)), i, 0) for i, (name, head) in enumerate(names)]
    return replace(trace, heads=HeadEffects(120, 100, 0.9, effects))


def compare(window: Window, text: str) -> None:
    """Compare with another text, and wait for its answer."""
    window.page.fill("[name=other]", text)
    window.press("compare-texts")
    window.page.wait_for_selector("[data-side='after']")
    window.settle()
