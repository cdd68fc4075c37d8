"""The state of the page is in its address: back, forward, reload, a copied link, and an address that does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from glassformer.glassbox.report import report_html, without_weights
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain

pytestmark = pytest.mark.browser

CELL = "decoder.1.cross.scores"


def pressed(window: Any, key: str) -> bool:
    return bool(window.page.get_attribute(f"[data-key='{key}']", "aria-pressed") == "true")


@pytest.mark.medium
def test_an_address_opens_the_same_panel_row_head_cell_depth_and_edits(window: Any, trace: Trace) -> None:
    window.open(trace)
    window.panel("attention")
    window.press("head-1")
    window.press("row-2")
    window.press("depth-formula")
    window.page.click(f"[data-stage='{CELL}'] td[data-cell='1,2,3']")
    window.panel("whatif")
    window.press("toggle-positions off")
    window.settle()
    window.panel("attention")
    shared = window.address
    assert f"cell={CELL}%401%2C2%2C3" in shared
    assert "edit=positions+off" in shared
    window.page.goto("about:blank")
    window.page.goto(f"{window.report}{shared}")
    window.settle()
    assert window.text("h1") == "Attention"
    assert pressed(window, "head-1")
    assert pressed(window, "depth-formula")
    assert window.page.get_attribute("[data-key='row-2']", "aria-current") == "step"
    assert window.all("td[aria-selected]", "each.dataset.cell") == ["1,2,3"]
    assert window.page.locator(".edited .pill").count() == 1
    assert window.address == shared
    window.page.reload()
    window.settle()
    assert window.address == shared


@pytest.mark.medium
def test_back_returns_to_the_panel_the_text_and_the_edits_before_and_forward_to_those_after(
    window: Any, trace: Trace
) -> None:
    window.open(trace)
    for name in ("attention", "logits", "search"):
        window.panel(name)
    window.press("row-1")  # no step of its own
    for title in ("Logits", "Attention", "Tokens"):
        window.page.go_back()
        window.page.wait_for_selector(f"h1:has-text('{title}')")
    window.page.go_forward()
    window.page.wait_for_selector("h1:has-text('Attention')")
    window.ask("gfab")
    window.panel("whatif")
    window.press("toggle-causal off")
    window.settle()
    assert window.page.locator(".edited .pill").count() == 1
    window.page.go_back()
    window.page.wait_for_selector(".edited", state="detached")
    window.page.go_back()
    window.page.go_back()
    window.page.wait_for_selector(f"dd:has-text('{trace.text}')")
    window.page.go_forward()
    window.page.wait_for_selector("dd:has-text('gfab')")
    assert window.page.input_value("[name=text]") == "gfab"


BAD = {
    "#examples?example=search": "there is no panel “examples”",
    "#attention?model=00000000&head=1": "another model",
    "#attention?head=99": "there is no head “99”",
    "#attention?part=encoder.9.self": "there is no part",
    "#attention?depth=deep": "is not a value of “depth”",
    "#attention?cell=<b>@1": "is not a cell",
    "#attention?cell=no.such.tensor@1,2": "there is no tensor",
    "#attention?edit=layer+encoder.9+off": "there is no layer encoder.9",
    "#__proto__?row=1e9&locked=x": "there is no panel “__proto__”",
    "#attention?row=-3": "“-3” is not a value of “row”",
    "#attention?row=99": "there is no decoding step “99”",
    "#attention?column=77&locked=50": "there is no source token “77”",
    "#story?question=9": "there is no question “9”",
    "#story?question=x": "“x” is not a value of “question”",
    "#embedding?wave=600": "there is no feature “600”",
    "#space?picked=600": "there is no token “600”",
    f"#attention?cell={CELL}@9,9,9": "has no cell 9, 9, 9",
    f"#logits?cell={CELL}@1": "has no cell 1",
    "#search?text=gab&beams=0": "the beam width is a whole number from 1 to 20",
    "#search?text=gab&beams=5000": "the beam width is a whole number from 1 to 20",
    "#search?text=gab&beams=-1": "“-1” is not a value of “beams”",
    "#search?text.lemma=gab": "the model takes one text, not the inputs lemma",
    "#search?text=gab&target=hij": "cannot compute the target of",
}


@pytest.mark.medium
def test_an_address_that_does_not_fit_is_said_in_words(window: Any, trace: Trace) -> None:
    """The first when the page is opened, the others when it is open."""
    window.open(trace, next(iter(BAD)).removeprefix("#"))
    for hash_, words in BAD.items():
        window.page.goto(f"{window.report}{hash_}")
        window.page.wait_for_selector(".notice")
        assert words in window.text(".notice"), hash_
        assert window.page.locator("h1").count() == 1, hash_
        window.press("dismiss")
        assert window.page.locator(".notice").count() == 0


def test_a_text_in_an_address_is_computed_or_the_page_says_why_not(
    window: Any, case: Any, trace: Trace, tmp_path: Path
) -> None:
    window.open(trace)
    window.page.goto(f"{window.report}#search?text=gab")
    window.page.wait_for_selector("dd:has-text('gab')")
    expected = explain(case.model, "gab", num_beams=3)
    assert window.text("dd .output") == (expected.translation or "(empty)")
    (tmp_path / "small.html").write_bytes(report_html(without_weights(trace)))
    window.page.goto(f"file://{tmp_path}/small.html#search?text=gab")
    window.page.wait_for_selector(".notice")
    assert "does not include the weights" in window.text(".notice")
    assert trace.text in window.text("dl.answer")


def test_copy_link_copies_the_address(window: Any, trace: Trace) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.open(trace, "logits")
    window.press("row-3")
    window.press("copy-link")
    window.page.wait_for_selector(".copied:has-text('copied')")
    copied = window.run("return navigator.clipboard.readText()")
    assert copied == window.report + window.address
    assert "row=3" in copied


def test_another_panel_starts_at_its_top_and_a_link_to_a_cell_shows_it(window: Any, trace: Trace) -> None:
    window.open(trace, "attention")
    window.page.evaluate("scrollTo(0, 9999)")
    window.panel("qkv")
    assert window.run("return scrollY") == 0
    window.panel("attention")
    window.page.click(f"[data-stage='{CELL}'] td[data-cell='0,2,3']")
    window.press("user-decoder.1.cross.scaled")
    box = window.page.locator("[data-stage='decoder.1.cross.scaled']").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 900
