"""The HTTP API: the answers of the library, limits, and errors in the words of the command line."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from glassformer.data.digits import six_digits
from glassformer.errors import GlassformerError, TextError
from glassformer.glassbox.explained import hash_tensors
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from glassformer.serve import bodies
from glassformer.serve.api import create_app
from glassformer.serve.bodies import DETAILS
from glassformer.serve.limits import BODY_BYTES, TEXTS, Limits, error_body
from glassformer.serve.served import Served
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import Calibration


def test_it_says_what_is_served(client: TestClient, served: Served) -> None:
    found = client.get("/v1/model").json()
    assert (found["name"], found["digest"]) == ("model", hash_tensors(served.translator.model_file.tensors))
    assert found["parameters"] == served.translator.model_file.n_parameters
    assert found["example"] == "bca", "the commonest tokens"
    assert found["weights_fit"] is True
    assert found["data"]["table"] == "a.en,a.de", "no folder of the server"
    limits = {"text": 10_000, "texts": 256, "edits": 32, "beams": 32}
    assert found["limits"] == limits | {"bytes": 1_000_000, "seconds": 60, "waiting": 256}


def test_translations_are_those_of_the_translator(client: TestClient, served: Served) -> None:
    for options in ({"num_beams": 2}, {"num_return_sequences": 3}):
        body = {"texts": ["abc", "", "gfedcba"], **options}
        expected = served.translator.translate(["abc", "", "gfedcba"], **options)
        found = client.post("/v1/translate", json=body | {"details": True}).json()["answers"]
        assert found == six_digits([answer.to_json() for answer in expected])
        for answer in chain(found, *[answer["alternatives"] for answer in found]):
            for name in DETAILS:
                del answer[name]
        assert client.post("/v1/translate", json=body).json() == {"answers": found, "notices": []}


def test_a_text_that_the_model_does_not_take_is_left_out_with_the_reason_and_the_others_are_answered(
    client: TestClient, served: Served
) -> None:
    texts = ["abc", "a" * 2000, "", "b" * 10_001, "gfe"]
    found = client.post("/v1/translate", json={"texts": texts, "prefix": "m"}).json()["answers"]
    expected = served.translator.translate(["abc", "gfe"], prefixes=["m", "m"])
    assert [answer["text"] for answer in found] == [expected[0].text, "", "", "", expected[1].text]
    limit = served.translator.max_source_length
    reasons = [f"2000 tokens; the model takes at most {limit}", "10,001 characters; the server takes at most 10,000"]
    assert [answer.get("left_out") for answer in found] == [None, reasons[0], None, reasons[1], None]
    scores = [six_digits(expected[0].score), None, 0, None, six_digits(expected[1].score)]
    assert [answer["score"] for answer in found] == scores


def test_the_answers_that_the_documentation_shows_have_the_fields_of_real_ones(client: TestClient) -> None:
    page = (Path(__file__).parents[2] / "docs/http-api.md").read_text(encoding="utf-8")
    blocks = [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]
    translated = client.post("/v1/translate", json={"texts": ["abc"]}).json()
    assert translated.keys() == blocks[0].keys()
    assert translated["answers"][0].keys() == blocks[0]["answers"][0].keys()
    assert client.post("/v1/translate", json={"text": "abc"}).json() == blocks[1]


def test_answers_have_the_given_prefix_or_form_and_one_that_no_answer_can_have_is_refused_as_by_the_translator(
    client: TestClient, served: Served
) -> None:
    answers = client.post("/v1/translate", json={"texts": ["abc", "", "gfe"], "prefix": "mih"}).json()["answers"]
    assert [answer["text"][:3] for answer in answers] == ["mih", "", "mih"]
    refused = client.post("/v1/translate", json={"texts": ["abc"], "prefix": "mxz"})
    with pytest.raises(TextError) as caught:
        served.translator.translate(["abc"], prefixes=["mxz"], where=["text 1"])
    assert (refused.status_code, refused.json()) == (422, error_body(caught.value))
    body = {"texts": ["abc", ""], "choices": ["mih", "hi"], "details": True}
    found = client.post("/v1/translate", json=body).json()["answers"]
    assert found[0] == six_digits(served.translator.translate(["abc"], choices=["mih", "hi"])[0].to_json())
    refused = client.post("/v1/translate", json={"texts": ["abc"], "must_match": "(mih"})
    assert (refused.status_code, refused.json()["error"]["what"]) == (400, "the pattern is not valid")
    both = client.post("/v1/translate", json={"texts": ["abc"], "must_match": "m", "choices": ["m"]})
    assert both.status_code == 400


def test_an_ensemble_answers_together_and_has_no_trace(model_path: Path) -> None:
    served = Served.load(model_path, ensemble=[model_path], device="cpu")
    with TestClient(create_app(served), "http://127.0.0.1") as client:
        found = client.post("/v1/translate", json={"texts": ["abc"], "details": True}).json()["answers"]
        refused = client.post("/v1/trace", json={"text": "abc"})
    assert found == [six_digits(served.translator.translate(["abc"])[0].to_json())]
    what = "a trace opens one model, and this server answers with an ensemble"
    assert (refused.status_code, refused.json()["error"]["what"]) == (400, what)


def test_a_trace_and_edits_are_those_of_explain(client: TestClient, served: Served) -> None:
    answer = client.post("/v1/trace", json={"text": "abc", "target": "hij", "num_beams": 2, "weights": True})
    trace = Trace.loads(answer.content)
    expected = explain(served.translator, "abc", target="hij", num_beams=2, weights=True)
    assert (trace.provenance.model, trace.provenance.model_hash) == ("model", served.digest)
    assert (trace.search, trace.tensors, trace.passed) == (expected.search, expected.tensors, True)
    edits = ["head decoder.0.cross 1 off", "token 1=g"]
    edited = Trace.loads(client.post("/v1/whatif", json={"text": "abc", "edits": edits}).content)
    assert edited.difference == explain(served.translator, "abc", edits=edits).difference
    assert edited.edits == edits


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/trace", {"text": "  "}, 422, "there is nothing to explain"),
        ("/v1/trace", {"text": "a" * 2000}, 422, "the text is longer than the model takes"),
        ("/v1/trace", {"text": "a" * 20_000}, 422, "does not fit: body.text"),
        ("/v1/trace", {"text": "a", "num_beams": 0}, 422, "does not fit: body.num_beams"),
        ("/v1/trace", {"text": "a", "beam": 3}, 422, "does not fit: body.beam"),
        ("/v1/trace", {}, 422, "does not fit: body.text"),
        ("/v1/trace", [1], 422, "does not fit: body"),
        ("/v1/translate", {"texts": [1]}, 422, "does not fit: body.texts.0.str"),
        ("/v1/whatif", {"text": "a", "edits": ["hed encoder.0.self 1 off"]}, 400, "cannot read the edit"),
        ("/v1/whatif", {"text": "a", "edits": []}, 422, "does not fit: body.edits"),
        ("/v1/translate", {"texts": ["a"] * (TEXTS + 1)}, 422, "does not fit: body.texts"),
        ("/v1/nothing", {}, 404, "there is nothing at POST /v1/nothing"),
        ("/v1/model", {}, 405, "/v1/model does not take POST"),
    ],
)
def test_an_error_is_json_in_the_words_of_the_command_line(
    client: TestClient, path: str, body: Any, status: int, words: str
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status
    what, hint = (answer.json()["error"].get(part, "") for part in ("what", "hint"))
    assert "data." not in hint
    assert "train" not in hint
    assert what.endswith(words) if words.startswith("does not") else words in what
    if status == 405:
        assert answer.headers["Allow"] == answer.json()["error"]["expected"] == "GET"


@pytest.mark.parametrize("body", [b"{", b'{"texts": ["\xff"]}', b"[" * 200_000])
def test_a_body_that_is_not_json_is_refused_in_words(client: TestClient, body: bytes) -> None:
    answer = client.post("/v1/trace", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    error = answer.json()["error"]
    assert "there is nothing at" not in error["what"]
    assert error["expected"]
    if body == b"{":
        assert (error["what"], error["expected"]) == ("the body of the request is not JSON", "JSON in UTF-8")
        assert error["got"].endswith("at character 1")


def test_json_that_is_not_declared_as_json_is_refused_with_the_header_to_send(client: TestClient) -> None:
    for headers, got in (({}, "no Content-Type"), ({"Content-Type": "text/plain"}, "'text/plain'")):
        answer = client.post("/v1/translate", content=b'{"texts": ["a"]}', headers=headers)
        assert answer.status_code == 422
        error = answer.json()["error"]
        assert "Content-Type" in error["what"]
        assert (error["got"], error["expected"]) == (got, "Content-Type: application/json")
        assert "-H 'Content-Type: application/json'" in error["hint"]


def test_a_body_that_is_too_large_is_refused(client: TestClient) -> None:
    body = json.dumps({"texts": ["a" * (BODY_BYTES + 1)]}).encode()
    for content in (body, iter([body[:9], body[9:]])):  # with and without its length
        answer = client.post("/v1/translate", content=content)
        assert answer.status_code == 413
        assert answer.json()["error"]["expected"] == "at most 1,000,000 bytes"


def test_what_takes_too_long_is_ended_and_the_next_request_has_its_turn(model_path: Path) -> None:
    limits = Limits(compute_seconds=1e-9, waiting=0)
    with TestClient(create_app(Served.load(model_path, limits=limits, device="cpu")), "http://127.0.0.1") as client:
        for path, body in (("translate", {"texts": ["abc"]}), ("trace", {"text": "abc"}), ("trace", {"text": "abc"})):
            answer = client.post(f"/v1/{path}", json=body)
            error = answer.json()["error"]
            assert (answer.status_code, error["kind"]) == (504, "TimeLimitError")
            assert error["expected"] == "at most 1e-09 seconds"
        assert client.get("/v1/model").json()["limits"]["seconds"] == 1e-9


def test_the_hosts_of_this_server_are_answered_with_any_port_and_others_are_refused_in_json(
    client: TestClient, served: Served
) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example:80", "localhost:80:80", "localhost:x", ""):
        answer = client.get("/v1/health", headers={"Host": host})
        assert answer.status_code == 400
        error = answer.json()["error"]
        assert error["what"] == "the request names a host that is not this server"
        assert (error["got"], error["expected"]) == (repr(host), "127.0.0.1, localhost")
    with TestClient(create_app(served, hosts=["[::1]", "127.0.0.1", "localhost"])) as client:
        for host in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000", "[::1]"):
            assert client.get("/v1/health", headers={"Host": host}).status_code == 200, host
    with TestClient(create_app(served, hosts=["*"])) as client:
        assert client.get("/v1/health", headers={"Host": "any.example"}).status_code == 200


def test_head_is_answered_as_get_without_a_body(client: TestClient) -> None:
    for path in ("/", "/v1/model", "/page/main.js", "/v1/nothing", "/v1/translate"):
        head, get = client.head(path), client.get(path)
        own = {"x-request-id": ""}  # of each request
        assert (head.status_code, {**head.headers} | own) == (get.status_code, {**get.headers} | own)
        assert head.content == b""


def test_the_page_comes_with_its_policy_and_nothing_else_is_served(client: TestClient) -> None:
    page = client.get("/")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert page.headers["Content-Security-Policy"].endswith("; frame-ancestors 'none'")
    assert client.get("/page/main.js").headers["Content-Type"].startswith("text/javascript")
    assert client.get("/page/style.css").headers["Content-Type"].startswith("text/css")
    for path in ("/page/nothing.js", "/page/../report.py", "/page/%2e%2e/report.py"):
        assert client.get(path).status_code == 404, path


def test_openapi_describes_every_path_with_a_readable_name_and_examples_and_answers_fit_it(client: TestClient) -> None:
    found = client.get("/openapi.json").json()
    operations = {path: operation["operationId"] for path, one in found["paths"].items() for operation in one.values()}
    names = ("health", "ready", "translate", "trace", "whatif")
    assert operations == {f"/v1/{name}": name for name in names} | {
        "/v1/models": "list_models",
        "/v1/model": "describe_model",
    }
    for name in ("TranslateBody", "TraceBody", "WhatIfBody", "AnswersBody", "ErrorBody"):
        (example,) = found["components"]["schemas"][name]["examples"]
        vars(bodies)[name].model_validate(example)
    body = {"texts": ["abc", "a" * 2000, "x"], "num_return_sequences": 2, "details": True, "confidence": True}
    for kind, answer in (
        (bodies.AnswersBody, client.post("/v1/translate", json=body)),
        (bodies.Description, client.get("/v1/model")),
        (bodies.ModelNames, client.get("/v1/models")),
        (bodies.ErrorBody, client.post("/v1/translate", json={})),
    ):
        kind.model_validate_json(answer.content, strict=True)


def test_the_reference_has_every_route_and_field_and_loads_nothing(client: TestClient) -> None:
    page, found = client.get("/docs"), client.get("/openapi.json").json()
    for name in [*found["paths"], *bodies.TranslateBody.model_fields, *bodies.TextAnswer.model_fields]:
        assert name in page.text
    assert not re.search(r"<script|<link|src=|url\(|@import", page.text)
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; ")


def test_a_page_of_another_site_reads_answers_only_when_it_is_allowed(client: TestClient, served: Served) -> None:
    origin = {"Origin": "https://example.org"}
    asked = origin | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    header = "Access-Control-Allow-Origin"
    assert header not in client.get("/v1/model", headers=origin).headers
    with TestClient(create_app(served, origins=["https://example.org"]), "http://127.0.0.1") as allowing:
        answers = [
            allowing.options("/v1/translate", headers=asked),
            allowing.post("/v1/translate", json={"texts": ["abc"]}, headers=origin),
            allowing.post("/v1/translate", json={}, headers=origin),
        ]
        assert [(one.status_code, one.headers.get(header)) for one in answers] == [
            (200, "https://example.org"),
            (200, "https://example.org"),
            (422, "https://example.org"),
        ]
        other = allowing.get("/v1/model", headers={"Origin": "https://evil.example"})
        assert header not in other.headers


def test_confidence_that_is_not_known_is_a_notice_and_the_texts_are_answered(
    model_path: Path, tmp_path: Path, client: TestClient
) -> None:
    body = {"texts": ["abc", "a" * 2000], "confidence": True}
    (notice,) = client.post("/v1/translate", json=body).json()["notices"]
    assert notice == "the confidence of answers is not known: got a model that is not calibrated"
    calibration = Calibration(
        weights=(-0.5, 0.3, 0.1, 0.1), num_beams=3, fingerprint="0", sources=100, right=50, unusual=3, unusual_right=0
    )
    replace(ModelFile.load(model_path), calibration=calibration).save(tmp_path / "model.safetensors")
    calibrated = Served.load(tmp_path, device="cpu")
    with TestClient(create_app(calibrated), "http://127.0.0.1") as client:
        found = client.post("/v1/translate", json=body | {"num_beams": 3}).json()
        expected = calibrated.translator.translate(["abc"], num_beams=3, num_return_sequences=3)[0]
        assert (found["answers"][0]["confidence"], found["notices"]) == (six_digits(expected.confidence), [])
        assert found["answers"][0]["alternatives"] == []
        assert "left_out" in found["answers"][1]
        found = client.post("/v1/translate", json=body | {"num_beams": 2}).json()
        assert "confidence" not in found["answers"][0]
        assert found["answers"][0]["text"] == calibrated.translator.translate(["abc"], num_beams=2)[0].text
        assert found["notices"][0].endswith("got a beam of 2, expected a beam of 3, that of the calibration")


def test_an_error_names_no_path_of_the_server_and_no_option_of_the_command_line(
    model_path: Path, served: Served, tmp_path: Path
) -> None:
    shutil.copy(model_path, tmp_path)
    (tmp_path / "history.jsonl").write_text("not json\n")
    with TestClient(create_app(Served.load(tmp_path, name="dates", device="cpu")), "http://127.0.0.1") as client:
        answer = client.post("/v1/trace", json={"text": "abc", "history": True})
        assert client.post("/v1/trace", json={"text": "abc"}).status_code == 200
    error = answer.json()["error"]
    assert (answer.status_code, error["what"]) == (500, "cannot read the history of the run")
    assert error["where"].startswith("dates/history.jsonl")
    words = (
        GlassformerError("x", hint="`glassformer tokens MODEL TEXT --side target` prints how a text is split"),
        GlassformerError("x", hint="--beam 4"),
        GlassformerError("x", hint="a smaller decoding.num_beams"),
    )
    assert [error_body(error)["error"].get("hint") for error in words] == [None, None, "a smaller num_beams"]


@pytest.mark.slow
def test_no_generated_request_makes_an_error_of_the_server(model_path: Path) -> None:
    """Requests that schemathesis makes from the server's own OpenAPI have the answers that it describes."""
    schemathesis, hypothesis = pytest.importorskip("schemathesis"), pytest.importorskip("hypothesis")
    app = create_app(Served.load(model_path, device="cpu"), hosts=["*"])
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    conformance = ("status_code", "content_type", "response_headers", "response_schema")
    names = ("not_a_server_error", *(f"{part}_conformance" for part in conformance))
    checks = schemathesis.checks.CHECKS.get_by_names(names)
    statuses: set[int] = set()
    for operation in [found.ok() for found in schema.get_all_operations()]:
        for mode in schemathesis.GenerationMode:

            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            @hypothesis.settings(max_examples=40, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
            def send(case: Any) -> None:
                statuses.add(case.call_and_validate(checks=checks).status_code)

            with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # a route without parameters has no wrong ones
                send()
    assert {200, 422} <= statuses
