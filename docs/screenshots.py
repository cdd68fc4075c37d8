"""The pictures of the README and of docs/glassbox.md, made anew: `python docs/screenshots.py demo/run TEXT`.

TEXT is that of demo/report.html, where the last layer changes what the ones before it say. It needs Chromium,
playwright and pillow.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image
from playwright.sync_api import sync_playwright

from glassformer import explain
from glassformer.glassbox.report import write_report

IMAGES = Path(__file__).parent / "images"
COLORS = 160
PATIENCE = 600_000  # milliseconds for a page on a busy machine


class Shot(NamedTuple):
    """A picture of the page, after some clicks; `top` is scrolled to the upper edge. `only` is the element in it."""

    name: str
    panel: str
    clicks: tuple[str, ...] = ()
    top: str = ""
    width: int = 1280
    height: int = 760
    only: str = ""


CELL = "[data-stage='decoder.2.cross.scores'] td[data-cell='0,1,7']"
SHOTS = (
    Shot("tokens", "tokens"),
    Shot("positions", "embedding", ("[data-key='depth-words']",), "[data-stage='source.positions']"),
    Shot("scores", "attention?row=1", ("[data-key='head-0']", CELL), "[data-stage$='cross.scores']"),
    Shot("weights", "attention?rows=all", ("[data-key='depth-formula']",), "[data-stage$='cross.weights']", height=600),
    Shot("heads", "heads", (), "[aria-label='cross-attention']", height=520),
    Shot("norm", "norm?part=decoder.2.feed_forward&row=5", only="[aria-label='layer norm of one position']"),
    Shot("logits", "logits?row=5"),
    Shot("search", "search", (), ".so-far"),
    Shot("whatif", "whatif", ("[data-key='toggle-positions off']",), "#result", height=620),
    Shot("alignment", "alignment", height=680),
    Shot("mistakes", "attention", ("[data-key='view-mistakes']",), height=620),
)


def take(browser: Any, url: str, shot: Shot) -> None:
    page = browser.new_page(viewport={"width": shot.width, "height": shot.height}, reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}#{shot.panel}")
    page.wait_for_selector("body[data-checked='true']")
    for selector in shot.clicks:
        page.click(selector)
        page.wait_for_timeout(1200)
        page.wait_for_selector("body[data-checked='true']")
    if shot.top:
        page.wait_for_selector(shot.top)
        page.evaluate("(top) => document.querySelector(top).scrollIntoView()", shot.top)
    page.wait_for_timeout(200)
    path = IMAGES / f"{shot.name}.png"
    (page.locator(shot.only) if shot.only else page).screenshot(path=path)
    page.close()
    reduce_colors(path)


def reduce_colors(path: Path) -> None:
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def save_figure(browser: Any, url: str) -> None:
    """The first screen as the page itself saves it: moving, and as one picture."""
    page = browser.new_page(viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    page.set_default_timeout(PATIENCE)
    page.goto(f"{url}#story")
    for kind in ("SVG", "PNG"):
        with page.expect_download() as download:
            page.click(f"[data-key='poster-{kind}']")
        download.value.save_as(IMAGES / f"figure-1.{kind.lower()}")
    page.close()
    reduce_colors(IMAGES / "figure-1.png")


def main(run: str, surprise: str, text: str = "1969-07-20", target: str = "July 20, 1969") -> None:
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        trace = explain(run, text, target=target, weights=True, history=True)
        report = write_report(trace, Path(folder) / "report.html")
        browser = running.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"])
        for shot in SHOTS:
            take(browser, report.path.as_uri(), shot)
        page = write_report(explain(run, surprise, weights=True), Path(folder) / "surprise.html")
        save_figure(browser, page.path.as_uri())
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
