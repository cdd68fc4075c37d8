"""A real process, a real port: clients that are slow, silent or wrong do not disturb the others; signals end it."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("resource")

from glassformer.errors import RunError
from glassformer.serve.limits import Limits
from glassformer.serve.run import HEAD_BYTES, listen
from glassformer.settings import ModelSettings
from tests.serve.serving import GUARD, Running, commanded, post_request, read_all, read_answer, running
from tests.untrained import character_model

BODY = json.dumps({"texts": ["abc"], "num_beams": 1}).encode()
HEAD = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"POST /v1/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
REQUEST = HEAD % len(BODY) + BODY
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def server(model_path: Path) -> Iterator[Running]:
    """A server for slow clients, with a maximum of 4 MB. It says nothing: no client makes an error of it."""
    with running(model_path, body_bytes=4_000_000, body_seconds=GUARD) as started:
        yield started
        assert 'status="5' not in started.text("/metrics")
        assert started.complaints() == ""


def ask(server: Running) -> object:
    with server.connect() as opened:
        opened.sendall(REQUEST)
        status, answer = read_answer(opened)
    assert status == 200
    return answer["answers"][0]["text"]


def ask_health(opened: socket.socket) -> None:
    opened.sendall(HEALTH)
    assert read_answer(opened) == (200, {"status": "ok"})


def test_a_body_without_end_is_refused_and_the_others_are_served(server: Running) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with server.connect() as endless:
        endless.sendall(CHUNKED)
        n_chunks = 0
        with contextlib.suppress(ConnectionError):
            while n_chunks < 10_000:
                endless.sendall(chunk)
                n_chunks += 1
                if n_chunks in (10, 50):
                    assert server.get() == {"status": "ok"}
        assert 60 < n_chunks < 10_000
        assert server.text("/metrics").count('route="/v1/translate",status="413"} 1.0') == 1


def test_a_body_or_a_head_that_is_far_too_large_gets_its_answer(server: Running) -> None:
    with server.connect() as opened:
        opened.sendall(HEAD % 30_000_000 + bytes(30_000_000))
        assert read_answer(opened)[0] == 413
    with server.connect() as opened:
        opened.sendall(HEALTH[:-2] + b"A: " + b"x" * (HEAD_BYTES + 10))
        assert read_all(opened).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


def test_a_client_that_sends_byte_by_byte_gets_its_answer_and_keeps_nobody_waiting(server: Running) -> None:
    expected = ask(server)
    with server.connect() as slow:
        for position in range(len(REQUEST)):
            if position % 50 == 0 or position == len(REQUEST) - 1:
                assert ask(server) == expected
            slow.sendall(REQUEST[position : position + 1])
        assert read_answer(slow)[1]["answers"][0]["text"] == expected


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
        HEALTH[:-2] + b"X: y\r\n" * 20_000,
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n",
        HEAD % 10 + BODY + b"\0" * 100,
        HEAD.replace(b"%d", b"9" * 100),
        REQUEST.replace(b"Content-Length", b"Content-Length: 1\r\nContent-Length"),
        REQUEST.replace(b"Content-Length", b"Transfer-Encoding: chunked\r\nContent-Length"),
        CHUNKED + b"zz\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        b"\r\n" * 100_000,
    ],
)
def test_nonsense_is_refused_and_the_others_are_served(server: Running, request_bytes: bytes) -> None:
    expected = ask(server)
    with server.connect() as opened, contextlib.suppress(OSError):  # the server may have closed the connection already
        opened.sendall(request_bytes)
        opened.shutdown(socket.SHUT_WR)
        assert not read_all(opened).startswith(b"HTTP/1.1 5")
    assert ask(server) == expected


def test_a_body_that_does_not_arrive_is_answered_with_408(model_path: Path) -> None:
    with running(model_path, body_seconds=0.3) as server:
        for length in (100, 2_000_000):
            with server.connect() as opened:
                opened.sendall(HEAD % length + b'{"texts": [')
                answer = read_all(opened)
            assert answer.startswith(b"HTTP/1.1 408 ")
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert error["what"] == "the body of the request did not arrive in time"
            assert error["expected"] == "all of it in 0.3 seconds"
        assert server.get() == {"status": "ok"}
        assert server.complaints() == ""


def test_the_connection_that_waited_longest_gives_way(model_path: Path) -> None:
    with running(model_path, connections=2) as server, server.connect() as first:
        ask_health(first)
        with server.connect() as second, server.connect() as third:
            ask_health(third)
            assert read_all(first) == b""
            ask_health(second)


def test_a_connection_whose_client_does_not_read_gives_way(model_path: Path) -> None:
    with running(model_path, connections=1) as server, server.connect() as deaf:
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3000)  # more than the buffers of a socket hold
        time.sleep(1)  # until they are full
        end, answer = time.monotonic() + GUARD, b""
        while not answer.startswith(b"HTTP/1.1 200 "):
            assert time.monotonic() < end
            with server.connect() as other, contextlib.suppress(ConnectionError):
                other.sendall(HEALTH)
                answer = other.recv(100)


@pytest.fixture(scope="module")
def slow_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose trace of a long text takes a minute."""
    model = ModelSettings(d_model=256, d_ff=256, n_heads=2, n_encoder_layers=1, n_decoder_layers=12, norm="pre")
    path = tmp_path_factory.mktemp("slow") / "model.safetensors"
    character_model("abcdefg", model=model, decoding={"max_new_tokens": 1000}, scale=0.1).save(path)
    return path


