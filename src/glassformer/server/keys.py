"""The API key: read from a file or the environment, and compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import stat
from hashlib import sha256
from pathlib import Path

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from glassformer.errors import UsageError
from glassformer.server.limits import RequestError, refuse

VARIABLE = "GLASSFORMER_API_KEY"
OPEN_PATHS = ("/api/health", "/api/ready")
"""Paths that need no key: probes have none."""
CHALLENGES = [(b"www-authenticate", b'Bearer realm="glassformer"'), (b"www-authenticate", b'Basic realm="glassformer"')]


def read_key(path: Path | None) -> str | None:
    """Return the key in a file, or else in the environment variable; None where there is neither.

    Raises UsageError for a file that cannot be read, and for a key that is empty or cannot be in a header.
    """
    where, text = f"the environment variable {VARIABLE}", os.environ.get(VARIABLE)
    if path is not None:
        where = str(path)
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            got = error.strerror if isinstance(error, OSError) else "bytes that are not UTF-8, or no path"
            raise UsageError("cannot read the file of the API key", where=where, got=got) from None
    if text is None:
        return None
    key = text.strip()
    if not key:
        hint = "python -c 'import secrets; print(secrets.token_urlsafe(32))' > FILE"
        raise UsageError("the API key is empty", where=where, expected="one line with the key", hint=hint)
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UsageError("the API key cannot be in a header", where=where, expected="ASCII characters without spaces")
    return key


def is_open_to_others(path: Path) -> bool:
    """Whether every user of this machine can read a file."""
    return os.name == "posix" and bool(path.stat().st_mode & stat.S_IROTH)


class KeyCheck:
    """Answers 401 to a request without the key.

    The key is in the header `Authorization: Bearer KEY`, or it is the password of Basic authentication, which a browser
    asks for when it opens the page.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self.app, self._digest = app, _digest(key.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or self._fits(Headers(scope=scope)):
            await self.app(scope, receive, send)
            return
        what = "the request has no API key, or another one"
        error = RequestError(401, what, expected="Authorization: Bearer KEY", hint="use the key of this server")
        await refuse(send, error, CHALLENGES)

    def _fits(self, headers: Headers) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        key = given.strip().encode("latin-1")
        if scheme.lower() == "basic":
            try:
                key = base64.b64decode(key, validate=True).partition(b":")[2]
            except binascii.Error:
                key = b""
        is_known = scheme.lower() in ("bearer", "basic")
        return hmac.compare_digest(_digest(key), self._digest) and is_known


def _digest(key: bytes) -> bytes:
    """Return a hash of equal length for every key: the comparison then takes the same time."""
    return sha256(key).digest()
