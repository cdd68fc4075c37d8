"""Confidence on the command line: `calibrate` writes it into a model, `translate` shows it and holds answers back."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil

import pytest

from glassformer.data.datasets import dates
from glassformer.inference.confidence import MIN_SOURCES
from glassformer.storage.modelfile import ModelFile

ROWS = dates(2 * MIN_SOURCES, seed=11)
TEXTS = "".join(f"{source}\n" for source, _ in ROWS[:40]).encode()


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory, call, run, table_of):
    """A copy of the small run, calibrated on a table of which its answers are partly right."""
    folder = tmp_path_factory.mktemp("calibrated")
    shutil.copytree(run, folder / "run")
    answers = call("translate", run, "-", stdin="".join(f"{source}\n" for source, _ in ROWS).encode()).out.split("\n")
    rows = [(source, answers[row] if row % 4 else target) for row, (source, target) in enumerate(ROWS)]
    table = table_of(folder / "held.csv", [("iso", "english"), *rows])
    before = ModelFile.load(folder / "run")
    assert before.calibration is None
    answer = call("calibrate", folder / "run", table)
    assert answer.code == 0, answer.err
    assert f"calibrated on {len(ROWS)} held-out sources of {table}" in answer.err
    after = ModelFile.load(folder / "run")
    assert all((after.tensors[name] == array).all() for name, array in before.tensors.items())
    return folder / "run"


@pytest.fixture(scope="module")
def full(call, calibrated):
    """All that is known of the answers to TEXTS."""
    answer = call("translate", calibrated, "-", "--json", "--min-confidence", "0", stdin=TEXTS)
    return [json.loads(line) for line in answer.out.splitlines()]


def test_rows_that_were_trained_on_are_left_out_and_counted(call, run, tmp_path, table, table_of):
    shutil.copytree(run, tmp_path / "run")
    rows = [row.split(",", 1) for row in table.read_text("utf-8").splitlines()[1:]]
    more = table_of(tmp_path / "more.csv", [("iso", "english"), *ROWS, *([a, b.strip('"')] for a, b in rows)])
    answer = call("calibrate", tmp_path / "run", more)
    assert answer.code == 0, answer.err
    n_trained = ModelFile.load(run).data.train_rows
    n_left = len({source for source, _ in [*ROWS, *rows]}) - n_trained
    assert f"warning: {n_trained} rows of {len(ROWS) + len(rows)} left out: the source was trained on" in answer.err
    assert f"calibrated on {n_left} held-out sources" in answer.err
    assert call("calibrate", tmp_path / "run", table).code == 1
    (tmp_path / "run" / "sources.safetensors").unlink()
    unknown = "there may be rows whose source was trained on, because the sources.safetensors of its run is not next to"
    assert unknown in call("calibrate", tmp_path / "run", table).err


def test_info_says_whether_a_model_is_calibrated(call, run, calibrated):
    assert "not calibrated" in call("info", run).out
    assert json.loads(call("info", calibrated, "--json").out)["calibration"]["sources"] == len(ROWS)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_confidence_is_a_column_next_to_the_answer(call, calibrated, full, form, tmp_path):
    out = tmp_path / f"out.{form}"
    answer = call("translate", calibrated, "-", "--min-confidence", "0", "--out", out, stdin=TEXTS + b"\n")
    assert answer.code == 0, answer.err
    if form == "csv":
        *rows, last = csv.DictReader(io.StringIO(out.read_text("utf-8")))
        assert last == {"answer": "", "confidence": ""}
    else:
        *rows, last = map(json.loads, out.read_text("utf-8").splitlines())
        assert last == {"answer": "", "confidence": None}
    assert [float(row["confidence"]) for row in rows] == pytest.approx([one["confidence"] for one in full], abs=1e-4)


def test_a_minimum_leaves_uncertain_answers_empty_says_so_and_keeps_their_rows(call, calibrated, full):
    minimum = sum(sorted(one["confidence"] for one in full)[19:21]) / 2  # between two: JSON has six digits of each
    answer = call("translate", calibrated, "-", "--min-confidence", minimum, stdin=TEXTS)
    expected = [one["text"] if one["confidence"] >= minimum else "" for one in full]
    assert (answer.code, answer.out.split("\n")[:-1]) == (0, expected)
    n_empty = sum(one["confidence"] < minimum for one in full)
    assert f"{n_empty} rows are left empty: the answer is too uncertain for --min-confidence" in answer.err
    held = [
        json.loads(line)
        for line in call("translate", calibrated, "--json", "--min-confidence", "1", stdin=TEXTS).out.splitlines()
    ]
    assert {one["text"] for one in held} == {""}
    assert held[0]["left_out"] == f"confidence {full[0]['confidence']:.3f}, below 1"


def test_evaluate_shows_coverage_against_accuracy(call, calibrated, tmp_path, table_of):
    table = table_of(tmp_path / "test.csv", [("iso", "english"), *ROWS[:30]])
    answer = call("evaluate", calibrated, table, "--confidence")
    assert answer.code == 0, answer.err
    assert re.search(r"expected calibration error [\d.]+ points, Brier score 0\.\d{4}", answer.out)
    assert re.search(r"^0 +30 +100\.0 % ", answer.out, re.MULTILINE)


def test_a_model_that_is_not_calibrated_names_the_command_that_does_it(call, run):
    answer = call("translate", run, "-", "--min-confidence", "0.5", stdin=TEXTS)
    assert (answer.code, answer.out) == (2, "")
    assert "the confidence of answers is not known" in answer.err
    assert f"glassformer calibrate {run / 'model.safetensors'} TABLE" in answer.err
