"""The check of the host that a request names."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.errors import quoted
from glassformer.ship.server.limits import RequestError, refuse


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
