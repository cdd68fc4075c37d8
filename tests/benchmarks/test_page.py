"""The measurements of the page: each is taken once, with a small model, and has a place in the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from glassformer.ship.storage.modelfile import ModelFile
from tests.glassbox.conftest import make_model

pytest.importorskip("torch")
from benchmarks.page import CHROMIUM, run_in
from benchmarks.report import page_table

pytestmark = pytest.mark.browser


@pytest.fixture
def playwright() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with sync_api.sync_playwright() as running:
        yield running


@pytest.fixture
def model_file() -> ModelFile:
    return make_model(3, d_ff=10)


@pytest.mark.medium
def test_each_wait_and_each_rate_is_measured_and_is_in_the_table(playwright: Any, model_file: ModelFile) -> None:
    facts, act = run_in(playwright, model_file, "abc", "gfed")
    measured = act(0)
    waits = {"write", "shown", "open", "what if", "typed"}
    assert set(measured) == {*waits, "story frames", "scroll frames", "hover frames"}
    assert all(number > 0 for number in measured.values())
    assert measured["scroll frames"] < 250
    assert facts["has_weights"]
    table = page_table({"contenders": {"small": {"absent": None, "facts": facts, "turns": [measured]}}})
    header, _, row = table.splitlines()
    assert header.count("|") == row.count("|")
    assert "not measured" not in row


def test_a_table_of_earlier_results_says_what_was_not_measured() -> None:
    earlier = {"absent": None, "facts": {"megabytes": 1.0}, "turns": [{"write": 0.1, "open": 0.2, "what if": 0.3}]}
    header, _, row = page_table({"contenders": {"dates": earlier}}).splitlines()
    assert header.count("|") == row.count("|")
    assert row.count("not measured") == 5
