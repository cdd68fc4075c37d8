"""A run directory tells how its model came to be."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from glassformer.errors import ModelFileError, RunError
from glassformer.glassbox import history
from glassformer.glassbox.history import MAX_EVENTS, last_sample, read_history
from glassformer.glassbox.run_records import Errors, WrongAnswer
from glassformer.glassbox.schema import Trace
from glassformer.glassbox.trace import explain
from tests.glassbox.conftest import make_model

PROGRESS = {"event": "progress", "loss": 2.0, "learning_rate": 0.1, "gradient_norm": 3.0, "epoch": 0}
VALIDATED = {"event": "validated", "loss": 1.5, "metric": "exact_match", "value": 0.5, "best": True}


@pytest.fixture
def folder(case, tmp_path):
    """A run directory of two checkpoints, the second of which is the model."""
    case.model.save(tmp_path / "model.safetensors")
    make_model(6, **dict(case.model.settings.model)).save(tmp_path / "checkpoints" / "step-0000100.safetensors")
    case.model.save(tmp_path / "checkpoints" / "step-0000200.safetensors")
    write(
        tmp_path, [PROGRESS | {"step": 100}, VALIDATED | {"step": 100}, PROGRESS | {"step": 200, "loss": float("nan")}]
    )
    return tmp_path


def write(folder, events):
    lines = [json.dumps({"event": "started", "step": 0}), *map(json.dumps, events)]
    (folder / "history.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_the_history_and_the_wrong_answers_are_those_of_the_run_and_a_number_that_is_not_finite_is_none(case, folder):
    errors = Errors(10, 1, [WrongAnswer("a", "b", "c", -1.0)])
    (folder / "errors.json").write_text(json.dumps(asdict(errors)), encoding="utf-8")
    trace = explain(folder, case.text, history=True, evidence=False)
    assert trace.errors == errors
    assert [asdict(point) for point in trace.training.history] == [
        {"step": 100, "loss": 2.0, "learning_rate": 0.1, "gradient_norm": 3.0},
        {"step": 200, "loss": None, "learning_rate": 0.1, "gradient_norm": 3.0},
    ]
    assert [asdict(each) for each in trace.training.validations] == [
        {"step": 100, "loss": 1.5, "metric": "exact_match", "value": 0.5}
    ]
    assert Trace.loads(trace.dumps()) == trace


def test_the_text_goes_through_every_checkpoint(case, folder):
    trace = explain(folder, case.text, history=True, num_beams=1)
    assert trace.errors is None
    early, late = trace.training.checkpoints
    assert (early.step, late.step) == (100, 200)
    assert (late.text, late.score) == (trace.translation, trace.search.greedy.answers[0].score)
    assert late.tokens == [token.text for token in trace.tokens.target_out]
    np.testing.assert_allclose(late.attention, trace.array("evidence.attention"), atol=1e-4)
    other = explain(make_model(6, **dict(case.model.settings.model)), case.text, num_beams=1)
    assert early.text == other.translation
    np.testing.assert_allclose(early.attention, other.array("evidence.attention"), atol=1e-4)


def test_a_checkpoint_of_another_model_is_refused_and_a_model_alone_has_no_history(case, folder, tmp_path_factory):
    other = make_model(**dict(case.model.settings.model) | {"norm": "post"})
    other.save(folder / "checkpoints" / "step-0000150.safetensors")
    with pytest.raises(ModelFileError, match="of another model"):
        explain(folder, case.text, history=True, evidence=False)
    assert explain(folder, case.text, evidence=False).training is None
    alone = tmp_path_factory.mktemp("alone") / "model.safetensors"
    case.model.save(alone)
    assert explain(alone, case.text, history=True, evidence=False).training is None


def test_a_long_history_is_thinned_with_its_ends(case, folder, monkeypatch):
    monkeypatch.setattr(history, "MAX_CHECKPOINTS", 3)
    write(folder, [PROGRESS | {"step": step} for step in range(1000)])
    late = folder / "checkpoints" / "step-0000200.safetensors"
    for step in range(201, 204):
        (folder / "checkpoints" / f"step-{step:07d}.safetensors").hardlink_to(late)
    training = explain(folder, case.text, history=True, evidence=False).training
    steps = [point.step for point in training.history]
    assert (len(steps), steps[0], steps[-1], len(set(steps))) == (MAX_EVENTS, 0, 999, MAX_EVENTS)
    assert [each.step for each in training.checkpoints] == [100, 201, 203]


def test_ends_of_lines_inside_a_text_and_a_last_line_that_was_cut_off_do_no_harm(folder):
    events = [{"event": "validated", "samples": [["a\u2028b\x85", "c", "d"]]}, {"event": "progress"}]
    lines = [json.dumps(event, ensure_ascii=False) + "\n" for event in events]
    (folder / "history.jsonl").write_text("".join(lines) + lines[0][:20], encoding="utf-8", newline="")
    assert [event.fields for event in read_history(folder / "history.jsonl")] == events


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ("not json", "Expecting value"),
        ("\udcff", "not UTF-8"),
        ("[1, 2]", "[1, 2]"),
        ("[" * 100_000, ""),
        ("1" * 5000, ""),
        ('{"event": "progress", "step": "%s"}' % ("9" * 5000), "step: '999"),
        ('{"event": "progress", "step": 1e400}', "step: inf"),
        ('{"event": "progress", "step": -1}', "step: -1"),
        ('{"event": "progress", "step": 9007199254740992}', "step: 9007199254740992"),
        ('{"event": "progress", "step": 1, "loss": "low"}', "loss: 'low'"),
        ('{"event": "validated", "step": 1, "metric": 3}', "metric: 3"),
        ('{"event": "validated", "step": true, "metric": "bleu"}', "step: True"),
    ],
)
def test_a_line_of_the_history_that_is_not_an_event_is_named(case, folder, content, got):
    text = '{"event": "started", "step": 0}\n\n' + content + "\n"
    (folder / "history.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RunError, match="cannot read the history of the run") as caught:
        explain(folder, case.text, history=True, evidence=False)
    assert caught.value.where in (f"{folder / 'history.jsonl'}, line 3", str(folder / "history.jsonl"))
    assert got in caught.value.got


EXAMPLE = {"source": "a", "target": "b", "answer": "c", "score": -1.0}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[" * 100_000,
        '{"rows": 1}',
        '{"rows": 10, "wrong": %s, "examples": []}' % ("9" * 4000),
        '{"rows": 10, "wrong": -1, "examples": []}',
        '{"rows": 10, "wrong": 11, "examples": []}',
        json.dumps({"rows": 10, "wrong": 0, "examples": [EXAMPLE]}),
        json.dumps({"rows": 10, "wrong": 1, "examples": [EXAMPLE | {"score": float("nan")}]}),
        json.dumps({"rows": 10, "wrong": 1, "examples": [EXAMPLE | {"score": "-1"}]}),
        '{"rows": 10, "wrong": 1, "examples": ["a"]}',
    ],
)
def test_wrong_answers_of_a_wrong_form_are_refused(case, folder, content):
    (folder / "errors.json").write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match="cannot read the wrong answers of the run") as caught:
        explain(folder, case.text, history=True, evidence=False)
    assert caught.value.where == str(folder / "errors.json")


def test_the_last_sample_is_the_first_of_the_last_validation_that_has_any(folder):
    assert last_sample(folder) is None
    assert last_sample(folder / "not there") is None
    write(folder, [VALIDATED | {"samples": [["a", "b", "c"]]}, VALIDATED | {"samples": [["d", "e", "f"], ["g"]]}])
    assert last_sample(folder) == "d"
    write(folder, [VALIDATED | {"samples": [["a", "b", "c"]]}, VALIDATED | {"samples": []}])
    assert last_sample(folder) == "a"


@pytest.mark.parametrize("samples", [3, "text", {"0": "a"}, [3], [[]], [[3]], [["  "]], [{"0": "a"}], [None]])
def test_a_sample_of_a_wrong_form_is_passed_over(folder, samples):
    write(folder, [VALIDATED | {"samples": [["a", "b", "c"]]}, VALIDATED | {"samples": samples}])
    assert last_sample(folder) == "a"
