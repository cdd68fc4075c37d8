"""The HTTP API of a model with several inputs: an object with their names is a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from glassformer.glassbox.schema import Trace
from glassformer.planning.grow import grow_model
from glassformer.serve.served import Served
from glassformer.settings import SideSettings, TokenSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import TakenColumn, TakenColumns
from glassformer.storage.rundirectory import RunDirectory
from glassformer.text import learn_both
from glassformer.text.inputs import compose, inputs_of

TEXT = {"lemma": "abc", "tags": "V;PST"}
COLUMNS = TakenColumns(
    inputs=(TakenColumn(name="lemma", position=0), TakenColumn(name="tags", position=1, feature="tags")),
    target=TakenColumn(name="form", position=2),
    width=3,
)


@pytest.fixture(scope="module")
def path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The drawn model with two symbols of a feature."""
    side, pairs = SideSettings(kind="characters"), [(compose(["abcdefg", "V;PST"]), "hijklm")]
    tokens = TokenSettings(shared=False, source=side, target=side)
    grown = grow_model(ModelFile.load(model_path), *learn_both(pairs, tokens, inputs_of(["lemma"], ["tags"])))
    path = tmp_path_factory.mktemp("inputs") / "model.safetensors"
    replace(grown, data=grown.data.model_copy(update={"columns": COLUMNS})).save(path)
    return path


@pytest.fixture(scope="module")
def served(path: Path) -> Served:
    return Served.load(path, device="cpu")


def test_the_model_tells_its_inputs_and_an_example(client: TestClient, path: Path) -> None:
    described = client.get("/v1/model").json()
    assert described["inputs"] == [
        {"name": "lemma", "kind": "text", "cut": "", "symbols": []},
        {"name": "tags", "kind": "feature", "cut": ";", "symbols": ["PST", "V"]},
    ]
    assert described["example"] == {"lemma": "abc", "tags": "PST"}
    run = RunDirectory(path.parent)
    run.write_held_out([("cab", "V", "x")], ("lemma", "tags", "form"))
    assert Served.load(path, device="cpu").example == {"lemma": "cab", "tags": "V"}
    run.held_out.unlink()


def test_a_text_is_an_object_with_the_inputs(client: TestClient) -> None:
    answers = client.post("/v1/translate", json={"texts": [TEXT, {**TEXT, "tags": "V"}, TEXT]}).json()["answers"]
    assert len(answers) == 3
    scores = [one.pop("score") for one in answers]
    assert scores[0] == pytest.approx(scores[2], abs=1e-5)  # which depend on the place in a batch on some processors
    assert answers[0] == answers[2]
    trace = Trace.loads(client.post("/v1/trace", json={"text": TEXT, "num_beams": 2}).content)
    assert trace.passed
    assert (trace.text, trace.inputs) == ("abc · tags: V;PST", TEXT)
    (empty,) = client.post("/v1/translate", json={"texts": [TEXT | {"tags": ""}]}).json()["answers"]
    assert empty["left_out"] == "the feature 'tags' is empty"
    edited = client.post("/v1/whatif", json={"text": trace.inputs, "edits": ["token 4=<tags=PST>"], "num_beams": 1})
    assert Trace.loads(edited.content).tokens.source[4].text == "<tags=PST>"


@pytest.mark.parametrize(
    ("text", "status", "what"),
    [
        ("abc", 400, "a source has 2 inputs"),
        ({**TEXT, "tags": 3}, 422, "the request does not fit"),
        ({str(i): "x" for i in range(2000)}, 422, "the request does not fit"),
    ],
)
def test_a_text_without_the_inputs_is_an_error(client: TestClient, text: object, status: int, what: str) -> None:
    for route, body in (("translate", {"texts": [text]}), ("trace", {"text": text})):
        answer = client.post(f"/v1/{route}", json=body)
        assert (answer.status_code, what in answer.json()["error"]["what"]) == (status, True), answer.text
