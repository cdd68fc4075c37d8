"""The live page: the same page, with a server behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import uvicorn

from glassformer.glassbox.trace import explain
from glassformer.server.api import create_app
from glassformer.server.run import listen
from glassformer.server.served import Served

pytestmark = pytest.mark.browser


@pytest.fixture(params=[True, False], ids=["with weights", "without"])
def live(request: Any, case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a served model; without weights the server makes the edits."""
    path = tmp_path / "model.safetensors"
    case.model.save(path)
    monkeypatch.setattr(Served, "weights_fit", request.param)
    listening = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(create_app(Served.load(path, example="abc")), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.mark.medium
def test_the_live_page_opens_another_text_and_makes_edits(window: Any, live: str, case: Any) -> None:
    window.origin = live
    window.page.goto(live)
    window.settle()
    for name in window.panels:
        window.panel(name)
    window.page.fill("[name=text]", "abcde")
    window.page.fill("[name=target]", "hij")
    window.press("ask")
    window.page.wait_for_selector("dd:has-text('abcde')")
    window.settle()
    assert window.checks()[1] == 0
    words = "head decoder.1.cross 1 off"
    expected = explain(case.model, "abcde", edits=[words])
    window.panel("whatif")
    window.press(f"toggle-{words}")
    window.page.wait_for_selector("[data-outcome='beam']")
    assert expected.difference is not None
    after = window.page.locator("[data-outcome='beam'] td").nth(1).inner_text()
    assert after == expected.difference.beam.after.text.replace(" ", "␣")
    assert window.complaints == []


def test_an_error_of_the_server_is_next_to_the_form(window: Any, live: str) -> None:
    window.origin = live
    window.page.goto(live)
    window.settle()
    window.page.fill("[name=text]", "a" * 2000)
    window.press("ask")
    window.page.wait_for_selector("#ask .wrong:has-text('at most')")
    assert "longer than the model takes" in window.page.inner_text("#ask .wrong")
