"""Clients that do nothing, or only half of it, do not keep the others waiting: a real process, a real port."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("resource")

from glassformer.serve.limits import Limits
from glassformer.serve.run import HEAD_BYTES
from glassformer.settings import ModelSettings
from tests.serve.serving import GUARD, Running, post_request, read_all, read_answer, running
from tests.untrained import character_model


@pytest.fixture(scope="module")
def patient(model_path: Path) -> Iterator[Running]:
    """A server with the default limits, but for slow clients on a slow machine, and a maximum of 4 MB."""
    with running(model_path, body_bytes=4_000_000, body_seconds=GUARD) as server:
        yield server


def test_a_body_without_end_is_refused_and_the_others_are_served(patient: Running) -> None:
    head = b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with patient.connect() as endless:
        endless.sendall(head)
        n_chunks = 0
        with contextlib.suppress(ConnectionError):
            while n_chunks < 10_000:
                endless.sendall(chunk)
                n_chunks += 1
                if n_chunks in (10, 50):
                    assert patient.get() == {"status": "ok"}
        assert 60 < n_chunks < 10_000
        assert patient.text("/metrics").count('route="/api/translate",status="413"} 1.0') == 1
        assert patient.complaints() == ""


def test_a_body_that_is_far_too_large_gets_its_answer(patient: Running) -> None:
    with patient.connect() as opened:
        opened.sendall(b"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30000000\r\n\r\n")
        opened.sendall(bytes(30_000_000))
        assert read_answer(opened)[0] == 413


def test_a_large_head_is_answered_with_431(patient: Running) -> None:
    with patient.connect() as opened:
        opened.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\nA: " + b"x" * (HEAD_BYTES + 10))
        assert read_all(opened).startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")


def test_a_body_that_does_not_arrive_is_answered_with_408(model_path: Path) -> None:
    with running(model_path, body_seconds=0.5) as server:
        for length in (100, 2_000_000):
            with server.connect() as opened:
                head = f"POST /api/translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
                opened.sendall(head.encode() + b'{"texts": [')
                answer = read_all(opened)
            assert answer.startswith(b"HTTP/1.1 408 ")
            error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
            assert error["what"] == "the body of the request did not arrive in time"
            assert error["expected"] == "all of it in 0.5 seconds"
        assert server.get() == {"status": "ok"}
        assert server.complaints() == ""


def test_the_connection_that_waited_longest_gives_way(model_path: Path) -> None:
    request = b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with running(model_path, connections=2) as server, server.connect() as first:
        first.sendall(request)
        assert read_answer(first) == (200, {"status": "ok"})
        with server.connect() as second, server.connect() as third:
            third.sendall(request)
            assert read_answer(third) == (200, {"status": "ok"})
            assert read_all(first) == b""
            second.sendall(request)
            assert read_answer(second) == (200, {"status": "ok"})


def test_a_connection_whose_client_does_not_read_gives_way(model_path: Path) -> None:
    with running(model_path, connections=1) as server, server.connect() as deaf:
        deaf.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 3000)  # more than the buffers of a socket hold
        time.sleep(2)  # until they are full
        end, answer = time.monotonic() + GUARD, b""
        while not answer.startswith(b"HTTP/1.1 200 "):
            assert time.monotonic() < end
            with server.connect() as other, contextlib.suppress(ConnectionError):
                other.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
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
    with server.post("/api/trace", SLOW) as opened, server.post("/api/trace", SLOW):
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
        opened.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert read_answer(opened) == (200, {"status": "ok"})
        opened.sendall(post_request("/api/trace", SLOW))  # until then it might be closed for another one
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
        with server.post("/api/trace", SLOW) as first, server.post("/api/translate", body) as accepted:
            wait_until_waiting(server, 1)
            server.send_signal(signal.SIGTERM)
            wait_until_refused(server)
            first.close()  # which ends its computation
            status, found = read_answer(accepted)
            assert (status, len(found["translations"])) == (200, 1)
        assert read_all(idle) == b""
        assert server.wait() == 0
        assert server.complaints() == ""


def test_the_work_of_a_client_that_leaves_is_ended_and_leaves_the_queue(slow_model: Path) -> None:
    with running(slow_model, compute_seconds=3600) as server:
        clients = [server.post("/api/trace", SLOW) for _ in range(3)]
        wait_until_waiting(server, 2)
        for opened in clients:
            opened.close()
        with server.post("/api/translate", {"texts": [""]}) as stays:
            assert read_answer(stays)[0] == 200
        assert 'glassformer_requests_total{method="POST",route="/api/trace",status="499"} 3.0' in server.text(
            "/metrics"
        )
        assert server.complaints() == ""


def test_the_limit_of_connections_is_half_of_the_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for files, wanted in ((256, 128), (resource.RLIM_INFINITY, 512), (1, 1)):
        monkeypatch.setattr(resource, "getrlimit", lambda _kind, files=files: (files, files))
        assert Limits().connections == wanted
