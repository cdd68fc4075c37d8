"""Clients that are slow, leave in the middle of a request, or send nonsense: the others are served as before."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("resource")

from tests.serve.serving import GUARD, Running, read_all, read_answer, running

BODY = json.dumps({"texts": ["abc"], "num_beams": 1}).encode()
HEAD = (
    b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
)
REQUEST = HEAD % len(BODY) + BODY


@pytest.fixture(scope="module")
def server(model_path: Path) -> Iterator[Running]:
    """A server that has said nothing at the end: no client made an error of it."""
    with running(model_path, body_seconds=GUARD) as found:
        yield found
        assert 'status="5' not in found.text("/metrics")
        assert found.complaints() == ""


def ask(server: Running) -> object:
    with server.connect() as opened:
        opened.sendall(REQUEST)
        status, answer = read_answer(opened)
    assert status == 200
    return answer["translations"][0]["text"]


def test_a_client_that_sends_byte_by_byte_gets_its_answer_and_keeps_nobody_waiting(server: Running) -> None:
    expected = ask(server)
    with server.connect() as slow:
        for position in range(len(REQUEST)):
            if position % 50 == 0 or position == len(REQUEST) - 1:
                assert ask(server) == expected
            slow.sendall(REQUEST[position : position + 1])
        assert read_answer(slow)[1]["translations"][0]["text"] == expected


def test_clients_that_leave_anywhere_in_a_request_are_forgotten(server: Running) -> None:
    expected = ask(server)
    for length in (0, 1, 20, len(REQUEST) - len(BODY), len(REQUEST) - 1, len(REQUEST)):
        with server.connect() as opened:
            opened.sendall(REQUEST[:length])
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
        with server.connect() as opened:
            opened.sendall(REQUEST[:length])
        assert ask(server) == expected


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100),  # TLS
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20_000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200_000,
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n",
        HEAD % 10 + BODY + b"\0" * 100,
        HEAD.replace(b"%d", b"-1"),
        HEAD.replace(b"%d", b"9" * 100),
        REQUEST.replace(b"Content-Length", b"Content-Length: 1\r\nContent-Length"),
        REQUEST.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
        b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        b"\r\n" * 100_000,
    ],
)
def test_nonsense_is_refused_and_the_others_are_served(server: Running, request_bytes: bytes) -> None:
    expected = ask(server)
    with server.connect() as opened:
        try:
            opened.sendall(request_bytes)
            opened.shutdown(socket.SHUT_WR)
        except OSError:  # the server has closed the connection already
            pass
        else:
            answer = read_all(opened)
            assert not answer.startswith(b"HTTP/1.1 5")
    assert ask(server) == expected
