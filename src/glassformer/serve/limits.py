"""Limits: the size, the time and the host of a request, and the number of requests that wait."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from glassformer.errors import BusyError, GlassformerError, TextError, TimeLimitError, UsageError, quoted
from glassformer.inference.worker import WAITING

BODY_BYTES = 1_000_000
DISCARDED_BYTES = 100_000_000  # maximum size of a refused body that is read to its end
TEXT_CHARACTERS = 10_000
TEXTS = 256
INPUTS = 1_000  # of one source
EDITS = 32
BEAMS = 32
CHOICES = 10_000
TRACES = 8  # computed or written at once
READ_SECONDS = 30  # for the next part of an answer, of about 100 kB
TRACE_SECONDS = 45  # to read a trace: less than the next one waits for its turn
DRAIN_SECONDS = 25  # Kubernetes kills a container 30 seconds after SIGTERM
MAX_CONNECTIONS = 512
_COMMAND = re.compile(r"(?<!\w)--\w|glassformer \w|\btrain\b")  # of the command line
_OR_TRAIN = re.compile(r",? or train .*", re.DOTALL)  # which no client can do


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
    body. At shutdown, requests that were accepted are finished for `drain_seconds`. `connections` is the maximum number
    of open ones; by default half of the open files of the process, at most MAX_CONNECTIONS. `read_seconds` is how long
    an answer may wait for its client to read the next part of it, `trace_seconds` how long the client may take for a
    whole trace; `traces` are computed or written at once.
    """

    body_bytes: int = BODY_BYTES
    body_seconds: float = 30
    compute_seconds: float = 60
    drain_seconds: float = DRAIN_SECONDS
    waiting: int = WAITING
    connections: int = field(default_factory=default_connections)
    read_seconds: float = READ_SECONDS
    trace_seconds: float = TRACE_SECONDS
    traces: int = TRACES


class RequestError(GlassformerError):
    """A request that is refused for its size, its time, its host or its model."""

    def __init__(self, status: int, what: str, *, expected: str, got: str | None = None, hint: str) -> None:
        self.status = status
        super().__init__(what, got=got, expected=expected, hint=hint)


def error_body(error: GlassformerError, names: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """Return the parts of an error, by name, for a client: without hints for the command line.

    `names` are those of models, by their paths, which are of no use to a client.
    """
    parts = {"what": error.what, "where": error.where, "got": error.got, "expected": error.expected}
    hint = _OR_TRAIN.sub("", error.hint or "")
    if hint and not _COMMAND.search(hint):
        parts["hint"] = hint.replace("decoding.", "")
    texts = {"kind": type(error).__name__} | {part: text for part, text in parts.items() if text is not None}
    for path, name in (names or {}).items():
        texts = {part: text.replace(path, name) for part, text in texts.items()}
    return {"error": texts}


def error_response(
    error: GlassformerError, headers: Mapping[str, str] | None = None, names: Mapping[str, str] | None = None
) -> Response:
    """Return an error as JSON in ASCII: what a request contains may not be UTF-8."""
    statuses = [(UsageError, 400), (TextError, 422), (TimeLimitError, 504), (BusyError, 503), (GlassformerError, 500)]
    status = next(status for kind, status in statuses if isinstance(error, kind))
    if isinstance(error, RequestError):
        status = error.status
    return Response(json.dumps(error_body(error, names)), status, headers, media_type="application/json")


async def refuse(scope: Scope, receive: Receive, send: Send, error: RequestError) -> None:
    """Send the error as the answer, and close the connection."""
    await error_response(error, {"connection": "close"})(scope, receive, send)


class KnownHosts:
    """Answers 400 to a request for a host other than `hosts`, such as one of DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "*" not in self.hosts:
            host = Headers(scope=scope).get("host", "")
            if host_name(host) not in self.hosts:
                what, expected = "the request names a host that is not this server", ", ".join(sorted(self.hosts))
                hint = "send one of these in the header Host"
                await refuse(
                    scope, receive, send, RequestError(400, what, got=quoted(host), expected=expected, hint=hint)
                )
                return
        await self.app(scope, receive, send)


def host_name(host: str) -> str | None:
    """Return the host of `host` or `host:port`, in lower case and for IPv6 in brackets; None when it is neither."""
    name, separator, port = host.rpartition(":")
    if separator and not host.endswith("]"):
        return name.lower() if port.isascii() and (port.isdigit() or not port) else None
    return host.lower()


class BodyLimit:
    """Answers 413 to a body that is too large, and 408 to one that does not arrive in time.

    At most `max_bytes` of a body are kept in memory. The rest is read and discarded: most clients read an answer only
    when all is sent.
    """

    def __init__(self, app: ASGIApp, max_bytes: int = BODY_BYTES, seconds: float = 30) -> None:
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.seconds):
                parts = iter(await self._read(receive))
        except TimeoutError:
            what, expected = "the body of the request did not arrive in time", f"all of it in {self.seconds:g} seconds"
            await refuse(scope, receive, send, RequestError(408, what, expected=expected, hint="send it at once"))
        except RequestError as error:
            await refuse(scope, receive, send, error)
        else:

            async def again() -> Message:
                return next(parts, None) or await receive()

            await self.app(scope, again, send)

    async def _read(self, receive: Receive) -> list[Message]:
        """Return the messages of the whole body. Raises RequestError when it is too large."""
        parts: list[Message] = []
        length, is_whole = 0, False
        while not is_whole and length <= DISCARDED_BYTES:
            message = await receive()
            is_whole = not message.get("more_body", False)
            length += len(message.get("body", b""))
            if length <= self.max_bytes:
                parts.append(message)
        if length > self.max_bytes:
            expected = f"at most {self.max_bytes:,} bytes"
            raise RequestError(413, "the request is too large", expected=expected, hint="send fewer texts at a time")
        return parts
