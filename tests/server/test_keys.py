"""The API key: read from a file or the environment, required everywhere but where probes look."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from glassformer.cli.console import Reporter
from glassformer.cli.serve import _read_key
from glassformer.errors import UsageError
from glassformer.server.api import create_app
from glassformer.server.keys import VARIABLE, read_key
from glassformer.server.served import Served

KEY = "a-long-key_0"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def client(served: Served) -> Iterator[TestClient]:
    with TestClient(create_app(served, key=KEY), "http://127.0.0.1") as found:
        yield found


@pytest.mark.parametrize("given", [f"Bearer {KEY}", f"bearer  {KEY}", basic("", KEY), basic("anybody", KEY)])
def test_the_key_opens_every_route(client: TestClient, given: str) -> None:
    for path in ("/", "/api/models", "/metrics", "/openapi.json"):
        assert client.get(path, headers={"Authorization": given}).status_code == 200, path
    answer = client.post("/api/translate", json={"texts": ["abc"]}, headers={"Authorization": given})
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        KEY,
        "Bearer",
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        f"Token {KEY}",
        "Basic é",
        "Basic !",
        basic(KEY, ""),
    ],
)
def test_no_key_or_another_one_is_answered_with_401(client: TestClient, given: str | None) -> None:
    headers = {} if given is None else {"Authorization": given.encode("latin-1")}
    for method, path in (("GET", "/"), ("GET", "/metrics"), ("OPTIONS", "/api/translate"), ("GET", "/api/nothing")):
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 401, path
        assert answer.headers.get_list("WWW-Authenticate") == [
            'Bearer realm="glassformer"',
            'Basic realm="glassformer"',
        ]
        assert answer.headers["X-Frame-Options"] == "DENY"
    answer = client.post("/api/translate", json={"texts": ["abc"]}, headers=headers)
    assert (answer.status_code, answer.json()["error"]["kind"]) == (401, "RequestError")


def test_probes_need_no_key(client: TestClient) -> None:
    assert [client.get(path).status_code for path in ("/api/health", "/api/ready")] == [200, 200]


def test_the_key_is_read_from_a_file_or_else_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    monkeypatch.delenv(VARIABLE, raising=False)
    assert (read_key(None), read_key(file)) == (None, KEY)
    monkeypatch.setenv(VARIABLE, "another")
    assert (read_key(None), read_key(file)) == ("another", KEY)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "the API key is empty"),
        (b" \n\n", "the API key is empty"),
        (b"one\ntwo\n", "cannot be in a header"),
        (b"two words", "cannot be in a header"),
        ("ключ".encode(), "cannot be in a header"),
        (b"\xff\xfe", "cannot read the file of the API key"),
        (None, "cannot read the file of the API key"),
    ],
)
def test_a_key_that_cannot_be_used_is_an_error_that_does_not_show_it(
    tmp_path: Path, content: bytes | None, what: str
) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=what) as caught:
        read_key(file)
    assert str(file) in str(caught.value)
    assert "two" not in str(caught.value)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_key_file_that_everybody_can_read_is_a_warning(
    tmp_path: Path, mode: int, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "key"
    file.write_text(KEY)
    file.chmod(mode)
    assert _read_key(file, Reporter(quiet=False)) == KEY
    said = capsys.readouterr().err
    assert ("chmod 600" in said) == warned
    assert KEY not in said
