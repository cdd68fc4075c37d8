"""The same request gets the same decision: in Python, on the command line and, where it exists, over HTTP.

Each row of the tables below is one request in the words of each door, and what is decided: a result, or the sentence of
the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient

from glassformer import GlassformerError, Translator, evaluate, explain, plan
from glassformer.data.datasets import dates
from glassformer.data.digits import six_digits
from glassformer.planning.notices import notices_of
from glassformer.serve.api import create_app
from glassformer.serve.served import Served
from glassformer.settings import DecodingSettings
from glassformer.training import Run
from tests.cli.conftest import answer_to, write_csv
from tests.tiny import OVERRIDES

TINY = OVERRIDES | {"training.steps": 4}
TEXT = "1845-01-05"


class House(NamedTuple):
    """A table, a finished run that was trained on it, another one that was stopped, and the model over HTTP."""

    table: Path
    leaking: Path
    long: Path
    run: Path
    stopped: Path
    http: TestClient


@pytest.fixture(scope="module")
def house(tmp_path_factory) -> House:
    folder = tmp_path_factory.mktemp("house")
    table = write_csv(folder / "dates.csv", [("iso", "english"), *dates(60, seed=3)])
    leaking = write_csv(folder / "leaking.csv", [("iso", "english"), *dates(60, seed=3)[:10]])
    long = write_csv(folder / "long.csv", [("iso", "english"), ("1" * 200, "x")])
    Run(plan(table, folder / "run", overrides=TINY), "cpu").finish()
    stopped = Run(plan(table, folder / "stopped", overrides=TINY), "cpu")
    stopped.stop()
    list(stopped)
    http = TestClient(create_app(Served.load(folder / "run")), base_url="http://127.0.0.1")
    return House(table, leaking, long, folder / "run", folder / "stopped", http)


def sentence(call: Callable[[], object]) -> str:
    with pytest.raises(GlassformerError) as caught:
        call()
    return caught.value.what


# Training: Python and the command line

REFUSED_RUNS: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "init with other tokens": (
        {"init": "RUN", "overrides": {"tokens.source.kind": "bytes"}},
        ["--init", "RUN", "--set", "tokens.source.kind=bytes"],
        "the model to start from has other settings in 'tokens', which cannot change",
    ),
    "resume with init": (
        {"resume": True, "init": "RUN"},
        ["--resume", "--init", "RUN"],
        "resume excludes init and overwrite: a run that is resumed keeps its weights and its files",
    ),
    "test rows that are too long": (
        {"test": "LONG"},
        ["--test", "LONG"],
        "a text is longer than the model takes; nothing was done",
    ),
}


@pytest.mark.parametrize("name", REFUSED_RUNS)
def test_a_run_is_refused_alike(tmp_path, house, name):
    arguments, words, what = REFUSED_RUNS[name]
    files = {"RUN": str(house.run), "LONG": str(house.long)}
    python = {key: files.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()}
    assert sentence(lambda: plan(house.table, tmp_path / "run", **python)) == what
    answer = answer_to("train", house.table, "--out", tmp_path / "run", *(files.get(word, word) for word in words))
    assert answer.code in (1, 2)
    assert answer.err.partition("\n")[0] == f"error: {what}"
    assert not (tmp_path / "run").exists()


def test_the_same_notices_are_given(tmp_path, house):
    overrides = TINY | {"data.max_target_length": 16, "tokens.target.min_count": 8}
    planned = plan(house.table, tmp_path / "run", valid=house.leaking, overrides=overrides)
    notices = list(notices_of(planned))
    kinds = {"first row", "also trained on", "audit", "too long", "unknown tokens"}
    assert kinds <= {notice.kind for notice in notices}
    words = [word for setting, value in overrides.items() for word in ("--set", f"{setting}={value}")]
    answer = answer_to("train", house.table, "--out", tmp_path / "run", "--valid", house.leaking, "--verbose", *words)
    assert answer.code == 0, answer.err
    for notice in notices:
        assert notice.text.partition("\n")[0] in answer.err


def test_a_setting_that_cannot_change_in_a_resumed_run_is_refused_alike(house):
    what = sentence(lambda: plan(house.table, house.stopped, resume=True, overrides={"training.seed": 9}))
    answer = answer_to("train", house.table, "--out", house.stopped, "--resume", "--seed", "9")
    assert (answer.code, answer.err.partition("\n")[0]) == (2, f"error: {what}")


# Search: Python, the command line and HTTP

SEARCHES: dict[str, tuple[dict[str, int], list[str], int | str]] = {
    "n-best wider than the model's beam": ({"num_return_sequences": 7}, ["--nbest", "7"], 7),
    "n-best wider than a given beam": (
        {"num_return_sequences": 4, "num_beams": 2},
        ["--nbest", "4", "--beam", "2"],
        "these settings do not fit together: a beam of 2 cannot return 4 answers: "
        "num_beams must be at least num_return_sequences",
    ),
    "greedy": ({"num_beams": 1}, ["--beam", "1", "--json"], 1),
    "too many beams": (
        {"num_beams": 10**6},
        ["--beam", str(10**6)],
        "the setting 'decoding.num_beams' cannot take this value",
    ),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_request_is_decided_alike(house, name):
    options, words, expected = SEARCHES[name]
    translator = Translator.load(house.run, device="cpu")
    response = house.http.post("/v1/translate", json={"texts": [TEXT], "details": True, **options})
    answer = answer_to("translate", house.run, *words, stdin=TEXT.encode())
    if isinstance(expected, str):
        assert sentence(lambda: translator.translate([TEXT], **options)) == expected
        assert answer.err.startswith(f"error: {expected}")
        assert response.status_code in (400, 422)
        if options["num_beams"] < 32:  # a limit of the server comes before
            assert response.json()["error"]["what"] == expected
        return
    found = six_digits(translator.translate([TEXT], **options)[0].to_json())
    assert len(found["alternatives"]) == expected - 1
    row = json.loads(answer.out)
    assert {key: row[key] for key in found} == found
    assert response.json()["answers"] == [found]


def test_evaluation_and_explanation_follow_the_same_rule(house):
    translator = Translator.load(house.run, device="cpu")
    assert evaluate(translator, dates(3, seed=8), num_return_sequences=7).decoding["num_beams"] == 7
    assert explain(house.run, TEXT, num_return_sequences=7).search.beam.num_beams == 7
    own = DecodingSettings(num_beams=6, num_return_sequences=3)
    assert own.override({"num_beams": 1}).num_return_sequences == 1
    assert own.override({"num_beams": 4}).num_return_sequences == 3
    assert own.override({"length_alpha": 0.0}).num_return_sequences == 3
    assert own.override({"do_sample": True, "num_beams": 1}).num_return_sequences == 3


def test_an_ensemble_answers_alike_and_is_not_opened(house):
    both = Translator.load(house.run, ensemble=[house.run], device="cpu")
    app = create_app(Served.load(house.run, ensemble=[house.run], device="cpu"))
    http = TestClient(app, base_url="http://127.0.0.1")
    expected = six_digits(both.translate([TEXT])[0].to_json())
    assert http.post("/v1/translate", json={"texts": [TEXT], "details": True}).json()["answers"] == [expected]
    answer = answer_to("translate", house.run, "--ensemble", house.run, "--json", stdin=TEXT.encode())
    assert json.loads(answer.out)["score"] == pytest.approx(expected["score"])
    response = http.post("/v1/trace", json={"text": TEXT})
    assert response.status_code == 400
    assert response.json()["error"]["what"] == "a trace opens one model, and this server answers with an ensemble"
