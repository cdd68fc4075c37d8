"""Requests that schemathesis makes from the server's own OpenAPI: no server error, and answers that it describes."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from glassformer.serve.api import create_app
from glassformer.serve.served import Served

schemathesis = pytest.importorskip("schemathesis")
hypothesis = pytest.importorskip("hypothesis")

pytestmark = pytest.mark.slow

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)


def test_no_generated_request_makes_an_error_of_the_server(model_path: Path) -> None:
    app = create_app(Served.load(model_path, device="cpu"), hosts=["*"])
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) == 7
    statuses: set[int] = set()
    for operation in operations:
        for mode in schemathesis.GenerationMode:

            @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
            @hypothesis.settings(max_examples=40, deadline=None, suppress_health_check=list(hypothesis.HealthCheck))
            def send(case: Any) -> None:
                answer = case.call_and_validate(checks=checks)
                statuses.add(answer.status_code)

            with contextlib.suppress(hypothesis.errors.Unsatisfiable):  # a route without parameters has no wrong ones
                send()
    assert {200, 422} <= statuses
