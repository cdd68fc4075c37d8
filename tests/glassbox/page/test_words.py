"""The page speaks in the terms of the field, and what it says about itself is true."""

from __future__ import annotations

import re
from typing import Any

import pytest

from glassformer.glassbox.report import without_weights
from glassformer.glassbox.schema import Trace

pytestmark = pytest.mark.browser

AVOIDED = re.compile(
    r"\b(fed|asked|wanted|told|losers?|leans?|leaned|shares?|chance|moments?|stands?|lies|beside|likeliest"
    r"|quantit(y|ies)|redone|trained|normed|look-up|colour\w*|grey|centre\w*|normalis\w*|neighbour\w*|favour\w*)\b",
    re.IGNORECASE,
)
IDENTIFIERS = re.compile("matmul|project_heads|layer_norm|source_key|target_key|log_softmax")
NAMES = re.compile("This model was trained with")  # a model is trained
VISIBLE = """
const texts = [document.body.innerText];
for (const each of document.querySelectorAll('body *')) {
  for (const name of ['aria-label', 'title', 'placeholder']) texts.push(each.getAttribute(name) ?? '');
}
return texts.join('\\n');
"""


def avoided_words(window: Any) -> list[str]:
    return sorted({found.group() for found in AVOIDED.finditer(NAMES.sub("", window.run(VISIBLE)))})


@pytest.mark.parametrize("rows", ["false", "true"], ids=["output", "gold"])
@pytest.mark.medium
def test_every_panel_uses_the_terms_of_the_field(window: Any, trace: Trace, rows: str) -> None:
    window.open(trace)
    window.press(f"decoder rows-{rows}")
    for name in window.panels:
        window.panel(name)
        for depth in ("words", "formula", "numbers"):
            window.depth(depth)
            assert avoided_words(window) == [], (name, depth)
            assert not IDENTIFIERS.findall(window.text("#panel")), (name, depth)
    window.panel("attention")
    window.press("view-mistakes")
    assert avoided_words(window) == []


def test_rows_are_called_by_what_their_targets_are(window: Any, trace: Trace) -> None:
    window.open(trace)
    assert window.all(".shift th", "each.innerText") == ["step", "decoder input", "output token"]
    window.press("decoder rows-true")
    assert window.all(".shift th", "each.innerText") == ["step", "decoder input", "target token"]
    window.press("decoder rows-false")


def test_a_page_without_weights_does_not_say_that_the_server_shows_them(window: Any, trace: Trace) -> None:
    """The server leaves the weights of a large model out as well; what it can do is make edits."""
    window.open(without_weights(trace), "space")
    assert "serve" not in window.text("#panel")
    window.panel("whatif")
    assert "glassformer serve MODEL" in window.text("#panel")
