"""The connections of a server: their maximum number, and the end of idle ones.

uvicorn limits neither: a connection that never sends a request stays open, and when the process has no file left,
asyncio logs a traceback for each connection that it cannot accept.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import time
from contextlib import suppress
from http import HTTPStatus
from types import FrameType
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from glassformer.batching import Worker
from glassformer.server.limits import Limits, RequestError, error_body, headers_of

LOGGER = logging.getLogger(__name__)
MAX_CONNECTIONS = 512
ACCEPTED_AT_ONCE = 16  # in one iteration of the loop, before they count against the limit
PENDING = 128  # connections that the system holds until they are accepted
GRACE_SECONDS = 3
IDLE_TICKS = 10  # of a tenth of a second: the time between two searches for idle connections
HEAD_BYTES = 2**16  # maximum size of the request line and the headers
NO_FILES_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def default_connections() -> int:
    """Return half of the maximum number of open files of this process, at most 512."""
    with suppress(ImportError):  # Windows has no such limit
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files != resource.RLIM_INFINITY:
            return max(1, min(MAX_CONNECTIONS, files // 2))
    return MAX_CONNECTIONS


def _busy(limit: int) -> bytes:
    """Return the answer to a connection above the limit."""
    what, expected = "too many connections are open", f"at most {limit} at once"
    return _refusal(RequestError(503, what, expected=expected, hint="try again in a moment"))


def _refusal(error: RequestError) -> bytes:
    """Return the answer to a connection that is closed before there is a request."""
    body, status = json.dumps(error_body(error)).encode(), HTTPStatus(error.status)
    head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers_of(error.status).items())
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Connections(ServerState):
    """All connections of a server. Above the limit, the one that has waited longest is closed."""

    def __init__(self, limits: Limits) -> None:
        super().__init__()
        self.limit = limits.connections or default_connections()
        self.idle_seconds = limits.idle_seconds

    def accept(self, new: Connection) -> bool:
        """Return whether a new connection may stay, after closing another one if necessary."""
        others = [other for other in self._all() if other is not new and not other.transport.is_closing()]
        if len(others) < self.limit:
            return True
        waiting = (other for other in others if other.is_waiting)
        oldest = min(waiting, key=lambda other: other.since, default=None)
        if oldest is not None:
            oldest.transport.abort()
        return oldest is not None

    def close_idle(self) -> None:
        """Close connections that have neither sent a request nor read a part of an answer for `idle_seconds`."""
        now = time.monotonic()
        for connection in self._all():
            if connection.idle_since(now) < now - self.idle_seconds:
                connection.transport.abort()

    def abort(self) -> None:
        """Close all connections."""
        for connection in self._all():
            connection.transport.abort()

    def _all(self) -> list[Connection]:
        return [connection for connection in self.connections if isinstance(connection, Connection)]


class Connection(HttpToolsProtocol):
    """An HTTP/1.1 connection with the time since which it waits."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self.since = time.monotonic()
        self._unsent = 0
        self._head_bytes: int | None = 0  # None after the head of a request
        super().connection_made(transport)
        state = self.server_state
        if isinstance(state, Connections) and not state.accept(self):
            transport.write(_busy(state.limit))
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > HEAD_BYTES:
            what, expected = "the head of the request is too large", f"at most {HEAD_BYTES:,} bytes"
            self.transport.write(_refusal(RequestError(431, what, expected=expected, hint="send fewer headers")))
            self.transport.close()

    def on_message_begin(self) -> None:
        self._head_bytes = self._head_bytes or 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.cycle is not None and not self.cycle.response_complete:
            task = cast(dict[str, Any], self.cycle.scope).get("task")
            if task is not None:
                task.cancel()  # so that its work leaves the queue

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        super().on_response_complete()

    @property
    def is_waiting(self) -> bool:
        """Whether no complete request has arrived since the last answer, and that answer is sent."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return self.transport.get_write_buffer_size() == 0 and (is_answered or self.cycle.more_body)

    def idle_since(self, now: float) -> float:
        """Return the time of the last activity; `now` while a request is read or computed, under other limits."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent:
            self._unsent, self.since = unsent, now
        is_busy = self.cycle is not None and not self.cycle.response_complete and not unsent
        return now if is_busy else self.since


class Server(uvicorn.Server):
    """A uvicorn server with limits, which stops when the requests that it accepted are answered.

    After SIGINT or SIGTERM, new requests get 503, and those that the worker has are finished for `drain_seconds`. The
    rest get 503 then, or at a second signal.
    """

    def __init__(self, config: uvicorn.Config, limits: Limits, worker: Worker) -> None:
        super().__init__(config)
        self.connections = self.server_state = Connections(limits)
        self._worker, self._drain_seconds = worker, limits.drain_seconds
        self._n_signals, self._drain_end = 0, float("inf")
        self._reported = -float("inf")

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(self._report)
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(PENDING)

    async def on_tick(self, counter: int) -> bool:
        if counter % IDLE_TICKS == 0:
            self.connections.close_idle()
        return await super().on_tick(counter) and self._is_drained()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self._n_signals += 1
        self.should_exit = True

    def _is_drained(self) -> bool:
        """Whether to stop now: all accepted requests are computed, their time has passed, or a second signal came."""
        if not self._worker.is_closed:
            self._worker.drain()
            self._drain_end = time.monotonic() + self._drain_seconds
        return self._worker.is_idle or self._n_signals > 1 or time.monotonic() > self._drain_end

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._worker.abort()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self.connections.abort)
        await super().shutdown(sockets)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an error outside of any request; once a minute that no file is left, after which asyncio retries."""
        error, now = context.get("exception"), time.monotonic()
        if not (isinstance(error, OSError) and error.errno in NO_FILES_LEFT):
            loop.default_exception_handler(context)
        elif now - self._reported > 60:
            self._reported = now
            LOGGER.error("cannot accept a connection: %s", error.strerror)
