"""The audit as a page: one offline file, without scripts, with every text escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from glassformer.before.audit import Audit, audit
from glassformer.before.audit.page import page_html, write_page
from glassformer.data.datasets import dates
from glassformer.data.given import as_table
from glassformer.errors import RunError
from glassformer.paper.settings import Settings
from tests.browser import chromium

HOSTILE = "<script>document.title='x'</script><img src=x onerror=alert(1)>&amp;\x1b[31m\u202e"
PATH = "/a/folder/with/a/long/name/" + "n" * 60 + ".csv"


@pytest.fixture(scope="module")
def hostile() -> Audit:
    """Duplicates, control characters and HTML in the texts."""
    rows = [*dates(60, seed=2), (HOSTILE, "a" * 300), (HOSTILE, "a" * 300), (HOSTILE, HOSTILE)]
    settings = Settings(tokens={"shared": False, "source": {"kind": "characters"}, "target": {"kind": "characters"}},
                        model={"tied_embeddings": "none"})  # fmt: skip
    return audit(replace(as_table(rows), path=PATH), as_table(rows[-1:]), settings=settings)


class Reader(HTMLParser):
    """Collects the tags and attributes of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_has_no_script_and_no_element_of_a_text(hostile: Audit) -> None:
    page = Reader(page_html(hostile))
    assert not page.tags & {"script", "img", "iframe", "link", "object", "form", "a"}
    assert page.attributes.keys() <= {"class", "lang", "charset", "http-equiv", "content", "name", "scope"}
    assert "<script>document.title='x'</script>" in page.text
    assert "\\x1b[31m\\u202e" in page.text
    assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", page_html(hostile))


def test_the_page_has_every_finding_with_its_rows_and_advice(hostile: Audit) -> None:
    text = Reader(page_html(hostile)).text
    assert len(hostile.findings) >= 4
    for finding in hostile.findings:
        assert finding.kind in text
        assert finding.advice in text
        assert finding.option is None or finding.option in text
        for example in finding.examples:
            assert str(example.row) in text


def test_a_page_that_cannot_be_written_is_an_error(hostile: Audit, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot write the file"):
        write_page(hostile, tmp_path)


@pytest.fixture
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.mark.browser
@pytest.mark.medium
def test_the_page_opens_on_a_phone_and_in_the_dark_without_a_request(
    hostile: Audit, tmp_path: Path, browser: Any
) -> None:
    write_page(hostile, tmp_path / "audit.html")
    grounds = set()
    for scheme, width in (("light", 1200), ("dark", 360)):
        page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
        requests: list[str] = []
        messages: list[str] = []
        page.on("request", lambda request, seen=requests: seen.append(request.url))
        page.on("console", lambda message, seen=messages: seen.append(message.text))
        page.goto((tmp_path / "audit.html").as_uri())
        assert requests == [(tmp_path / "audit.html").as_uri()]
        assert messages == []  # a style that the policy does not allow would be one
        assert page.title() == f"Audit of {PATH}"
        assert page.locator("section.finding").count() == len(hostile.findings)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('.bars b').offsetHeight") == 12
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert len(grounds) == 2
