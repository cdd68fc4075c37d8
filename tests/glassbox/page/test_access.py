"""The page is closed to the outside and to hostile texts, and open to everybody who reads it."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_model

pytestmark = pytest.mark.browser


def test_the_browser_refuses_html_made_of_text_and_every_request(window: Any, trace: Trace) -> None:
    window.open(trace)
    refused = """const answers = [];
    try { document.body.innerHTML = '<b>x</b>'; } catch (error) { answers.push(error.name); }
    await fetch('data:text/plain,x').catch((error) => answers.push(error.name));
    return answers;"""
    assert window.run(refused) == ["TypeError", "TypeError"]
    assert "TrustedHTML" in window.complaints[0]
    window.complaints.clear()


HOSTILE = [
    "<script>alert(1)</script>", "</script><img/src=x/onerror=alert(2)>", "<!--", "שלום",
    "مرحبا\u202eabc", "😀👩‍👩‍👧‍👦",
    "x" * 5000, "__proto__", "constructor", "'\"`${alert(3)}", "{{7*7}}", "&lt;b&gt;",
]  # fmt: skip


@pytest.mark.medium
def test_hostile_tokens_neither_run_nor_break_the_layout(window: Any) -> None:
    text = " ".join(HOSTILE)
    model = make_model(3, "words", texts=([text], [text]), n_decoder_layers=2)
    window.open(explain(model, text, target=text, weights=True, num_beams=2))
    window.page.set_viewport_size({"width": 390, "height": 844})
    for name in window.panels:
        window.panel(name)
        assert window.run("return document.documentElement.scrollWidth") <= 390, name
    assert window.run("return document.querySelectorAll('script').length") == 2
    assert window.run("return document.querySelectorAll('img').length") == 0
    window.panel("tokens")
    assert window.page.input_value("[data-key='token-1']") == HOSTILE[0]
    window.page.fill("[data-key='token-4']", HOSTILE[0])
    window.page.keyboard.press("Enter")
    window.settle()
    assert window.page.locator(".edited .pill").inner_text().startswith(f"token 4={HOSTILE[0]}")


@pytest.mark.medium
def test_an_open_page_computes_nothing_while_nobody_changes_it(window: Any, trace: Trace) -> None:
    window.open(trace, "story")
    session = window.page.context.new_cdp_session(window.page)
    session.send("Performance.enable")

    def work() -> dict[str, float]:
        found = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
        return {name: found[name] for name in ("ScriptDuration", "LayoutCount", "RecalcStyleCount")}

    for panel in ("story", "attention", "space"):
        window.panel(panel)
        window.settle()
        for _ in range(20):  # until the address is written and the last frame is drawn
            before = work()
            window.page.wait_for_timeout(500)
            if work() == before:
                break
        assert work() == before, panel
    session.detach()
