"""What a server records: request ids, safe headers, metrics, and a log without texts."""

from __future__ import annotations

import json
import logging
import time
from importlib.metadata import version
from unittest.mock import Mock

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from glassformer.errors import NotFiniteError
from glassformer.serve.api import create_app
from glassformer.serve.observe import SAFE
from glassformer.serve.served import Served


def metrics_of(client: TestClient) -> dict[tuple[str, ...], float]:
    """The value of each sample, by its name and the values of its labels."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_metrics_count_requests_texts_and_joint_computations(served: Served) -> None:
    with TestClient(create_app(served), "http://127.0.0.1") as client:
        client.post("/v1/translate", json={"texts": ["abc", "gfe"]})
        client.post("/v1/translate", json={"texts": ["abc"], "prefix": "x"})
        client.get("/v1/nothing/of/this/name")
        client.request("BREW", "/page/main.js")
        while not served.worker.is_idle:
            time.sleep(0.01)
        metrics = metrics_of(client)
    expected = {
        ("glassformer_requests_total", "POST", "/v1/translate", "200"): 1,
        ("glassformer_requests_total", "POST", "/v1/translate", "422"): 1,
        ("glassformer_requests_total", "GET", "other", "404"): 1,
        ("glassformer_requests_total", "other", "/page/main.js", "405"): 1,
        ("glassformer_texts_total", "model"): 2,
        ("glassformer_batch_requests_count",): 2,
        ("glassformer_wait_seconds_count",): 2,
        ("glassformer_waiting_requests",): 0,
        ("glassformer_info", served.digest, "model", version("glassformer")): 1,
    }
    assert expected.items() <= metrics.items()
    assert metrics["process_resident_memory_bytes",] > 0


def test_each_answer_has_the_id_of_its_request(client: TestClient) -> None:
    given = ("trace:1.a-b_c", "", "a b")
    ids = [client.get("/v1/health", headers={"X-Request-ID": name}).headers["X-Request-ID"] for name in given]
    assert ids[0] == "trace:1.a-b_c"
    assert len({*ids[1:], "a b"}) == 3


def test_every_answer_has_safe_headers(client: TestClient) -> None:
    for path in ("/", "/v1/health", "/v1/nothing", "/metrics", "/page/main.js"):
        headers = client.get(path).headers
        assert {name.decode(): value.decode() for name, value in SAFE}.items() <= dict(headers).items()
        assert "server" not in headers


def test_the_log_has_a_line_of_json_for_each_request_and_no_texts(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.get("/v1/health")  # nothing is logged unless that is enabled
    with caplog.at_level(logging.INFO, "glassformer.serve.access"):
        client.post("/v1/translate?note=secret", json={"texts": ["abc", "gfe"]}, headers={"X-Request-ID": "1"})
        client.post("/v1/trace", json={"text": "aaaaaaaaaaaaaabcx", "target": "hijk"}, headers={"X-Request-ID": "2"})
        client.get("/secret", headers={"X-Request-ID": "3"})
    lines = [json.loads(message) for message in caplog.messages]
    shown = [(line["id"], line["method"], line["route"], line["status"], line.get("texts")) for line in lines]
    assert shown == [
        ("1", "POST", "/v1/translate", 200, 2),
        ("2", "POST", "/v1/trace", 200, None),
        ("3", "GET", "other", 404, None),
    ]
    assert all(line["milliseconds"] >= 0 and line["time"].endswith("+00:00") for line in lines)
    assert [line.get("model") for line in lines] == ["model", "model", None]
    assert not any(text in caplog.text for text in ("abc", "gfe", "hij", "secret"))


def test_an_error_is_500_in_json_and_one_that_nobody_expected_is_logged_with_its_request(
    client: TestClient, served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(served.translator, "translate", Mock(side_effect=NotFiniteError.at(0, "nan")))
    answer = client.post("/v1/translate", json={"texts": ["abc"]})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "NotFiniteError")
    monkeypatch.setattr(served.translator, "translate", Mock(side_effect=RuntimeError("unexpected")))
    answer = client.post("/v1/translate", json={"texts": ["abc"]}, headers={"X-Request-ID": "7"})
    assert (answer.status_code, answer.json()["error"]["got"]) == (500, "request 7")
    assert answer.headers["X-Frame-Options"] == "DENY"
    monkeypatch.undo()
    assert client.post("/v1/translate", json={"texts": ["abc"]}).status_code == 200
    assert "request 7 failed" in caplog.text
    assert "RuntimeError: unexpected" in caplog.text
