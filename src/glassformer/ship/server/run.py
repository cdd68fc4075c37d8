"""The socket and the event loop."""

from __future__ import annotations

import errno
import functools
import gc
import math
import socket

import uvicorn
from fastapi import FastAPI

from glassformer.errors import RunError
from glassformer.inference.batching import Worker
from glassformer.ship.server.connections import GRACE_SECONDS, Connection, Server
from glassformer.ship.server.limits import Limits


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port`; 0 means any free port. Raises RunError when it cannot."""
    if not host:  # the operating system would listen on all addresses
        raise RunError("there is no address to listen on", got="an empty --host", hint="--host 127.0.0.1")
    try:
        host.encode("idna")  # as the operating system will
    except UnicodeError:
        raise RunError("this is not an address", where=repr(host), hint="--host 127.0.0.1") from None
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = f"--port {port + 1}, or --port 0 for one that is free"
            raise RunError("the port is in use", where=f"{host}:{port}", hint=hint) from None
        raise RunError(
            "cannot listen there", where=f"{host}:{port}", got=error.strerror, hint="--host 127.0.0.1"
        ) from None


def serve(app: FastAPI, listening: socket.socket, limits: Limits, worker: Worker) -> None:
    """Answer requests until SIGINT or SIGTERM, and then finish those that the worker has accepted."""
    config = uvicorn.Config(
        app,
        http=functools.partial(Connection, limits.connections),  # type: ignore[arg-type]  # it is only called
        ws="none",
        loop="asyncio",
        log_level="critical",  # our own log has the errors; the others are those of clients
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=math.ceil(limits.drain_seconds) + GRACE_SECONDS,
        backlog=max(1, limits.connections // 4),  # accepted at once, before they count against the limit
    )
    gc.freeze()  # what was loaded stays: it is not examined again
    with listening:
        Server(config, limits, worker).run(sockets=[listening])
    worker.abort()
