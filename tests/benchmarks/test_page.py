"""The measurements of the page: each is taken once, with a small model, and has its place in the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.page import CHROMIUM, run_in, table_of
from benchmarks.turns import Record
from tests.glassbox.conftest import make_model


@pytest.fixture
def playwright() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}")
    with sync_api.sync_playwright() as running:
        yield running


@pytest.mark.browser
@pytest.mark.medium
def test_each_wait_and_each_rate_is_measured_and_is_in_the_table(playwright: Any) -> None:
    facts, act = run_in(playwright, make_model(3, d_ff=10), "abc", "gfed")
    measured = act()
    assert set(measured) == {"written", "opened", "what if", "another text", "scrolling"}
    assert all(number > 0 for number in measured.values())
    assert measured["scrolling"] < 250
    header, _, row = table_of({"small": Record(facts, [measured])}).splitlines()
    assert header.count("|") == row.count("|")
