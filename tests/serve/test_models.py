"""Several models in one server: a request names one, and they compute in turns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from glassformer.cli.serve import _check, _named
from glassformer.data.digits import six_digits
from glassformer.errors import UsageError
from glassformer.serve.api import create_app
from glassformer.serve.served import Served, load_models
from glassformer.storage.modelfile import ModelFile


@pytest.fixture(scope="module")
def models(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Served]:
    other = tmp_path_factory.mktemp("other") / "other.safetensors"
    file = ModelFile.load(model_path)
    for tensor in file.tensors.values():
        tensor *= -1
    file.save(other)
    return load_models({"one": model_path, "other": other}, example="gfe", device="cpu")


@pytest.fixture(scope="module")
def client(models: list[Served]) -> Iterator[TestClient]:
    with TestClient(create_app(*models), "http://127.0.0.1") as found:
        yield found


def test_the_names_are_listed_and_each_model_describes_itself(client: TestClient, models: list[Served]) -> None:
    n_parameters = models[0].translator.model_file.n_parameters
    listed = [{"name": name, "parameters": n_parameters} for name in ("one", "other")]
    assert client.get("/v1/models").json() == {"models": listed}
    one, other = models
    for query, served, example in (("", one, "gfe"), ("?model=one", one, "gfe"), ("?model=other", other, "bca")):
        described = client.get(f"/v1/model{query}").json()
        assert (described["name"], described["example"]) == (served.name, example)
        assert described["digest"] == served.digest


def test_a_request_is_answered_by_the_model_that_it_names(client: TestClient, models: list[Served]) -> None:
    assert models[0].worker is models[1].worker
    expected = [served.translator.translate(["abc"])[0] for served in models]
    assert expected[0] != expected[1]
    for name, answer in ((None, expected[0]), ("one", expected[0]), ("other", expected[1])):
        body = {} if name is None else {"model": name}
        found = client.post("/v1/translate", json={"texts": ["abc"], **body}).json()["answers"][0]
        assert (found["text"], found["score"]) == (answer.text, six_digits(answer.score))
        trace = client.post("/v1/trace", json={"text": "abc", **body}).json()
        assert trace["provenance"]["model"] == models[name == "other"].name
        changed = client.post("/v1/whatif", json={"text": "abc", "edits": ["causal off"], **body}).json()
        assert changed["provenance"]["model_hash"] == trace["provenance"]["model_hash"]


def test_a_model_that_is_not_served_is_404_with_the_names(client: TestClient) -> None:
    text = {"text": "abc"}
    bodies = {"translate": {"texts": ["abc"]}, "trace": text, "whatif": text | {"edits": ["causal off"]}}
    posted = [client.post(f"/v1/{route}", json=body | {"model": "../secret"}) for route, body in bodies.items()]
    for answer in (client.get("/v1/model?model=../secret"), *posted):
        error = answer.json()["error"]
        assert (answer.status_code, error["got"], error["expected"]) == (404, "'../secret'", "one, other")


def test_a_model_has_the_name_of_its_run_its_file_or_the_one_that_is_given(model_path: Path, tmp_path: Path) -> None:
    run, file, odd = tmp_path / "french", tmp_path / "german.safetensors", tmp_path / "a=b"
    for folder in (run, odd):
        folder.mkdir()
        shutil.copy(model_path, folder / "model.safetensors")
    shutil.copy(model_path, file)
    names = {run: "french", run / "model.safetensors": "french", file: "german", odd: "a=b", f"fr={run}": "fr"}
    assert {given: _named(str(given))[0] for given in names} == names
    assert _named(f"fr={run}")[1] == run


def test_two_models_of_one_name_and_an_ensemble_of_several_are_refused(model_path: Path) -> None:
    with pytest.raises(UsageError, match="two models have the same name") as caught:
        _check([_named(f"one={model_path}")] * 2, None, None)
    assert "OTHER=" in str(caught.value)
    with pytest.raises(UsageError, match="an ensemble is one model"):
        _check([_named(f"{name}={model_path}") for name in "ab"], None, [model_path])
