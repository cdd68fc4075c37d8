"""What a person waits for at the glass box: a report that is written, opened, and asked what if."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tasks import task_m
from benchmarks.trained import default_dates
from benchmarks.turns import Absent, Act, Measured
from glassformer import explain
from glassformer.engines.torch import get_weights
from glassformer.glassbox.report import write_report
from glassformer.model import Transformer
from glassformer.modelfile import ModelFile
from glassformer.records import Metrics

CHROMIUM = Path("/usr/bin/chromium")
EDIT = "head decoder.0.cross 0 off"
PATIENCE_MS = 120_000
MODELS = ("dates, zero configuration", "task M's model, untrained")


@dataclass(frozen=True)
class Page:
    """A report with weights where they fit: written from a model that is loaded, opened until every step is
    recomputed in the browser, and one head switched off until everything is recomputed."""

    model: str

    def start(self) -> tuple[dict[str, Any], Act]:
        playwright = _browsers()
        given, text = _default_model() if self.model == MODELS[0] else _large_model()
        path = Path(tempfile.mkdtemp()) / "report.html"
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"])
        written = write_report(explain(given, text, weights=True), path)

        def act(_round: int) -> Measured:
            begun = time.perf_counter()
            write_report(explain(given, text, weights=True), path)
            measured = {"write": time.perf_counter() - begun}
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            begun = time.perf_counter()
            page.goto(f"{path.as_uri()}#heads")
            page.wait_for_selector("body[data-checked='true']", timeout=PATIENCE_MS)
            measured["open"] = time.perf_counter() - begun
            if written.has_weights:
                page.evaluate("document.body.dataset.checked = 'false'")
                begun = time.perf_counter()
                page.click(f"[data-key='{EDIT}']")
                page.wait_for_selector("body[data-checked='true']", timeout=PATIENCE_MS)
                measured["what if"] = time.perf_counter() - begun
            page.close()
            return measured

        return {"megabytes": written.n_bytes / 1e6, "has_weights": written.has_weights}, act


def _browsers() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise Absent("playwright is not installed") from None
    if not CHROMIUM.exists():
        raise Absent(f"there is no {CHROMIUM}")
    return sync_playwright().start()


def _default_model() -> tuple[ModelFile, str]:
    return ModelFile.load(default_dates()), "1969-07-20"


def _large_model() -> tuple[ModelFile, str]:
    """10,000 words, 4+4 layers; its answers mean nothing, but are as long as a caption."""
    prepared = task_m().prepared
    torch.manual_seed(1)
    model = Transformer(prepared.settings.model, len(prepared.source_tokenizer), len(prepared.target_tokenizer))
    short = prepared.data.model_copy(update={"longest_target": 8})
    prepared = dataclasses.replace(prepared, data=short)
    words = prepared.source_tokenizer.decode(prepared.train.source.packed(np.array([0]))[1:-1])
    return prepared.model_file(get_weights(model), Metrics()), words
