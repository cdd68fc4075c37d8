"""Answers as rows of each format: read again, they are what was written."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from glassformer.data.cells import Json
from glassformer.errors import UsageError
from glassformer.jobs.answers import JobAnswer
from glassformer.jobs.inputs import JobRow
from glassformer.jobs.layout import OutputForm, choose_format, free_name

CELLS = st.text(alphabet=st.sampled_from('a ,"\t\n\r;é\u2028\x0b'), max_size=6)


def written(layout: OutputForm, rows: list[tuple[str, str]]) -> str:
    job_rows = [JobRow(number, "source", (kept,)) for number, (kept, _) in enumerate(rows, 1)]
    answers = [JobAnswer(text, -0.5, -0.25, ("t",), (-0.5, -0.125), finished=True) for _, text in rows]
    return (layout.head() + layout.encode(job_rows, answers)).decode()


@given(st.lists(st.tuples(CELLS, CELLS), max_size=4))
def test_csv_is_read_again_as_it_was(rows):
    text = written(OutputForm("csv", kept=("id",)), rows)
    assert list(csv.reader(io.StringIO(text, newline=""), strict=True)) == [["id", "answer"], *map(list, rows)]


@given(st.lists(st.tuples(CELLS, CELLS), max_size=4))
def test_tsv_and_lines_have_one_line_for_each_row(rows):
    text = written(OutputForm("tsv", kept=("id",), header=False), rows)
    assert [line.split("\t") for line in text.split("\n")[:-1]] == [
        [cell.replace("\t", " ").replace("\n", " ").replace("\r", " ") for cell in row] for row in rows
    ]
    assert written(OutputForm("lines"), rows).count("\n") == len(rows)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=4))
def test_json_lines_are_read_again_as_they_were(rows):
    text = written(OutputForm("jsonl", kept=("id",)), rows)
    found = [json.loads(line) for line in text.split("\n")[:-1]]
    assert found == [{"id": kept, "answer": answer} for kept, answer in rows]


@pytest.mark.parametrize(
    ("out", "input_format", "full", "columns", "expected"),
    [
        (None, "plain text", False, False, "lines"),
        (None, "plain text", False, True, "tsv"),
        (None, "CSV", False, False, "lines"),
        (None, "CSV", False, True, "csv"),
        (None, "JSON Lines", False, True, "jsonl"),
        ("a.parquet", "CSV", False, False, "parquet"),
        ("a.TSV", "CSV", False, True, "tsv"),
        ("a.txt", "CSV", False, True, "csv"),
        (None, "CSV", True, False, "jsonl"),
        ("a.json", "plain text", True, False, "jsonl"),
        ("a.csv.gz", "plain text", False, False, "csv"),
        ("a.gz", "plain text", False, False, "lines"),
    ],
)
def test_the_format_is_that_of_the_output_or_of_the_input(out, input_format, full, columns, expected):
    assert choose_format(out and Path(out), input_format, full=full, columns=columns) == expected


@pytest.mark.parametrize(
    ("out", "full", "message"),
    [
        ("a.csv", True, "are JSON Lines"),
        ("a.parquet.gz", False, "Parquet is compressed by itself"),
        ("a.xlsx", False, "cannot be written to such a file"),
    ],
)
def test_formats_that_conflict_are_refused(out, full, message):
    with pytest.raises(UsageError, match=message):
        choose_format(Path(out), "plain text", full=full, columns=False)


def test_the_column_of_answers_has_a_name_of_its_own():
    assert free_name(("id",)) == "answer"
    assert free_name(("answer", "answer_2")) == "answer_3"


def test_kept_values_of_json_keep_their_type_and_are_json_in_csv():
    rows = [JobRow(1, "a", (Json("1.50"), Json('[1, "é"]'), "1.50")), JobRow(2, "b", (Json("null"), Json("true"), ""))]
    answers = [JobAnswer("A", -0.5, -0.25, ("t",), (-0.5,), finished=True)] * 2
    kept = ("n", "list", "text")
    assert OutputForm("jsonl", kept=kept).encode(rows, answers).decode().splitlines() == [
        '{"n": 1.50, "list": [1, "é"], "text": "1.50", "answer": "A"}',
        '{"n": null, "list": true, "text": "", "answer": "A"}',
    ]
    full = OutputForm("jsonl", full=True, kept=kept).encode(rows, answers).decode().splitlines()
    assert '"kept": {"n": 1.50, "list": [1, "é"], "text": "1.50"}' in full[0]
    assert json.loads(full[1])["kept"] == {"n": None, "list": True, "text": ""}
    assert OutputForm("csv", kept=kept).encode(rows, answers).decode() == '1.50,"[1, ""é""]",1.50,A\n,true,,A\n'
