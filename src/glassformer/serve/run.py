"""The socket, the connections and the end of a server: `serve(app, listening, limits, worker, reload)`.

uvicorn closes no connection that never sends a whole request: half-sent ones would take every open file. So the one
that has waited longest gives way to a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import math
import signal
import socket
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from glassformer.errors import RunError
from glassformer.inference.worker import Worker
from glassformer.serve.limits import Limits

GRACE_SECONDS = 3
"""How long connections may stay open when a server that stops has refused the rest of its requests."""

KEEP_ALIVE_SECONDS = 30
"""How long a connection may be without a request after an answer."""

HEAD_BYTES = 2**16
"""Maximum size of the request line and the headers."""

UNSENT_BYTES = 2**17
"""Maximum size of the part of an answer that the operating system has taken and cannot send yet."""

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
TOO_MANY = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


class Connection(HttpToolsProtocol):
    """An HTTP/1.1 connection with the time since which it waits.

    Above the limit, the one that has waited longest is closed; where none waits, one whose client does not read its
    answer; where there is none of these, the new one. One whose client reads too slowly is closed in any case.
    """

    def __init__(self, limits: Limits, **options: Any) -> None:
        super().__init__(**options)
        self._limits = limits
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self.since = time.monotonic()
        self._head_bytes: int | None = 0  # None after the head of a request
        super().connection_made(transport)
        opened = [each for each in cast("set[Connection]", self.connections) if not each.transport.is_closing()]
        if len(opened) > self._limits.connections:
            idle = (other for other in opened if other is not self and (other.is_waiting or other.is_unread))
            oldest = min(idle, key=lambda other: (other.is_unread, other.since), default=None)
            if oldest is None:
                transport.write(TOO_MANY)
                transport.close()
            else:
                oldest.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._patience = self.loop.call_later(self._limits.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._patience is not None:
            self._patience.cancel()

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > HEAD_BYTES:
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._head_bytes = self._head_bytes or 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.resume_writing()
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
        return not self.is_unread and (is_answered or self.cycle.more_body)

    @property
    def is_unread(self) -> bool:
        """Whether a part of an answer waits for the client to read it."""
        return self.transport.get_write_buffer_size() > 0


class Server(uvicorn.Server):
    """A uvicorn server that ends in order.

    After SIGINT or SIGTERM it finishes the requests that it accepted, for `drain_seconds`; the rest get 503 then. At a
    second signal it ends at once. At SIGHUP `reload` is called in another thread.
    """

    def __init__(self, config: uvicorn.Config, limits: Limits, worker: Worker, reload: Callable[[], None]) -> None:
        super().__init__(config)
        self._limits, self._worker, self._reload = limits, worker, reload

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        with contextlib.suppress(AttributeError, NotImplementedError):  # Windows has no such signal
            loop.add_signal_handler(signal.SIGHUP, lambda: loop.run_in_executor(None, self._reload))

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002  # uvicorn's raises it again
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for connection in list(cast("set[Connection]", self.server_state.connections)):
            if connection.is_waiting:
                connection.transport.abort()
        asyncio.get_running_loop().call_later(self._limits.drain_seconds, self._worker.abort)
        await super().shutdown(sockets)


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`; 0 means any free port. Raises RunError when it cannot."""
    if not host:  # the operating system would listen on all addresses
        raise RunError("there is no address to listen on", got="an empty --host", hint="--host 127.0.0.1")
    try:
        host.encode("idna")  # as the operating system will
    except UnicodeError:
        raise RunError("this is not an address", where=repr(host), hint="--host 127.0.0.1") from None
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = f"--port {port + 1}, or --port 0 for one that is free"
            raise RunError("the port is in use", where=f"{host}:{port}", hint=hint) from None
        raise RunError(
            "cannot listen there", where=f"{host}:{port}", got=error.strerror, hint="--host 127.0.0.1"
        ) from None
    # Connections inherit it; asyncio sets it only on sockets that name their protocol. Without it, an answer on a kept
    # connection waits 40 ms until its headers are acknowledged.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(AttributeError):  # else the system takes MBs of an answer that is read slowly
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    return listening


def serve(app: FastAPI, listening: socket.socket, limits: Limits, worker: Worker, reload: Callable[[], None]) -> None:
    """Answer requests until SIGINT or SIGTERM, and then finish those that the worker has accepted.

    `reload` is called at SIGHUP.
    """
    config = uvicorn.Config(
        app,
        http=functools.partial(Connection, limits),  # type: ignore[arg-type]  # it is only called
        ws="none",
        loop="asyncio",
        log_level="critical",  # our own log has the errors; the others are those of clients
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=math.ceil(limits.drain_seconds) + GRACE_SECONDS,
        backlog=max(1, limits.connections // 4),  # accepted at once, before they count against the limit
    )
    gc.freeze()  # what was loaded stays: it is not examined again
    with listening:
        Server(config, limits, worker, reload).run(sockets=[listening])
    worker.abort()
