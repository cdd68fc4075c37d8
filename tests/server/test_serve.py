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
from glassformer.server.run import listen


def test_it_answers_until_it_is_interrupted(model_path: Path) -> None:
    command = [sys.executable, "-m", "glassformer", "serve", model_path, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        address = re.search(r"http://127\.0\.0\.1:\d+", running.stderr.readline())
        assert address
        with urllib.request.urlopen(f"{address[0]}/api/health", timeout=10) as answer:
            assert json.load(answer) == {"status": "ok"}
        running.send_signal(signal.SIGINT)
        said = running.stderr.read()
        assert running.wait(10) == 0
    assert "Traceback" not in said


def test_a_port_in_use_is_an_error_that_names_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match="the port is in use") as caught:
            listen("127.0.0.1", port)
    assert f"--port {port + 1}" in str(caught.value)


def test_an_address_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(RunError, match="cannot listen there"):
        listen("192.0.2.1", 0)
