"""The socket and the loop."""

from __future__ import annotations

import contextlib
import errno
import socket

import uvicorn
from fastapi import FastAPI

from glassformer.errors import RunError


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 means one that is free. Raises RunError where that cannot be."""
    if not host:  # the system would take it for every address of this machine
        raise RunError("there is no address to listen at", got="an empty --host", hint="--host 127.0.0.1")
    try:
        host.encode("idna")  # as the system will
    except UnicodeError:
        raise RunError("this is no address", where=repr(host), hint="--host 127.0.0.1") from None
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            hint = f"--port {port + 1}, or --port 0 for one that is free"
            raise RunError("the port is in use", where=f"{host}:{port}", hint=hint) from None
        raise RunError(
            "cannot listen there", where=f"{host}:{port}", got=error.strerror, hint="--host 127.0.0.1"
        ) from None


def serve(app: FastAPI, listening: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=30)
    with contextlib.suppress(KeyboardInterrupt), listening:
        uvicorn.Server(config).run(sockets=[listening])
