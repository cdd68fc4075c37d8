"""The live page: the same page, with a server behind it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import uvicorn

from glassformer.errors import TimeLimitError
from glassformer.glassbox.trace import explain
from glassformer.inference.timelimit import check_time_limit
from glassformer.serve.api import create_app
from glassformer.serve.run import Connection, listen
from glassformer.serve.served import Served, load_models
from tests.browser import PATIENCE

pytestmark = pytest.mark.browser


@pytest.fixture
def live(request: Any, case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a server of two models; without weights it makes the edits."""
    path = tmp_path / "model.safetensors"
    case.model.save(path)
    monkeypatch.setattr(Served, "weights_fit", getattr(request, "param", True))
    listening = listen("127.0.0.1", 0)
    served = load_models({"model": path, "other": path}, example="abc")
    connection: Any = partial(Connection, served[0].limits)  # which tells the worker that a client left
    server = uvicorn.Server(uvicorn.Config(create_app(*served), http=connection, loop="asyncio", log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    server.should_exit = True
    thread.join(10)
    listening.close()


@pytest.mark.medium
@pytest.mark.parametrize("live", [True, False], ids=["with weights", "without"], indirect=True)
def test_the_live_page_opens_another_text_and_makes_edits(window: Any, live: str, case: Any) -> None:
    window.origin = live
    window.page.goto(f"{live}#tokens")
    window.settle()
    for name in window.panels:
        window.panel(name)
    window.page.fill("[name=text]", "abcde")
    window.page.fill("[name=target]", "hij")
    window.press("ask")
    window.page.wait_for_selector("dl.answer:has-text('abcde')", state="attached")  # not in sight next to the opening
    window.settle()
    assert window.checks()[1] == 0
    words = "head decoder.1.cross 1 off"
    expected = explain(case.model, "abcde", edits=[words])
    window.panel("whatif")
    window.press(f"toggle-{words}")
    window.page.wait_for_selector("[data-side='after']")
    assert expected.difference is not None
    after = window.text("[data-side='after'] .token")
    assert after == (expected.difference.beam.after.text.replace(" ", "␣") or "(empty)")


@pytest.mark.medium
def test_the_page_says_what_it_computes_keeps_the_old_answer_and_stops(
    window: Any, live: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    may_end, n_ended, trace_of = threading.Event(), threading.Semaphore(0), Served._trace
    request.addfinalizer(may_end.set)  # the server waits for what it computes

    def slow(self: Served, body: Any) -> Any:
        try:
            while not may_end.wait(0.01):
                check_time_limit()
        except TimeLimitError:
            n_ended.release()
            raise
        return trace_of(self, body)

    monkeypatch.setattr(Served, "_trace", slow)
    window.origin = live
    window.page.goto(f"{live}#tokens")
    words = "Computing every number behind the answer to “{}” …"
    window.page.wait_for_selector(f"#panel:has-text('{words.format('abc')}')")
    assert window.text("#bar .brand") == "glassformer"
    assert window.page.input_value("[data-key='waiting']") == "abc"
    assert window.page.locator(".skeleton").is_visible()
    window.press("stop")
    assert n_ended.acquire(timeout=PATIENCE)  # on the server
    may_end.set()
    window.press("again")
    window.settle()
    may_end.clear()
    window.page.fill("[name=text]", "abcde")
    window.press("ask")
    window.page.wait_for_selector(f"#result:has-text('{words.format('abcde')}')")
    assert "abc" in window.text("dl.answer")
    assert "abcde" not in window.text("dl.answer")
    assert window.all("#header, #main", "getComputedStyle(each).opacity") == ["0.5", "0.5"]
    window.press("stop")
    assert n_ended.acquire(timeout=PATIENCE)
    window.page.wait_for_selector("#ask .wrong:has-text('the computation was stopped')")
    window.settle()
    assert window.all("#header, #main", "getComputedStyle(each).opacity") == ["1", "1"]
    assert window.page.locator("#result > *").count() == 0
    assert window.page.input_value("[name=text]") == "abcde"
    address = window.address
    window.run("location.hash = '#search?text=gab'")
    window.press("stop")
    window.page.wait_for_selector("#result:has-text('the computation was stopped')")
    window.page.wait_for_url(lambda url: url.endswith(address))
    assert window.text("h1") != "Search"
    may_end.set()
    window.press("ask")
    window.page.wait_for_selector("dl.answer:has-text('abcde')", state="attached")  # not in sight next to the opening


def test_an_error_of_the_server_is_next_to_the_form(window: Any, live: str) -> None:
    window.origin = live
    window.page.goto(f"{live}#tokens")
    window.settle()
    window.page.fill("[name=text]", "a" * 2000)
    window.press("ask")
    window.page.wait_for_selector("#ask .wrong:has-text('at most')")
    assert "longer than the model takes" in window.text("#ask .wrong")
    assert "422" in window.complaints.pop()


@pytest.mark.medium
def test_the_header_has_the_models_of_the_server(window: Any, live: str) -> None:
    window.origin = live
    window.page.goto(f"{live}#tokens")
    window.settle()
    assert window.all("[data-key='model'] option", "each.value") == ["model", "other"]
    window.page.select_option("[data-key='model']", "other")
    window.page.wait_for_url(lambda url: url.endswith("?model=other#tokens"))
    window.settle()
    assert window.page.input_value("[data-key='model']") == "other"
    assert window.text("h1") == "Tokens"
