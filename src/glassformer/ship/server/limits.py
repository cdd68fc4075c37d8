"""Limits: size and time of a request, and the number of requests that wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import BusyError, GlassformerError, TextError, TimeLimitError, UsageError
from glassformer.inference.batching import WAITING

BODY_BYTES = 1_000_000
DISCARDED_BYTES = 100_000_000  # maximum size of a refused body that is read to its end
TEXT_CHARACTERS = 10_000
TEXTS = 256
INPUTS = 1_000  # of one source
EDITS = 32
BEAMS = 32
DRAIN_SECONDS = 25  # Kubernetes kills a container 30 seconds after SIGTERM
RETRY_SECONDS = 1
MAX_CONNECTIONS = 512


def default_connections() -> int:
    """Return half of the maximum number of open files of this process, at most MAX_CONNECTIONS."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files != resource.RLIM_INFINITY:
            return max(1, min(MAX_CONNECTIONS, files // 2))
    return MAX_CONNECTIONS


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    `compute_seconds` limits the computation of one request, and its wait before that; `body_seconds` the arrival of the
    body. A connection that sends no request for `idle_seconds`, or reads no bytes of an answer, is closed. At shutdown,
    requests that were accepted are finished for `drain_seconds`. `connections` is the maximum number of open ones; by
    default half of the open files of the process, at most MAX_CONNECTIONS.
    """

    body_bytes: int = BODY_BYTES
    body_seconds: float = 30
    compute_seconds: float = 60
    idle_seconds: float = 30
    drain_seconds: float = DRAIN_SECONDS
    waiting: int = WAITING
    connections: int = field(default_factory=default_connections)


class RequestError(GlassformerError):
    """A request that is refused for its size, its time, its host or its model."""

    def __init__(self, status: int, what: str, *, expected: str, got: str | None = None, hint: str) -> None:
        self.status = status
        super().__init__(what, got=got, expected=expected, hint=hint)


def status_of(error: GlassformerError) -> int:
    """Return the status of the answer to a request that failed."""
    if isinstance(error, RequestError):
        return error.status
    statuses = [(UsageError, 400), (TextError, 422), (TimeLimitError, 504), (BusyError, 503)]
    return next((status for kind, status in statuses if isinstance(error, kind)), 500)


def headers_of(status: int) -> dict[str, str]:
    """Return the headers that an answer with this status has in addition."""
    return {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}


def error_body(error: GlassformerError) -> dict[str, dict[str, str]]:
    """Return the parts of an error, by name."""
    parts = {"what": error.what, "where": error.where, "got": error.got, "expected": error.expected, "hint": error.hint}
    return {"error": {"kind": type(error).__name__} | {name: text for name, text in parts.items() if text is not None}}


async def refuse(send: Send, error: RequestError, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """Send the error as the answer, and close the connection."""
    body = json.dumps(error_body(error)).encode()
    own = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})


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
