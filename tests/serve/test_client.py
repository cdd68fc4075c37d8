"""A client that openapi-python-client generates from /openapi.json translates."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from glassformer.data.digits import six_digits
from glassformer.serve.served import Served
from tests.serve.serving import running

generator = pytest.importorskip("openapi_python_client", reason="openapi-python-client is not installed")


@pytest.mark.medium
def test_a_generated_client_translates(
    client: TestClient, served: Served, model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = import_module("openapi_python_client.config")
    described = tmp_path / "openapi.json"
    described.write_bytes(client.get("/openapi.json").content)
    options = {"file_encoding": "utf-8", "overwrite": False, "output_path": tmp_path / "generated"}
    settings = config.Config.from_sources(
        config.ConfigFile(post_hooks=[]), config.MetaType.NONE, document_source=described, **options
    )
    assert generator.generate(config=settings) == [], "the generator understands all of it"
    monkeypatch.syspath_prepend(tmp_path)
    translate, models = import_module("generated.api.default.translate"), import_module("generated.models")
    kind = import_module("generated").Client
    with running(model_path) as server, kind(base_url=f"http://127.0.0.1:{server.port}") as made:
        body = models.TranslateBody(texts=["abc", "a" * 2000], details=True)
        found = translate.sync(client=made, body=body)
        (answer,) = served.translator.translate(["abc"])
        assert json.loads(json.dumps(found.to_dict()))["answers"][0] == six_digits(answer.to_json())
        assert found.answers[1].left_out.startswith("2000 tokens")
        refused = translate.sync(client=made, body=models.TranslateBody(texts=[], model="other"))
        assert refused.error.what == "the server has no model of this name"
