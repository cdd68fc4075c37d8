"""The answers of an exported page, computed by the page itself: in a headless Chromium, or in Node.

Chromium is driven through the pipe of its DevTools protocol, one JSON message up to each NUL, so that no library is
needed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Any, final

from glassformer.errors import EngineError
from glassformer.inference.translator import Source
from glassformer.ship.export.answer import Answer, read_answers, run_answers

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
NODE_PROGRAM = Path(__file__).parent / "page" / "node.mjs"
START_SECONDS = 120  # until the page has loaded its model
ANSWER_SECONDS = 3600
OPTIONS = (
    "--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--remote-debugging-pipe",
)  # fmt: skip
LAUNCHER = "import os, sys; [os.dup2(int(sys.argv[i]), i + 2) for i in (1, 2)]; os.execv(sys.argv[3], sys.argv[3:])"
"""Starts the browser with the two ends of the pipes as descriptors 3 and 4."""
FIRST_FREE = 10  # file descriptors from here on are not those of the protocol, 3 and 4


def page_answers(page: Path, texts: Sequence[Source], num_beams: int) -> list[Answer]:
    """Return the answer of the page to each text; `num_beams` 1 is greedy.

    The browser is $CHROME, or the first of BROWSERS on the PATH; without one, Node runs the modules of the page.
    Raises EngineError when neither is installed, or the page fails.
    """
    browser = find_browser()
    if browser is not None:
        with opened(browser, page) as tab:
            found = tab.evaluate(f"glassformer.translate({json.dumps(list(texts))}, {num_beams})", ANSWER_SECONDS)
        refused = [one["error"] for one in found if "error" in one]
        if refused:
            raise EngineError("the exported page refuses a text", got=refused[0])
        return read_answers(json.dumps(one) for one in found)
    node = shutil.which("node")
    if node is None:
        raise EngineError(
            "the check of an exported page needs a browser or Node, and neither is installed",
            expected=f"$CHROME, or one of {', '.join(BROWSERS)}, node on the PATH",
            hint="install Chromium or Google Chrome, or Node 20 or newer",
        )
    return run_answers([node, NODE_PROGRAM, page, str(num_beams)], texts)


def find_browser() -> str | None:
    """Return the path of the browser, or None. An empty $CHROME means none. Raises EngineError for a wrong $CHROME."""
    if os.name != "posix":  # where the pipe has other descriptors
        return None
    named = os.environ.get("CHROME")
    if named and shutil.which(named) is None:
        raise EngineError("there is no browser at $CHROME", where=named, hint="unset CHROME, or name a browser")
    if named is not None:
        return shutil.which(named) if named else None
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@final
class Tab:
    """A page in a browser, over the pipe of its DevTools protocol."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._received = b""
        self._session: str | None = None

    def open(self, url: str) -> None:
        """Open a URL and wait until the page has loaded its model."""
        until = time.monotonic() + START_SECONDS
        target = self._call("Target.createTarget", {"url": url}, START_SECONDS)["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True}, START_SECONDS)
        self._session = attached["sessionId"]
        while (state := self.evaluate("document.body?.dataset.ready ?? null", START_SECONDS)) != "true":
            if state == "failed" or time.monotonic() > until:
                text = self.evaluate("document.body.innerText.slice(0, 300)", START_SECONDS)
                raise EngineError("the exported page does not start", got=" | ".join(str(text).split("\n")))
            time.sleep(0.05)

    def evaluate(self, expression: str, seconds: float) -> Any:
        """Return the value of an expression, awaited. Raises EngineError when it throws."""
        parameters = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        result = self._call("Runtime.evaluate", parameters, seconds)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            told = details.get("exception", {}).get("description") or details.get("text")
            raise EngineError("the exported page fails", got=str(told).split("\n", maxsplit=1)[0])
        return result["result"].get("value")

    def _call(self, method: str, parameters: dict[str, Any], seconds: float) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        _write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + seconds
        while True:
            answer = self._receive(until)
            if answer.get("id") == number:
                if "error" in answer:
                    raise EngineError("the browser refuses a command", got=f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise EngineError("the browser does not answer in time", hint="name another browser in $CHROME")
            part = os.read(self._from, 1 << 20)
            if not part:
                raise EngineError("the browser ended", hint="name another browser in $CHROME, or install Node")
            self._received += part
        message, _, self._received = self._received.partition(b"\0")
        decoded: dict[str, Any] = json.loads(message)
        return decoded


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except BrokenPipeError:
        raise EngineError("the browser ended", hint="name another browser in $CHROME, or install Node") from None


@contextlib.contextmanager
def opened(browser: str, page: Path) -> Iterator[Tab]:
    """A fresh browser with the page in it; it ends with the block, and its profile is removed."""
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root with it
    with contextlib.ExitStack() as stack:
        profile = stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        commands, to_browser = _pipe(stack)
        from_browser, answers = _pipe(stack)
        descriptors = commands.fileno(), answers.fileno()
        command = [browser, *OPTIONS, *as_root, f"--user-data-dir={profile}", "about:blank"]
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, descriptors), *command],
            pass_fds=descriptors,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(_end, process)
        commands.close()  # so that the end of the browser is the end of the pipe
        answers.close()
        tab = Tab(to_browser.fileno(), from_browser.fileno())
        tab.open(page.resolve().as_uri())
        yield tab


def _pipe(stack: contextlib.ExitStack) -> tuple[FileIO, FileIO]:
    """The end of a pipe that is read and the one that is written, which are closed with the stack."""
    import fcntl  # POSIX only, as the browser's pipe is here

    ends = []
    for descriptor, mode in zip(os.pipe(), ("rb", "wb"), strict=True):
        ends.append(FileIO(fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE), mode))
        os.close(descriptor)
        stack.enter_context(ends[-1])
    return ends[0], ends[1]


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