SLOW = {"text": "abcdefg" * 60, "num_beams": 32}


@contextlib.contextmanager
def computing(server: Running) -> Iterator[socket.socket]:
    """A connection whose request is computed, since another one waits."""
    with server.post("/v1/trace", SLOW) as opened, server.post("/v1/trace", SLOW):
        wait_until_waiting(server, 1)
        yield opened


def wait_until_waiting(server: Running, n_requests: int) -> None:
    while f"glassformer_waiting_requests {n_requests}.0" not in server.text("/metrics"):
        time.sleep(0.01)


def wait_until_refused(server: Running) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            server.connect().close()
            time.sleep(0.01)


def test_a_connection_for_which_there_is_no_room_gets_503(slow_model: Path) -> None:
    with running(slow_model, connections=1) as server, server.connect() as opened:
        ask_health(opened)
        opened.sendall(post_request("/v1/trace", SLOW))  # until then it might be closed for another one
        with server.connect() as other:
            assert read_all(other).startswith(b"HTTP/1.1 503 ")


def test_a_signal_ends_a_server_that_computes_for_too_long(slow_model: Path) -> None:
    with running(slow_model, compute_seconds=3600, drain_seconds=0.3) as server:
        with computing(server) as opened:
            server.send_signal(signal.SIGTERM)
            assert read_answer(opened)[0] == 503
        assert server.wait() == 0
        assert server.complaints() == ""


def test_a_second_signal_ends_the_computation_at_once(slow_model: Path) -> None:
    with running(slow_model, compute_seconds=3600, drain_seconds=3600) as server:
        with computing(server) as opened:
            server.send_signal(signal.SIGINT)
            wait_until_refused(server)  # else both signals might be one
            server.send_signal(signal.SIGINT)
            assert not read_all(opened).startswith(b"HTTP/1.1 200")
        assert server.wait() == 0


def test_a_server_that_stops_finishes_what_it_accepted_and_refuses_the_rest(slow_model: Path) -> None:
    body = {"texts": ["abcdefg"], "num_beams": 1}
    with running(slow_model, compute_seconds=3600, drain_seconds=3600) as server, server.connect() as idle:
        with server.post("/v1/trace", SLOW) as first, server.post("/v1/translate", body) as accepted:
            wait_until_waiting(server, 1)
            server.send_signal(signal.SIGTERM)
            wait_until_refused(server)
            first.close()  # which ends its computation
            status, found = read_answer(accepted)
            assert (status, len(found["answers"])) == (200, 1)
        assert read_all(idle) == b""
        assert server.wait() == 0
        assert server.complaints() == ""


def test_the_work_of_a_client_that_leaves_is_ended_and_leaves_the_queue(slow_model: Path) -> None:
    with running(slow_model, compute_seconds=3600) as server:
        clients = [server.post("/v1/trace", SLOW) for _ in range(3)]
        wait_until_waiting(server, 2)
        for opened in clients:
            opened.close()
        with server.post("/v1/translate", {"texts": [""]}) as stays:
            assert read_answer(stays)[0] == 200
        counted = 'glassformer_requests_total{method="POST",route="/v1/trace",status="499"} 3.0'
        assert counted in server.text("/metrics")
        assert server.complaints() == ""


def test_the_limit_of_connections_is_half_of_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for files, connections in ((256, 128), (resource.RLIM_INFINITY, 512), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _kind, files=files: (files, files))
        assert Limits().connections == connections


# `glassformer serve`


@pytest.mark.parametrize("host", ["", "\udced\udca0", "a..b", "é" * 64])
def test_what_is_no_address_is_an_error(host: str) -> None:
    with pytest.raises(RunError):
        listen(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "::0" if socket.has_dualstack_ipv6() else "0"])
def test_it_answers_until_it_is_interrupted_and_warns_who_listens_to_everybody(model_path: Path, host: str) -> None:
    with commanded("serve", model_path, "--port", "0", "--device", "cpu", "--host", host) as server:
        with socket.create_connection(("::1" if ":" in host else "127.0.0.1", server.port), timeout=GUARD) as opened:
            ask_health(opened)
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0
        warning = "anybody who reaches this machine can use the model"
        assert (warning in server.complaints()) == (host != "127.0.0.1")
        assert "Traceback" not in server.complaints()


def test_an_address_that_is_in_use_or_not_ours_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match="the port is in use") as caught:
            listen("127.0.0.1", port)
    assert f"--port {port + 1}" in str(caught.value)
    with pytest.raises(RunError, match="cannot listen there"):
        listen("192.0.2.1", 0)


def test_a_connection_sends_what_it_has_without_waiting_for_an_acknowledgment() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
