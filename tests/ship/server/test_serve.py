"""`glassformer serve`: a real process, a real port."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from glassformer.errors import RunError
from glassformer.ship.server.run import listen
from tests.ship.server.serving import GUARD, commanded


def test_it_answers_until_it_is_interrupted(model_path: Path) -> None:
    """As it is installed; the other servers here are forked."""
    command = [sys.executable, "-m", "glassformer", "serve", model_path, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr
            found = re.search(r"http://127\.0\.0\.1:\d+", running.stderr.readline())
            assert found
            with urllib.request.urlopen(f"{found[0]}/api/health", timeout=GUARD) as answer:
                assert json.load(answer) == {"status": "ok"}
            running.send_signal(signal.SIGINT)
            running.wait(GUARD)
            rest = running.stderr.read()  # with what came together with the first line
            assert running.returncode == 0
        finally:
            running.kill()
    assert "Traceback" not in rest


@pytest.mark.parametrize("host", ["", "\udced\udca0", "a..b", "é" * 64])
def test_what_is_no_address_is_an_error(host: str) -> None:
    with pytest.raises(RunError):
        listen(host, 0)


@pytest.mark.parametrize("host", ["0", "::0"])
def test_who_listens_to_everybody_is_warned_however_it_is_spelled(model_path: Path, host: str) -> None:
    if ":" in host and not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with commanded("serve", model_path, "--port", "0", "--device", "cpu", "--host", host) as server:
        own = "[::1]" if ":" in host else "127.0.0.1"
        urllib.request.urlopen(f"http://{own}:{server.port}/api/health", timeout=GUARD).close()  # all is said by then
        server.send_signal(signal.SIGINT)
        assert server.wait() == 0
        assert "anybody who reaches this machine can use the model" in server.complaints()


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
