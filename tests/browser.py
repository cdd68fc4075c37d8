"""A headless Chromium for the tests of pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.report import joined

CHROMIUMS = (Path("/usr/bin/chromium-headless-shell"), Path("/usr/bin/chromium"))
"""Debian's browser without windows, which starts and opens a page in less processor time, and its usual one."""
ARGUMENTS = (
    "--no-sandbox",
    "--no-zygote",  # with one, the first page takes twice the time
    "--disable-gpu",
    "--disable-dev-shm-usage",
)

PATIENCE = 600_000  # milliseconds after which a test that waits gives up


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser, closed at the end; without one, the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api")
    installed = [path for path in CHROMIUMS if path.exists()]
    if not installed:
        pytest.skip("/usr/bin/chromium is not available: apt-get install chromium")
    with playwright.sync_playwright() as running:
        started = running.chromium.launch(executable_path=str(installed[0]), args=list(ARGUMENTS), timeout=PATIENCE)
        yield started
        started.close()


SEEN = """
let words = '';
const look = () => {
  words = document.body?.innerText ?? words;
  requestAnimationFrame(look);
};
requestAnimationFrame(look);
const keep = () => (globalThis.seen ??= words);
const parse = JSON.parse;
JSON.parse = (text) => keep() && parse(text);
globalThis.Worker = class extends Worker {
  constructor(...given) {
    keep();
    super(...given);
  }
};
"""
"""Keeps the words of the last frame before the page reads its data."""


IMPORTS = re.compile(r"const (\{[^}]*\}) = await import\('([^']+)'\);")


def with_modules(program: str, sources: Mapping[str, str]) -> str:
    """Put the modules that a program imports into it: the body of an async function of `given`."""
    imports = "".join(f"import {names} from '{module}';\n" for names, module in IMPORTS.findall(program))
    source = f"{imports}export async function program(given) {{\n{IMPORTS.sub('', program)}\n}}"
    return joined("program", {**sources, "program": source}).replace("\nexport ", "\n") + "\nreturn program(given);"


def seen_before_reading(browser: Any, url: str) -> str:
    """The words that a page showed before it read its data, which takes long for a large model."""
    page = browser.new_page()
    page.add_init_script(SEEN)
    page.goto(url)
    page.wait_for_selector("body[data-ready='true']", timeout=PATIENCE)
    seen: str = page.evaluate("seen")
    page.close()
    return seen
