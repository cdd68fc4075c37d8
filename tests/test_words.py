"""The words of glassformer: plain American English, and the standard terms of the field.

Phrases to avoid are regular expressions, each with what to write instead; case and line breaks do not matter. To add a
phrase, add one line to PHRASES.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
import typer.main

from glassformer.cli import command_line
from glassformer.planning.recipes import description, list_recipes
from glassformer.settings import all_settings

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/glassformer"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("README.md")),
    *sorted((ROOT / "lessons").rglob("*.md")),
]

PHRASES = {
    r"\bthe way back\b": "the backward pass",
    r"\bkept numbers\b": "activations",
    r"\bmemory of the gradient": "running mean of the gradient",
    r"\byou said so\b": "set by you",
    r"(?<!there )\bis no (text|number|pair|table)\b": "is not text",
    r"\blikeliest\b": "most probable",
    r"\bshare of\b": "fraction of, probability of",
    r"\b(open|closed|told) spellings?\b": "open vocabulary, closed vocabulary, prose",
    r"\bbeside\b": "next to, in addition to",
    r"\bas (it|they) stands?\b": "unchanged, as written",
    r"\bheld against\b": "compared with",
    r"\bproof from\b": "check on",
    r"\bto go on with\b": "to resume, to continue",
    r"\bkept weights\b": "snapshots",
    r"\bnormal forms?\b": "Unicode normalization form",
    r"\bside by side in\b": "concatenated in, in parallel in",
    r"\b\w*(initial|maxim|minim|normal|optim|organ|recogn|token)is(e|ed|es|ing|ation)\b": "American spelling: -ize",
    r"\b\w*(general|regular|serial|summar)is(e|ed|es|ing|ation)\b": "American spelling: -ize",
    r"\banew\b": "again",
    r"\b\w*(behavi|col|fav|hon|lab|neighb)our(s|ed|ing|able|ites?|hoods?)?\b": "American spelling: -or",
    r"\b(centred?|grey|licence|artefacts?|(label|model|travel|cancel)l(ed|ing))\b": "American spelling",
    r"\bspelled\b": "character-level, in characters",
    r"\bnot told\b|\btold\b": "prose; printed",
    r"\bturn(s|ing)? up\b": "occur",
    r"\bcannot carry\b": "lacks, does not support",
    r"\bthe system refused\b": "operating system error",
    r"\bleft before (its|their|the) end\b": "interrupted",
    r"\bleans? on\b": "most influential token",
    r"\bask(s|ed|ing)? for\b": "requested; the token to predict, the target",
    r"\bso many\b": "N, the number",
    r"\bwanted\b": "targets, requested",
    r"\bstands?\b(?! for\b)": "is",
    r"\blies\b": "is",
    r"\blongest length\b": "maximum length",
    r"\bthere is no (device|precision)\b": "is not available",
    r"\bchance\b": "randomness, random seed, probability",
    r"\b(go|goes|going|gone|went) on\b": "resume, continue",
    r"\b(who lost|losers?)\b": "pruned candidates, why they were pruned",
}
"""A phrase to avoid -> what to write instead, in docs, help, settings and messages."""

Texts = Iterator[tuple[str, str]]
"""Where a text is, and the text."""


def texts_of_docs() -> Texts:
    for page in PAGES:
        yield str(page.relative_to(ROOT)), prose(page.read_text(encoding="utf-8"))


def prose(markdown: str) -> str:
    """A page without code and link targets."""
    for pattern in (r"^```.*?^```$", r"`[^`]*`", r"(?<=\])\([^)]*\)"):
        markdown = re.sub(pattern, " ", markdown, flags=re.MULTILINE | re.DOTALL)
    return markdown


def texts_of_help() -> Texts:
    """What `--help` prints of every verb, before it is laid out."""
    commands = {"glassformer": (root := typer.main.get_command(command_line())), **getattr(root, "commands", {})}
    for verb, command in commands.items():
        yield f"{verb} --help", command.help or ""
        for parameter in command.params:
            yield f"{verb} --help, {parameter.name}", getattr(parameter, "help", None) or ""


def texts_of_settings() -> Texts:
    for name, text in all_settings().items():
        yield f"the setting {name}", text
    for name, path in list_recipes().items():
        yield f"the recipe {name}", description(path)


def texts_of_messages() -> Texts:
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in strings(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}:{line}", text


def strings(code: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is not a docstring; {} for what a formatted string inserts."""
    tree = ast.parse(code)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(map(id, node.values))
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


AREAS = {"docs": texts_of_docs, "settings": texts_of_settings, "help": texts_of_help, "messages": texts_of_messages}


@cache
def texts_of(area: str) -> list[tuple[str, str]]:
    return [(where, " ".join(text.split())) for where, text in AREAS[area]()]


def find(phrases: Mapping[str, str], texts: list[tuple[str, str]]) -> list[str]:
    """Each use of a phrase: where, in which words, and what to write instead."""
    found, whole = [], "\n".join(text for _, text in texts)
    for phrase, instead in phrases.items():
        pattern = re.compile(phrase, re.IGNORECASE)
        for where, text in texts if pattern.search(whole) else ():
            for use in pattern.finditer(text):
                context = text[max(0, use.start() - 30) : use.end() + 30]
                found.append(f"{where}: … {context} …; instead of {use[0]!r}: {instead}")
    return found


@pytest.mark.parametrize("area", AREAS)
def test_no_phrase_to_avoid_is_used(area: str) -> None:
    texts = texts_of(area)
    assert len(texts) > 10
    assert "\n".join(find(PHRASES, texts)) == ""


def test_a_phrase_is_found_in_the_prose_of_a_page_and_not_in_its_code() -> None:
    page = "Colour\nis `grey`\n\n```\nlicence\n```\n\n[a](artefact.md) the way\nback\n"
    found = find(PHRASES, [("page", " ".join(prose(page).split()))])
    assert [re.findall("instead of '(.*?)'", use)[0] for use in found] == ["the way back", "Colour"]


def test_a_phrase_is_found_in_a_message_and_not_in_a_docstring() -> None:
    code = 'def f(x):\n    """Beside."""\n    raise E(f"{x} is grey", hint="bes" "ide")\n'
    assert sorted(text for _, text in strings(code)) == ["beside", "{} is grey"]


def test_the_help_of_every_verb_is_read() -> None:
    texts = dict(texts_of("help"))
    assert "Train a model" in texts["train --help"]
    assert texts["train --help, resume"]
    assert {"translate --help", "explain --help", "serve --help"} <= texts.keys()
