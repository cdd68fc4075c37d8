"""Checks of the head of a request: its host, HEAD and OPTIONS."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.errors import quoted
from glassformer.server.limits import RequestError, refuse


class KnownHosts:
    """Answers 400 to a request for a host other than `hosts`, such as one of DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and "*" not in self.hosts:
            named = Headers(scope=scope).get("host", "")
            if host_name(named) not in self.hosts:
                what, expected = "the request names a host that is not this server", ", ".join(sorted(self.hosts))
                hint = "use the address that glassformer serve printed, or start it with --host"
                await refuse(send, RequestError(400, what, got=quoted(named), expected=expected, hint=hint))
                return
        await self.app(scope, receive, send)


def host_name(named: str) -> str | None:
    """Return the host of `host` or `host:port`, in lower case and for IPv6 in brackets; None when it is neither."""
    name, separator, port = named.rpartition(":")
    if separator and not named.endswith("]"):
        return name.lower() if port.isascii() and (port.isdigit() or not port) else None
    return named.lower()


class HeadAndOptions:
    """Answers HEAD like GET, of which the server leaves out the body, and OPTIONS with the methods of a path."""

    def __init__(self, app: ASGIApp, routes: Sequence[object]) -> None:
        self.app, self.routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"] if scope["type"] == "http" else ""
        if method == "OPTIONS" and (allowed := allowed_methods(self.routes, scope)):
            headers = [(b"allow", ", ".join(allowed).encode())]
            await send({"type": "http.response.start", "status": 204, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            await self.app({**scope, "method": "GET"} if method == "HEAD" else scope, receive, send)


def allowed_methods(routes: Sequence[object], scope: Scope) -> list[str]:
    """Return the methods that a path takes; all that any path takes for `*`, none where there is nothing."""
    if scope["path"] == "*":
        return ["GET", "HEAD", "OPTIONS", "POST"]
    found = [route for route in routes if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE]
    methods = {method for route in found for method in route.methods or ()}
    if "GET" in methods:
        methods.add("HEAD")
    return sorted({*methods, "OPTIONS"}) if methods else []
