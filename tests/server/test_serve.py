"""`glassformer serve`: a real process, a real port."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
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


def test_a_body_that_is_far_too_large_gets_its_answer(model_path: Path) -> None:
    command = [sys.executable, "-m", "glassformer", "serve", model_path, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        address = re.search(r"http://127\.0\.0\.1:\d+", running.stderr.readline())
        assert address
        request = urllib.request.Request(f"{address[0]}/api/translate", data=b"x" * 30_000_000)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=30)
        running.send_signal(signal.SIGINT)
        caught.value.close()
    assert caught.value.code == 413


@pytest.mark.parametrize("host", ["", "\udced\udca0", "a..b", "é" * 64])
def test_what_is_no_address_is_an_error(host: str) -> None:
    with pytest.raises(RunError):
        listen(host, 0)


@pytest.mark.parametrize("host", ["0", "::0", "0.0.0.0"])
def test_who_listens_to_everybody_is_warned_however_it_is_spelled(model_path: Path, host: str) -> None:
    command = [sys.executable, "-m", "glassformer", "serve", model_path, "--port", "0", "--host", host]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr
        said = running.stderr.readline() + running.stderr.readline()
        running.send_signal(signal.SIGINT)
    assert "anybody who reaches this machine can use the model" in said


def test_a_port_in_use_is_an_error_that_names_another() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match="the port is in use") as caught:
            listen("127.0.0.1", port)
    assert f"--port {port + 1}" in str(caught.value)


def test_an_address_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(RunError, match="cannot listen there"):
        listen("192.0.2.1", 0)
