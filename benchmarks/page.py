"""What a person waits for at the glass box: a report that is written, opened, edited, given another text, scrolled."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.report import options, rows_of, signature, spread
from benchmarks.tasks import task_m
from benchmarks.trained import default_dates
from benchmarks.turns import Absent, Act, Measured, Record, take_turns
from glassformer import explain
from glassformer.glassbox.report import write_report
from glassformer.paper.model import Transformer
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import Metrics
from glassformer.storage.weights import get_weights

CHROMIUM = Path("/usr/bin/chromium")
EDIT = "head decoder.0.cross 0 off"
PATIENCE_MS = 120_000
MODELS = ("dates, zero configuration", "task M's model, untrained")


@dataclass(frozen=True)
class Page:
    """A report with weights: written from a model that is loaded, opened until every step is recomputed in the
    browser, one head switched off and another text typed until everything is recomputed; and the frames that the
    browser draws in a second in which an attention is scrolled."""

    model: str

    def start(self) -> tuple[dict[str, Any], Act]:
        playwright = browsers()
        given, text, other = _default_model() if self.model == MODELS[0] else _large_model()
        return run_in(playwright, given, text, other)


def run_in(playwright: Any, given: ModelFile, text: str, other: str) -> tuple[dict[str, Any], Act]:
    """The facts of the report of `text`, and what measures it once; `other` is the text that is typed."""
    path = Path(tempfile.mkdtemp()) / "report.html"
    browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
    written = write_report(explain(given, text, weights=True), path)

    def act() -> Measured:
        begun = time.perf_counter()
        write_report(explain(given, text, weights=True), path)
        measured = {"written": time.perf_counter() - begun}
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        begun = time.perf_counter()
        page.goto(f"{path.as_uri()}#heads")
        page.wait_for_selector("body[data-checked='true']", timeout=PATIENCE_MS)
        measured["opened"] = time.perf_counter() - begun
        measured["what if"] = _wait(page, lambda: page.click(f"[data-key='{EDIT}']"))
        page.fill("[name=text]", other)
        measured["another text"] = _wait(page, lambda: page.click("[data-key='ask']"))
        page.click("[data-key='group-Model']")
        page.click(".tab[data-panel='attention']")
        measured["scrolling"] = page.evaluate(SCROLL)
        page.close()
        return measured

    return {"megabytes": written.n_bytes / 1e6}, act


def _wait(page: Any, click: Callable[[], None]) -> float:
    """Seconds until the page has computed and checked what a click changes."""
    page.evaluate("document.body.dataset.checked = 'false'")
    begun = time.perf_counter()
    click()
    page.wait_for_selector("body[data-checked='true']", timeout=PATIENCE_MS)
    return time.perf_counter() - begun


SCROLL = """() => new Promise((done) => {
  const start = performance.now();
  let frames = 0;
  const next = (now) => {
    frames += 1;
    scrollBy(0, frames % 120 < 60 ? 30 : -30);
    if (now - start < 2000) requestAnimationFrame(next);
    else done((1000 * frames) / (now - start));
  };
  requestAnimationFrame(next);
})"""
"""Frames per second of two seconds in which each frame scrolls by 30 pixels, down and up."""


def browsers() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise Absent("playwright is not installed") from None
    if not CHROMIUM.exists():
        raise Absent(f"there is no {CHROMIUM}")
    return sync_playwright().start()


def _default_model() -> tuple[ModelFile, str, str]:
    return ModelFile.load(default_dates()), "1969-07-20", "1815-06-18"


def _large_model() -> tuple[ModelFile, str, str]:
    """10,000 words, 4+4 layers; its answers mean nothing, but are as long as a caption."""
    prepared = task_m().prepared
    torch.manual_seed(1)
    model = Transformer(prepared.settings.model, len(prepared.source_tokenizer), len(prepared.target_tokenizer))
    short = prepared.data.model_copy(update={"longest_target": 8})
    prepared = dataclasses.replace(prepared, data=short)
    one, other = (
        prepared.source_tokenizer.decode(prepared.train.source.packed(np.array([row]))[1:-1]) for row in (0, 1)
    )
    return prepared.model_file(get_weights(model), Metrics()), one, other


WAITS = ("written", "opened", "what if", "another text")


def table_of(records: dict[str, Record]) -> str:
    rows = []
    for name, record in records.items():
        if record.absent:
            rows.append([name, record.absent])
            continue
        waits = [spread(record.of(wait), 2) for wait in WAITS]
        rows.append([name, *waits, spread(record.of("scrolling")), f"{record.facts['megabytes']:.1f}"])
    return rows_of(["model", *(f"{wait}, s" for wait in WAITS), "scrolling, frames/s", "MB"], rows)


def main(program: str) -> None:
    given = options(program, __doc__, rounds=5).parse_args()
    default_dates()
    print(table_of(take_turns({model: Page(model) for model in MODELS}, given.rounds)), signature(given.rounds), sep="")
