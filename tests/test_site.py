"""The documentation site: its reference is that of the code, and its link check finds links without a target."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

import glassformer
from glassformer.planning.recipes import list_recipes
from glassformer.settings import all_settings
from tests.cli.test_help import CONTRACT

SITE = Path(__file__).parents[1] / "docs/site"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch):
    """Import a module of docs/site by name."""
    names = ("build", "links", "reference", "search", "words")
    for name in names:  # the lessons have a `build`, too
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(str(SITE))
    yield importlib.import_module
    for name in names:
        sys.modules.pop(name, None)


def rows_of(section: str) -> list[str]:
    return [line for line in section.splitlines() if line.startswith("| `")]


def test_the_settings_page_has_every_setting_with_its_meaning_and_every_recipe(module) -> None:
    settings, _, recipes = module("reference").settings_page().partition("## Recipes")
    assert [line.split("`")[1] for line in rows_of(settings)] == list(all_settings())
    assert [line.split("`")[1] for line in rows_of(recipes)] == list(list_recipes())
    (dropout,) = [line for line in rows_of(settings) if "`model.dropout`" in line]
    assert dropout.startswith("| `model.dropout` | `0.1` | dropout probability")
    assert dropout.endswith("<br>`≥ 0, < 1` |")


def test_the_command_page_has_every_verb_with_every_option_of_the_contract(module) -> None:
    page = module("reference").commands_page()
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, flags=re.MULTILINE | re.DOTALL))
    assert sections.keys() == CONTRACT.keys()
    for verb, options in CONTRACT.items():
        listed = set(re.findall(r"`(--[a-z-]+|[A-Z]+)`", "\n".join(rows_of(sections[verb]))))
        assert set(options.split()) <= listed, verb
    assert "| `--count` | `N` | Number of neighbors. Default: `10`. |" in sections["neighbors"]
    assert "bound method" not in page
    assert "object at 0x" not in page


def test_the_python_page_has_every_public_name_with_its_docstring(module) -> None:
    page = module("reference").python_page()
    for name in glassformer.__all__:
        found = re.search(rf"^````{{py:(?:class|function)}} {name}\b.*\n\n(.*)$", page, flags=re.MULTILINE)
        assert found, name
        first = (getattr(glassformer, name).__doc__ or "").splitlines()[0]
        assert found[1].replace("\\", "") == first
    assert "{py:method} translate(texts, *, decoding=None" in page
    assert "{py:classmethod} load(path" in page
    assert "{py:function} layer_norm(" in page
    assert "object at 0x" not in page


def test_the_page_of_the_paper_links_functions_and_panels_that_exist(module) -> None:
    build = module("build")
    page = build.linked_paper((SITE.parent / "paper.md").read_text(encoding="utf-8"))
    head, _, departures = page.partition("## Departures")
    assert "{py:obj}`~glassformer.paper.model.MultiHeadAttention`" in head
    assert "{py:obj}`~glassformer.paper.reference.softmax`" in head
    panels = set(re.findall(r'report\.html#(\w+)">', head))
    sources = (SITE.parents[1] / "src/glassformer/glassbox/page/panels/all.js").read_text(encoding="utf-8")
    assert {"tokens", "norm", "embedding", "qkv", "search"} <= panels
    assert panels <= set(re.findall(r"(\w+): \{ title", sources))
    assert "py:obj" not in departures


def test_links_to_sources_of_lessons_go_to_the_lessons(module) -> None:
    text = "[2](../lessons/source/02-one-head.md#3-scores) [code](lessons/build.py) [a](b.md)"
    expected = "[2](../lessons/02-one-head.ipynb#3-scores) [code](lessons/build.py) [a](b.md)"
    assert module("build").adapted(text, Path("README.md")) == expected


def test_the_numbers_of_a_lesson_are_links_to_the_report(module) -> None:
    build = module("build")
    text = (SITE.parents[1] / "lessons/02-one-head.ipynb").read_text(encoding="utf-8")
    cells = "".join(cell for cell in json.loads(build.linked_numbers(text))["cells"][-1]["source"])
    links = re.findall(r'<a href="\.\./live/report\.html(#[^"]+)"><code>([^<]+)</code></a>', cells)
    assert len(links) >= 3
    assert all(link == shown for link, shown in links)
    assert "&amp;cell=encoder.0.self.scores@0,1,2" in links[0][0]
    other = (SITE.parents[1] / "lessons/09-english-to-dutch.ipynb").read_text(encoding="utf-8")
    assert build.linked_numbers(other) == other


def test_the_pages_of_the_site_have_at_most_15_000_words(module) -> None:
    words = module("words")
    text = "# One two\n\n```\nnot these\n```\n\n| three | `--four` |\n|---|---:|\n| 5 | – |\n"
    assert words.count(text) == 5  # outside of blocks of code
    pages = words.words()
    assert {"index", "docs/quick-start", "docs/which-tool", "docs/glossary"} <= pages.keys()
    assert sum(pages.values()) <= words.MAX_WORDS, "shorten pages: python docs/site/words.py"


def test_no_page_says_what_another_says(module) -> None:
    words = module("words")
    names = [*words.words(), *(name for name in words.listed(SITE / "more.md") if name != "CHANGELOG")]
    assert words.repeated({name: words.source(name).read_text(encoding="utf-8") for name in names}) == []
    assert module("search").SYNONYMS.keys() <= set(words.listed(SITE / "index.md"))  # each is in the navigation


def test_a_run_of_words_on_two_pages_is_found_outside_of_code_and_tables(module) -> None:
    run = "one two three four five six seven eight nine ten eleven twelve"
    texts = {"a": f"First.\n{run}!", "b": run.replace("three four", "three\nfour"), "c": f"```\n{run}\n```\n| {run} |"}
    assert module("words").repeated(texts) == [f"b and a: {run}"]


PAGE = (
    '<p id="here"><a href="#here">a</a> <a href="https://example.org/x">b</a> <a href="{}">c</a><img src="sub/p.png">'
)


@pytest.mark.parametrize(
    ("link", "wrong"),
    [
        ("sub/other.html", None),
        ("sub/other.html#there", None),
        ("sub/other%2Ehtml?q=1#there", None),
        ("sub/", None),
        ("live/report.html#attention", None),
        ("sub/third.html", "does not exist"),
        ("sub/other.html#nowhere", "no such place"),
        ("#nowhere", "no such place"),
        ('https://example.org/y"><script src="https://example.org/x.js', "needs a network"),
    ],
)
def test_a_link_without_a_target_is_found(module, tmp_path: Path, link: str, wrong: str | None) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/p.png").touch()
    (tmp_path / "sub/index.html").touch()
    (tmp_path / "sub/other.html").write_text('<a name="there" href="../page.html#here">a</a>', encoding="utf-8")
    (tmp_path / "page.html").write_text(PAGE.format(link), encoding="utf-8")
    (tmp_path / "live").mkdir()
    (tmp_path / "live/report.html").write_text('<a href="missing.html">', encoding="utf-8")
    found = module("links").broken_links(tmp_path, skip=frozenset({"live"}))  # it is not read, and is a target
    assert len(found) == (wrong is not None)
    assert len(module("links").broken_links(tmp_path)) > len(found)
    assert all(one.startswith("page.html: ") and one.endswith(wrong or "") for one in found)
