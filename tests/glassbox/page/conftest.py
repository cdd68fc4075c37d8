"""A headless Chromium that opens the page, and records its requests and its messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.report import report_html
from glassformer.glassbox.schema import Trace

CHROMIUM = Path("/usr/bin/chromium")
PANELS = (
    "tokens", "embedding", "qkv", "attention", "norm", "heads", "logits",
    "search", "whatif", "space", "training", "alignment", "errors",
)  # fmt: skip


class Window:
    """One page. `complaints` are console messages, exceptions, dialogs, and requests for anything from outside."""

    panels = PANELS

    def __init__(self, page: Any) -> None:
        self.page = page
        self.origin = "file:"
        self.complaints: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text) if message.type != "log" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)[:500]))
        page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self._see(request.url))

    def _see(self, url: str) -> None:
        if not url.startswith((self.origin, "data:", "blob:")):
            self.complaints.append(f"it requested {url}")

    def open(self, trace: Trace | dict[str, Any], folder: Path, panel: str = "tokens") -> Window:
        """The report of a trace, once every step is recomputed."""
        whole = trace if isinstance(trace, Trace) else Trace.loads(json.dumps(trace))
        path = folder / "report.html"
        path.write_bytes(report_html(whole))
        self.page.goto("about:blank")
        self.page.goto(f"file://{path}#{panel}")
        self.settle()
        return self

    def settle(self) -> None:
        """Wait until the page is computed, drawn and checked."""
        self.page.wait_for_selector("body[data-checked]", timeout=30_000)
        self.page.evaluate("document.body.dataset.checked = 'false'")
        self.page.wait_for_selector("body[data-checked='true']", timeout=30_000)

    def panel(self, name: str) -> None:
        self.page.click(f".tab[data-panel='{name}']")

    def press(self, key: str) -> None:
        self.page.click(f"[data-key='{key}']")

    def run(self, program: str, given: Any = None) -> Any:
        """The body of an async function of `given`, which may import the page's modules."""
        return self.page.evaluate(f"async (given) => {{ {program} }}", given)

    def all(self, selector: str, expression: str) -> list[Any]:
        """The expression for `each` element."""
        found: list[Any] = self.run(
            f"return [...document.querySelectorAll(given)].map((each) => {expression})", selector
        )
        return found

    def checks(self) -> tuple[int, ...]:
        """How many tensors are right, wrong, and in the trace."""
        return tuple(map(int, self.page.get_attribute("[data-checks]", "data-checks").split("/")))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip("/usr/bin/chromium is not available: apt-get install chromium")
    with playwright.sync_playwright() as running:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        started = running.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield started
        started.close()


@pytest.fixture
def window(browser: Any) -> Iterator[Window]:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    yield Window(page)
    page.close()
