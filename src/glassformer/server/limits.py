"""Limits: size and time of a request, and the number of requests that wait."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import GlassformerError, TimeLimitError
from glassformer.timelimit import TimeLimit, time_limit

BODY_BYTES = 1_000_000
DISCARDED_BYTES = 100_000_000  # maximum size of a refused body that is read to its end
TEXT_CHARACTERS = 10_000
TEXTS = 256
EDITS = 32
BEAMS = 32
WAITING = 16


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    `compute_seconds` limits the computation of one request, and its wait before that; `body_seconds` the arrival of the
    body. A connection that sends no request for `idle_seconds`, or reads no bytes of an answer, is closed.
    `connections` is the maximum number of open ones; by default half of the open files of the process, at most 512.
    """

    body_bytes: int = BODY_BYTES
    body_seconds: float = 30
    compute_seconds: float = 60
    idle_seconds: float = 30
    waiting: int = WAITING
    connections: int | None = None


class RequestError(GlassformerError):
    """A request that is refused for its size, its time or its host."""

    def __init__(self, status: int, what: str, *, expected: str, got: str | None = None, hint: str) -> None:
        self.status = status
        super().__init__(what, got=got, expected=expected, hint=hint)


def error_body(error: GlassformerError) -> dict[str, dict[str, str]]:
    """Return the parts of an error, by name."""
    parts = {"what": error.what, "where": error.where, "got": error.got, "expected": error.expected, "hint": error.hint}
    return {"error": {"kind": type(error).__name__} | {name: text for name, text in parts.items() if text is not None}}


async def refuse(send: Send, error: RequestError) -> None:
    """Send the error as the answer, and close the connection."""
    body = json.dumps(error_body(error)).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class Queue:
    """A queue of requests: one is computed at a time, and at most `waiting` wait.

    A request may wait for `seconds`, and take the same time to compute. The next one starts only when the one before
    has ended.
    """

    def __init__(self, waiting: int = WAITING, seconds: float = 60) -> None:
        self.waiting, self.seconds = waiting, seconds
        self._slots = threading.BoundedSemaphore(waiting + 1)
        self._turn = threading.Lock()
        self._running: TimeLimit | None = None
        self._is_closed = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn of this request, and compute with a time limit.

        Raises RequestError when too many wait already, the wait is too long or the server stops.
        """
        if not self._slots.acquire(blocking=False):
            what = "too many requests are waiting"
            raise RequestError(503, what, expected=f"at most {self.waiting} at once", hint="try again in a moment")
        try:
            if not self._turn.acquire(timeout=self.seconds):
                what, expected = "the requests before this one took too long", f"a wait of {self.seconds:g} seconds"
                raise RequestError(503, what, expected=expected, hint="try again in a moment")
            try:
                with time_limit(self.seconds) as self._running:
                    self._check_open()
                    yield
            except TimeLimitError:
                self._check_open()
                raise
            finally:
                self._turn.release()
        finally:
            self._slots.release()

    def close(self) -> None:
        """End the current computation, and refuse the requests that wait."""
        self._is_closed = True
        if self._running is not None:
            self._running.expire()

    def _check_open(self) -> None:
        if self._is_closed:
            raise RequestError(503, "the server is stopping", expected="a running server", hint="start it again")


class BodyLimit:
    """Answers 413 to a body that is too large, and 408 to one that does not arrive in time.

    At most `max_bytes` of a body are kept in memory.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = BODY_BYTES, seconds: float = 30) -> None:
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.seconds):
                parts = await self._read(scope, receive)
        except TimeoutError:
            what, expected = "the body of the request did not arrive in time", f"all of it in {self.seconds:g} seconds"
            await refuse(send, RequestError(408, what, expected=expected, hint="send it at once"))
            return
        except RequestError as error:
            await refuse(send, error)
            return
        waiting = iter(parts)

        async def again() -> Message:
            return next(waiting, None) or await receive()

        await self.app(scope, again, send)

    async def _read(self, scope: Scope, receive: Receive) -> list[Message]:
        """Return the messages of the whole body. Raises RequestError when it is too large."""
        what, expected = "the request is too large", f"at most {self.max_bytes:,} bytes"
        too_large = RequestError(413, what, expected=expected, hint="send fewer texts at a time")
        declared = _declared_length(scope["headers"])
        if declared > self.max_bytes:
            asks_first = any(name == b"expect" for name, _ in scope["headers"])
            if declared <= DISCARDED_BYTES and not asks_first:
                await self._discard(receive, 0)
            raise too_large
        parts: list[Message] = []
        length, is_whole = 0, False
        while not is_whole:
            message = await receive()
            parts.append(message)
            length += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if length > self.max_bytes:
                if not is_whole:
                    await self._discard(receive, length)
                raise too_large
        return parts

    async def _discard(self, receive: Receive, length: int) -> None:
        """Read and discard the rest of a body after `length` bytes: most clients read only when all is sent."""
        is_whole = False
        while not is_whole and length < DISCARDED_BYTES:
            message = await receive()
            length += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)


def _declared_length(headers: Sequence[tuple[bytes, bytes]]) -> int:
    found = dict(headers).get(b"content-length", b"0")
    return int(found) if found.isdigit() else 0
