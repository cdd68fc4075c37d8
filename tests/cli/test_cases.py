"""Tables as people have them are read as their owners would read them, by every verb, or refused with what to do."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from glassformer import evaluate, plan
from glassformer.data.tables import read_table
from glassformer.inference.translator import Translator
from glassformer.settings import DataSettings
from glassformer.storage.modelfile import ModelFile
from tests.cases import CASES, READ, REFUSED, Case, cipher


def label(column: str | int) -> str:
    return f"column {column}" if isinstance(column, int) else f"{column} (column "


@pytest.mark.parametrize("name", READ)
def test_a_table_is_read_as_its_owner_would_read_it(tmp_path, name):
    case = READ[name]
    table = read_table(case.write(tmp_path), DataSettings())
    assert tuple(table.pairs) == case.pairs
    assert len(table.ledger.entries) == case.left_out
    for shown, column in zip(table.labels, (case.source, case.target), strict=True):
        assert shown.startswith(label(column))
    assert case.says in "\n".join(table.notes)
    assert bool(table.notes) == bool(case.says)


VERBS = ("pandas index", "a number and no header", "Parquet of pandas", "first object incomplete", "carriage returns")
"""A table of each format, with and without a header, and with a notice."""


@pytest.mark.parametrize("name", VERBS)
def test_what_was_trained_is_what_every_verb_reads(call, small, tmp_path, name):
    case, run = READ[name], tmp_path / "run"
    path = case.write(tmp_path)
    trained = call("train", path, "--out", run, *small(training__steps="1", data__valid_fraction="0"))
    assert trained.code == 0, trained.err
    assert f"source: {label(case.source)}" in trained.err
    assert case.says in trained.err
    split = ("split", path, "--out", tmp_path / "parts")
    for words in (("evaluate", run, path), ("audit", path), ("score", run, path), split):
        answer = call(*words)
        assert answer.code in (0, 4), answer.err
        assert f"source: {label(case.source)}" in answer.err
        assert f"target: {label(case.target)}" in answer.err
        assert case.says in answer.err
    check_parts(tmp_path / "parts", case)
    check_answers(call, run, path, case)


def check_parts(folder: Path, case: Case) -> None:
    """The parts have the header, and all pairs."""
    files = [file for file in folder.iterdir() if file.stem in ("train", "valid", "test")]
    parts = [read_table(file, DataSettings()) for file in files]
    assert sorted(pair for part in parts for pair in part.pairs) == sorted(case.pairs)
    assert {part.header for part in parts} == {isinstance(case.source, str)}


def check_answers(call, run: Path, path: Path, case: Case) -> None:
    """A file and standard input get the answers of the right column, and Python evaluates the same rows."""
    words = ("--column", case.source, "--json", "--quiet")
    of_file = call("translate", run, path, *words)
    assert of_file.code in (0, 4), of_file.err
    sources = [json.loads(line)["source"] for line in of_file.out.splitlines()]
    assert sources[case.left_out :] == [source for source, _ in case.pairs]
    of_stream = call("translate", run, "-", *words, stdin=case.content)
    assert (of_stream.code, of_stream.out) == (of_file.code, of_file.out)
    report = evaluate(Translator.load(run), path, num_beams=1)
    assert (report.rows_scored, report.rows_read) == (len(case.pairs), len(case.pairs) + case.left_out)


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_leaves_a_doubt_is_refused_by_every_verb_with_what_to_do(call, tmp_path, name):
    case = REFUSED[name]
    path = case.write(tmp_path)
    for words in (
        ("audit", path),
        ("train", path, "--out", tmp_path / "run"),
        ("split", path, "--out", tmp_path / "parts"),
    ):
        answer = call(*words)
        assert answer.code in (1, 2), answer.out
        assert "Traceback" not in answer.err
        for part in case.error:
            assert part in answer.err
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_model_keeps_its_columns_wherever_they_are(call, small, tmp_path):
    """The columns of `train --source --target` are those of every verb, whatever is beside them."""
    case, run, pairs = CASES["id, word, pron"], tmp_path / "run", cipher(160)[40:]
    words = ("--source", "word", "--target", "pron")
    short = small(training__steps="1")
    assert call("train", case.write(tmp_path), "--out", run, *words, *short).code == 0
    columns = ModelFile.load(run).data.columns
    assert (columns.inputs[0].name, columns.target.name) == ("word", "pron")
    assert (columns.positions, columns.width) == ((1, 2), 3)
    rows = [("date", "PRON", "number", " Word "), *((f"2024-{i}", y, str(i), x) for i, (x, y) in enumerate(pairs))]
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path = tmp_path / "b.csv"
    path.write_text(text.getvalue())
    for words in (
        ("evaluate", run, path),
        ("score", run, path),
        ("calibrate", run, path),
        ("compare", run, run, path),
        ("export", run, "--to", "onnx", "--out", tmp_path / "onnx", "--check", path),
        ("train", path, "--init", run, "--out", tmp_path / "tuned", "--set", "training.steps=1"),
        ("translate", run, "-", "--lexicon", path),
    ):
        answer = call(*words, stdin=f"{pairs[0][0]}\n".encode())
        assert answer.code in (0, 4), answer.err
        assert "source: Word (column 3) · target: PRON (column 1)" in answer.err or words[0] == "translate"
    assert answer.out == f"{pairs[0][1]}\n"  # from the lexicon
    planned = plan(path, tmp_path / "other", init=run)
    assert planned.table.pairs == pairs
    assert planned.settings.data.source == ("Word",)


def test_a_column_of_the_training_is_found_by_position_where_there_are_no_names(call, run, tmp_path):
    """In a table without a header that has as many columns; where there are names, another one is an error."""
    (tmp_path / "a.tsv").write_text("1845-01-05\tx\n1467-07-28\ty\n")
    answer = call("translate", run, tmp_path / "a.tsv", "--column", "iso")
    assert answer.out == call("translate", run, stdin=b"1845-01-05\n1467-07-28\n").out
    assert "the column iso of the training is read by position, 0" in answer.err
    assert call("translate", run, tmp_path / "a.tsv") == answer
    (tmp_path / "c.tsv").write_text("source\ttarget\n1\tx\n")
    assert (
        "there is no column 'iso' of the training" in call("translate", run, tmp_path / "c.tsv", "--column", "iso").err
    )
