"""`glassformer serve`: a real process, a real port."""

from __future__ import annotations

import json
import signal
import socket
import urllib.request
from pathlib import Path

import pytest

from glassformer.errors import RunError
from glassformer.serve.run import listen
from tests.serve.serving import GUARD, commanded


@pytest.mark.parametrize("host", ["", "\udced\udca0", "a..b", "é" * 64])
def test_what_is_no_address_is_an_error(host: str) -> None:
    with pytest.raises(RunError):
        listen(host, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "0", "::0"])
def test_it_answers_until_it_is_interrupted_and_warns_who_listens_to_everybody(model_path: Path, host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with commanded("serve", model_path, "--port", "0", "--device", "cpu", "--host", host) as server:
        own = "[::1]" if ":" in host else "127.0.0.1"
        with urllib.request.urlopen(f"http://{own}:{server.port}/api/health", timeout=GUARD) as answer:
            assert json.load(answer) == {"status": "ok"}
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
