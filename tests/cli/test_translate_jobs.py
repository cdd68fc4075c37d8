"""`glassformer translate` as a job: streams, columns passed through, formats, long texts, interrupts and resuming."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.cli.progress import progress_line
from glassformer.data.datasets import dates
from glassformer.errors import EXIT_LEFT_OUT
from glassformer.inference.translator import Translator
from glassformer.jobs import chunks
from tests.cli.conftest import DATES

LONG = "1" * 129

on_posix = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")


@pytest.fixture
def ids(tmp_path, table_of) -> Path:
    """Four dates with an id and a note, with cells that need quotes."""
    notes = ("plain", 'a "quote", a comma', "two\nlines", "tab\there")
    return table_of(tmp_path / "ids.csv", [("id", "date", "note"), *zip("abcd", DATES, notes, strict=True)])


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "glassformer", *map(str, words)]


# Columns and formats


def test_kept_columns_come_before_the_answers_in_the_format_of_the_input(call, run, ids, answers):
    answer = call("translate", run, ids, "--column", "date", "--keep", "note,id")
    rows = list(csv.reader(answer.out.splitlines(keepends=True), strict=True))
    assert answer.code == 0
    assert rows[0] == ["note", "id", "answer"]
    assert [row[1:] for row in rows[1:]] == [list(row) for row in zip("abcd", answers, strict=True)]
    assert [row[0] for row in rows[1:]] == ["plain", 'a "quote", a comma', "two\nlines", "tab\there"]
    assert "column: date (column 1) · kept: note (column 2), id (column 0)" in answer.err


def test_alignments_are_pairs_of_numbers_in_a_column_and_lists_in_json(call, run, ids):
    lines = "".join(f"{date}\n" for date in DATES).encode()
    table = call("translate", run, "--alignments", stdin=lines).out.splitlines()
    objects = call("translate", run, ids, "--column", "date", "--alignments", "--json").out.splitlines()
    assert table[0] == "answer\talignment"
    for line, written in zip(table[1:], objects, strict=True):
        found = json.loads(written)
        assert line.split("\t")[1] == " ".join(f"{source}-{target}" for source, target in found["alignment"])
        assert len(found["alignment"]) == len(found["tokens"])
        assert "".join(found["source_tokens"]) == found["source"]


def test_a_prefix_is_the_start_of_every_answer_and_a_column_has_one_for_each(tmp_path, call, run, table_of):
    path = table_of(tmp_path / "t.csv", [("date", "start"), (DATES[0], "Mar"), (DATES[1], ""), ("", "May")])
    starts = call("translate", run, "--prefix", "May ", stdin=f"{DATES[0]}\n{DATES[1]}\n\n".encode()).out.splitlines()
    assert [line.startswith("May ") for line in starts] == [True, True, False]
    own = call("translate", run, path, "--column", "date", "--prefix", "start")
    first, second, empty = own.out.split("\n")[:3]
    assert (first[:3], empty) == ("Mar", "")
    assert second == call("translate", run, stdin=DATES[1].encode()).out.strip()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep", "id"], "plain lines have no columns"),
        (["--header"], "--header and --ledger are for tables"),
        (["--ledger", "lost.jsonl"], "--header and --ledger are for tables"),
        (["--set", "model.d_model=64"], "'model' is fixed when a model is trained"),
        (["--resume"], "only a file can be resumed"),
        (["--column", "0", "--keep", "0,0"], "two columns of the output have the same name"),
        (["--column", "0", "--keep", "9"], "there is no column 9"),
        (["--out", "OUT.csv", "--json"], "are JSON Lines"),
    ],
)
def test_options_that_do_not_fit_are_refused(call, run, words, message, tmp_path):
    words = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    answer = call("translate", run, "-", *words, stdin=b"1845-01-05\n")
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert "Traceback" not in answer.err


# Standard input


@on_posix
@pytest.mark.medium
def test_each_line_is_answered_before_the_next_one_is_typed_until_ctrl_c(run, answers):
    process = subprocess.Popen(
        command("translate", run), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    for date, answer in zip(DATES, answers, strict=True):
        process.stdin.write(f"{date}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == f"{answer}\n"  # hangs where lines are kept waiting
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert (process.returncode, out, err) == (
        130,
        b"",
        b"interrupted; no file is incomplete, but standard output may be\n",
    )


# Long texts


def test_a_long_text_leaves_its_row_empty_and_is_in_the_warning_and_the_exit_code(call, run, answers):
    answer = call("translate", run, "-", stdin=f"{DATES[0]}\n{LONG}\n{DATES[1]}\n".encode())
    assert (answer.code, answer.out) == (EXIT_LEFT_OUT, f"{answers[0]}\n\n{answers[1]}\n")
    assert "1 row was left empty" in answer.err
    assert "row 2 (129 tokens; the model takes at most 128)" in answer.err


# Progress


def test_a_log_has_a_line_of_progress_a_minute(call, run, monkeypatch):
    monkeypatch.setattr("glassformer.cli.progress.LOG_SECONDS", 0.0)
    answer = call("translate", run, "-", stdin="".join(f"{date}\n" for date in DATES).encode())
    assert answer.err.splitlines()[-1].startswith("4 rows, ")
    assert answer.err.splitlines()[-1].endswith(" rows/s")
    assert call("translate", run, "-", "--quiet", stdin=DATES[0].encode()).err == ""
    assert progress_line(1_000, 400, 10_000, 60.0) == "1,000 of 10,000 rows, 10.0 rows/s, 15 min left"
    assert progress_line(1_000, 0, None, 100.0) == "1,000 rows, 10.0 rows/s"


# Interrupts


@pytest.fixture
def many(tmp_path, table_of) -> Path:
    rows = [(str(n), iso) for n, (iso, _) in enumerate(dates(60, seed=3))]
    return table_of(tmp_path / "many.csv", [("id", "iso"), *rows])


@pytest.fixture
def interrupted(tmp_path, call, run, many, monkeypatch) -> tuple[tuple[object, ...], Path]:
    """The words of a job that Ctrl-C ended in its third chunk, and its output."""
    monkeypatch.setattr(chunks, "FIRST", 10)
    monkeypatch.setattr(chunks, "LARGEST", 20)
    out = tmp_path / "out.csv"
    words = ("translate", run, many, "--column", "iso", "--keep", "id", "--out", out)
    translate, calls = Translator.translate, []

    def interrupt(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return translate(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Translator, "translate", interrupt)
        answer = call(*words)
    assert answer.code == 130
    assert f"30 rows are done, in {out}.part; --resume continues" in answer.err
    assert not out.exists()
    return words, out


def test_an_interrupted_job_is_resumed_and_another_one_is_not(call, interrupted):
    words, out = interrupted
    answer = call(*words, "--resume", "--beam", "1")
    assert (answer.code, "the interrupted job is another one: num_beams" in answer.err) == (1, True)
    assert "--overwrite starts again" in answer.err
    answer = call(*words, "--resume")
    assert (answer.code, "wrote 60 rows" in answer.err) == (0, True), answer.err
    assert out.read_text(encoding="utf-8") == call(*words[:-2]).out  # to standard output
    assert sorted(path.name for path in out.parent.iterdir()) == ["many.csv", "out.csv"]


# Ray


@pytest.mark.parametrize(
    ("cluster", "message", "code"),
    [("slurm", "--on slurm is not available", 2), ("ray", "pip install '.[ray]'", 1)],
)
def test_a_cluster_that_is_not_available_is_an_error_and_nothing_is_written(
    call, tmp_path, run, many, monkeypatch, cluster, message, code
):
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = call("translate", run, many, "--column", "iso", "--out", tmp_path / "out.csv", "--on", cluster)
    assert (answer.code, message in answer.err, "ray" in answer.err) == (code, True, True), answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["many.csv"]
    assert "--on ray is for a file" in call("translate", run, "-", "--on", "ray").err


# Answers of a given form


def test_answers_match_a_pattern_or_are_choices(tmp_path, call, run, table_of):
    pytest.importorskip("outlines_core")
    path = table_of(tmp_path / "t.csv", [("date", "start"), (DATES[0], "Mar"), (DATES[1], ""), ("", "")])
    table = ("translate", run, path, "--column", "date")
    found = call(*table, "--must-match", r"[A-Z][a-z]+ \d").out.splitlines()
    assert [bool(re.fullmatch(r"[A-Z][a-z]+ \d", line)) for line in found] == [True, True, False]

    choices = tmp_path / "choices.txt"
    choices.write_text("March\nMay\nMay 5\n", encoding="utf-8")
    answer = call(*table, "--choices", choices, "--prefix", "start", "--out", tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert (answer.code, lines[0], lines[1] in ("March", "May", "May 5"), lines[2]) == (0, "March", True, "")


def test_a_row_whose_start_no_choice_has_is_left_empty_and_named(tmp_path, call, run):
    choices = tmp_path / "choices.txt"
    choices.write_text("March\nMay\n", encoding="utf-8")
    answer = call("translate", run, "--choices", choices, "--prefix", "J", "--json", stdin=DATES[0].encode())
    assert answer.code == EXIT_LEFT_OUT
    assert json.loads(answer.out)["left_out"].startswith("no answer that is allowed starts with the prefix")
    assert "1 row was left empty: row 1 (no answer that is allowed" in answer.err
    assert "--long stop" not in answer.err


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "there are no choices"), ("May\n\nJune\n", "line 2"), ("May\nX!\n", "1 of 2 choices can never be an answer")],
)
def test_a_file_that_holds_no_choices_is_refused(tmp_path, call, run, content, message):
    choices = tmp_path / "choices.txt"
    choices.write_text(content, encoding="utf-8")
    answer = call("translate", run, "--choices", choices, stdin=DATES[0].encode())
    assert answer.code in (1, 2)
    assert message in answer.err
