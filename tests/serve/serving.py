"""Servers in processes of their own, forked from one that has imported torch: an import takes two seconds."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

GUARD = 600  # seconds after which a test that waits gives up; on an idle machine no server here takes 10
FILES = 256
IMPORTED = ["__main__", "torch", "uvicorn", "glassformer.cli", "glassformer.serve.api"]


class Running(NamedTuple):
    """A server, and where it listens."""

    process: BaseProcess
    port: int
    said: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=GUARD)

    def get(self) -> Any:
        return json.loads(self.text("/v1/health"))

    def text(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=GUARD) as answer:
            return str(answer.read(), "utf-8")

    def post(self, path: str, body: dict[str, Any]) -> socket.socket:
        """A connection on which a request is sent."""
        opened = self.connect()
        opened.sendall(post_request(path, body))
        return opened

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait(self) -> int | None:
        """The exit code, when the server has ended."""
        self.process.join(GUARD)
        return self.process.exitcode

    def complaints(self) -> str:
        """All but the first line."""
        return self.said.read_text(encoding="utf-8").partition("\n")[2]


def post_request(path: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


@contextlib.contextmanager
def started(target: Callable[..., None], *arguments: Any) -> Iterator[Running]:
    """A process that serves, when it has said a line with its port; it is killed in the end."""
    multiprocessing.set_forkserver_preload(IMPORTED)
    with tempfile.NamedTemporaryFile() as said:
        process = multiprocessing.get_context("forkserver").Process(target=_work, args=(target, arguments, said.name))
        process.start()
        try:
            path, end = Path(said.name), time.monotonic() + GUARD
            while not (found := re.match(r"(?:.*:)?(\d+)\b.*\n", path.read_text(encoding="utf-8"))):
                assert process.is_alive(), path.read_text(encoding="utf-8")
                assert time.monotonic() < end
                time.sleep(0.02)
            yield Running(process, int(found[1]), path)
        finally:
            process.kill()
            process.join()


def running(model: Path, **limits: Any) -> contextlib.AbstractContextManager[Running]:
    """A server with few files, that says its port only."""
    return started(_serve, model, limits)


def commanded(*words: object) -> contextlib.AbstractContextManager[Running]:
    """`glassformer` with these words."""
    return started(_command, *map(str, words))


def _work(target: Callable[..., None], arguments: tuple[Any, ...], said: str) -> None:
    """Call the target with standard error in a file."""
    with Path(said).open("ab", buffering=0) as file:
        os.dup2(file.fileno(), sys.stderr.fileno())
    target(*arguments)


def _serve(model: Path, limits: dict[str, Any]) -> None:
    import resource

    from glassformer.serve import run
    from glassformer.serve.api import create_app
    from glassformer.serve.limits import Limits
    from glassformer.serve.served import Served

    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    served = Served.load(model, limits=Limits(**limits), device="cpu")
    app = create_app(served)
    listening = run.listen("127.0.0.1", 0)
    sys.stderr.write(f"{listening.getsockname()[1]}\n")
    run.serve(app, listening, served.limits, served.worker, app.state.models.reload)


def _command(*words: str) -> None:
    from glassformer.__main__ import main

    sys.argv = ["glassformer", *words]
    main()


def read_answer(opened: socket.socket) -> tuple[int, Any]:
    """The status and the JSON of one answer."""
    answer = HTTPResponse(opened)
    answer.begin()
    return answer.status, json.loads(answer.read())


def read_all(opened: socket.socket) -> bytes:
    """What comes until the server closes the connection."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := opened.recv(65_536):
            parts.append(part)
    return b"".join(parts)
