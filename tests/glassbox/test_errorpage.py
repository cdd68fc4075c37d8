"""The page of errors: no text of a table or a model is markup, and it is readable in a browser."""

from __future__ import annotations

from copy import copy
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import given, settings, strategies as st

from glassformer.evaluation.failures import find_failures
from glassformer.evaluation.metrics import Item
from glassformer.glassbox.errorpage import EvaluationOrigin, error_page
from glassformer.inference.translator import Translation, Translator
from glassformer.settings import SideSettings
from glassformer.text import learn
from glassformer.text.inputs import Input, compose
from tests.browser import chromium
from tests.evaluation.test_failures import translator

HOSTILE = (
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "--><!--",
    "&lt;b&gt; &amp; &#60;",
    "\u202eabc\u2066def",
    "שלום עולם",
    "a\x1b[31m\u200bbc",
    "'; rm -rf / #",
)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "nav", "a", "section", "div"),
    *("table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "line", "bdi", "small", "br", "b", "ol", "li"),
    *("code", "article", "span", "dl", "dt", "dd", "details", "summary", "pre"),
}
ATTRIBUTES = {
    *("lang", "charset", "http-equiv", "content", "name", "href", "id", "class", "scope", "title", "viewbox"),
    *("preserveaspectratio", "aria-hidden", "width", "height", "x1", "x2", "y1", "y2"),
}


class Parsed(HTMLParser):
    """The elements of a page, its texts, and where its links go."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.text = ""
        self.comments = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def page_of(
    *rows: tuple[Any, str, str],
    columns: dict[str, list[str]] | None = None,
    of: Translator | None = None,
    **about: Any,
) -> str:
    answered = [
        (
            Item(row, source, (target,)),
            Translation(
                text, -row, -row, tuple("ab"), (-0.1, -2.0, -0.01), finished=True, unknown=(str(source),), unlike=text
            ),
        )
        for row, (source, target, text) in enumerate(rows)
    ]
    measured = {"model": "run", "table": "test.csv", "rows_read": len(rows), "rows_scored": len(rows)} | about
    return error_page(
        find_failures(of or translator(), answered, columns),
        EvaluationOrigin(row_name=lambda row: f"row {row}", **measured),
    )


def check(page: str) -> Parsed:
    found = Parsed(page)
    assert found.tags <= TAGS
    assert found.attributes <= ATTRIBUTES
    assert found.comments == 0
    assert all(link.startswith(("#", "http://127.0.0.1:8000/#logits?")) for link in found.links)
    return found


def test_no_text_of_a_row_a_column_or_a_name_is_markup() -> None:
    rows = [(text, text[::-1], text) for text in HOSTILE for _ in range(2)]
    columns = {text: [text, "x"] * len(HOSTILE) for text in HOSTILE}
    found = check(page_of(*rows, columns=columns, model=HOSTILE[0], table="\ud800" + HOSTILE[1]))
    for text in HOSTILE[:6]:
        assert text in found.text
    assert r"\u202eabc\u2066def" in found.text
    assert r"a\x1b[31m\u200bbc" in found.text


@settings(max_examples=5)
@given(st.lists(st.tuples(st.text(min_size=1), st.text(min_size=1), st.text()), min_size=1, max_size=2))
def test_any_text_is_only_text(rows: list[tuple[str, str, str]]) -> None:
    page = page_of(*rows, columns={source: ["x"] * len(rows) for source, _, _ in rows})
    check(page)
    page.encode()  # there is no lone surrogate


def test_a_table_of_right_answers_alone_says_so_and_answers_that_only_add_tokens_have_no_confusions() -> None:
    found = check(page_of(*[("ab", "de", "de")] * 12))
    assert "All 12 answers are right" in found.text
    assert "No answer is wrong, so this table does not show which rows are missing." in found.text
    assert "Worst answers" not in found.text
    assert "Most doubtful answers" in found.text
    assert "The answers of lowest score, right or wrong." in found.text
    added = check(page_of(("ab", "de", "deg"), ("ab c", "de", "dde")))
    assert "Kinds of edits" in added.text
    assert "Confused tokens" not in added.text


def test_an_interval_has_the_digits_of_its_value() -> None:
    page = Parsed(page_of(*[("a", "b", "b")] * 2, *[("a", "b", "d")] * 598))
    assert "0.3 % (0.1 to 1.2 %)" in page.text


def test_a_row_has_its_address_in_the_glass_box_and_the_command_for_it() -> None:
    page = page_of(("-a b", "d'e", "de"), model="my run", beams=5)
    query = dict(parse_qsl(urlsplit(check(page).links[-1]).fragment.partition("?")[2]))
    assert query == {"text": "-a b", "target": "d'e", "beams": "5"}
    command = """glassformer explain '--target=d'"'"'e' --beam=5 --html=explained.html -- 'my run' '-a b'"""
    assert command in check(page).text


def test_a_row_of_several_inputs_names_each() -> None:
    inputs = (Input(name="lemma", kind="text"), Input(name="tags", kind="feature", cut=";", symbols=("PST", "V")))
    of = copy(translator())
    of.source_tokenizer = learn(["go"], SideSettings(), inputs)
    page = page_of((compose(["go", "V;PST"]), "went", "goed"), of=of, inputs=inputs)
    query = dict(parse_qsl(urlsplit(check(page).links[-1]).fragment.partition("?")[2]))
    assert query == {"text.lemma": "go", "text.tags": "V;PST", "target": "went"}
    assert "--feature=tags=V;PST" in check(page).text
    assert "go · tags: V;PST" in check(page).text


@pytest.mark.medium
def test_the_page_is_readable_in_a_browser_and_loads_nothing(tmp_path: Path) -> None:
    rows = [("ab" * 40, "de", "ed"), ("שלום", "עולם", "עולים"), *((text, text[::-1], text) for text in HOSTILE)]
    file = tmp_path / "errors.html"
    file.write_text(page_of(*rows * 3, columns={"x" * 90: ["long value " * 9, "b"] * 18}), encoding="utf-8")
    with chromium() as browser:
        page, said = browser.new_page(), list[str]()
        page.on("console", lambda message: said.append(message.text))
        page.on("request", lambda request: said.append(request.url))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.goto(file.as_uri())
        page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
        assert said == [file.as_uri()]
        for width, scheme in ((390, "dark"), (1440, "light")):
            page.set_viewport_size({"width": width, "height": 900})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            widths = page.evaluate(
                "[...document.querySelectorAll('td.bar svg')].map((each) => each.getBoundingClientRect().width)"
            )
            assert min(widths) >= 100
            ground, ink = page.evaluate(
                "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
            )
            brightness = [sum(map(int, color.strip("rgb()").split(","))) for color in (ground, ink)]
            assert (brightness[0] > brightness[1]) == (scheme == "light")
            assert abs(brightness[0] - brightness[1]) > 400
