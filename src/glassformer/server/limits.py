"""How large a request may be, and how many are computed at once: what is too much is refused before it is held."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import GlassformerError

BODY_BYTES = 1_000_000
FORGOTTEN_BYTES = 100_000_000  # the largest body that is read to its end, to be refused
TEXT_CHARACTERS = 10_000
TEXTS = 256
EDITS = 32
BEAMS = 32
WAITING = 16


class RequestError(GlassformerError):
    """A request that is refused for its size or its time."""

    def __init__(self, status: int, what: str, *, expected: str, hint: str) -> None:
        self.status = status
        super().__init__(what, expected=expected, hint=hint)


def error_body(error: GlassformerError) -> dict[str, dict[str, str]]:
    """The parts of an error under the names that the command line gives them."""
    parts = {"what": error.what, "where": error.where, "got": error.got, "expected": error.expected, "hint": error.hint}
    return {"error": {"kind": type(error).__name__} | {name: text for name, text in parts.items() if text is not None}}


class Queue:
    """One request is computed at a time; so many may wait."""

    def __init__(self, waiting: int = WAITING) -> None:
        self._places = threading.BoundedSemaphore(waiting + 1)
        self._turn = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for one's turn. Raises RequestError where too many wait already."""
        if not self._places.acquire(blocking=False):
            what = "too many requests are waiting"
            raise RequestError(503, what, expected=f"at most {WAITING} at once", hint="ask again in a moment")
        try:
            with self._turn:
                yield
        finally:
            self._places.release()


class BodyLimit:
    """Answers 413 to a body that says, or turns out, to be too large; no more than that is held in memory."""

    def __init__(self, app: ASGIApp, most: int = BODY_BYTES) -> None:
        self.app, self.most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        declared = _declared_length(scope["headers"])
        if declared > self.most:
            asks_first = any(name == b"expect" for name, _ in scope["headers"])
            if declared <= FORGOTTEN_BYTES and not asks_first:
                await self._forget(receive, 0)
            await self._refuse(send)
            return
        parts: list[Message] = []
        length, is_whole = 0, False
        while not is_whole:
            message = await receive()
            parts.append(message)
            length += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if length > self.most:
                if not is_whole:
                    await self._forget(receive, length)
                await self._refuse(send)
                return
        waiting = iter(parts)

        async def again() -> Message:
            return next(waiting, None) or await receive()

        await self.app(scope, again, send)

    async def _forget(self, receive: Receive, length: int) -> None:
        """Read the rest of a body of which `length` bytes are read: most clients listen only when all is sent."""
        is_whole = False
        while not is_whole and length < FORGOTTEN_BYTES:
            message = await receive()
            length += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)

    async def _refuse(self, send: Send) -> None:
        what = "the request is too large"
        error = RequestError(413, what, expected=f"at most {self.most:,} bytes", hint="send fewer texts at a time")
        body = json.dumps(error_body(error)).encode()
        headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _declared_length(headers: Sequence[tuple[bytes, bytes]]) -> int:
    found = dict(headers).get(b"content-length", b"0")
    return int(found) if found.isdigit() else 0
