"""`glassformer translate`: line i out answers line i in, whatever the lines hold; what is odd is said on stderr."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

from glassformer.storage.records import TakenColumn, TakenColumns, TrainingData
from tests.cli.conftest import DATES
from tests.untrained import character_model

AS_BYTES = "".join(date + "\n" for date in DATES).encode()


# Lines


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (AS_BYTES, DATES),
        (b"\xef\xbb\xbf1845-01-05\r\n\n  \n1467-07-28", ["1845-01-05", "", "", "1467-07-28"]),
        (b"1845-01-05\n\n", ["1845-01-05", ""]),
        (b"", []),
        ("1845\u2028-01\x0b-05\x85\n1467-07-28\n".encode(), ["1845\u2028-01\x0b-05\x85", "1467-07-28"]),
    ],
)
def test_lines_end_at_newline_alone_and_an_empty_one_is_answered_by_an_empty_one(call, run, translator, given, asked):
    expected = "".join(f"{answer.text}\n" for answer in translator.translate(asked))
    for source in (("-",), ()):
        answer = call("translate", run, *source, stdin=given)
        assert (answer.code, answer.out) == (0, expected)
        assert answer.err == "" or asked != DATES


# Files and tables


def test_a_hyphen_is_standard_output(call, run, answers):
    assert call("translate", run, DATES[0], "--out", "-").out == f"{answers[0]}\n"
    assert call("translate", run, "--out", "-", stdin=f"{DATES[0]}\n".encode()).out == f"{answers[0]}\n"
    assert not os.path.lexists("-")


def test_a_text_file_in_and_a_text_file_out(tmp_path, call, run, answers):
    (tmp_path / "dates.txt").write_bytes(AS_BYTES)
    answer = call("translate", run, tmp_path / "dates.txt", "--out", tmp_path / "deep" / "out.txt")
    assert (answer.code, answer.out) == (0, "")
    assert "wrote 4 lines to" in answer.err
    assert (tmp_path / "deep" / "out.txt").read_text(encoding="utf-8").splitlines() == answers


@pytest.mark.parametrize("column", ["date", "1"])
def test_a_column_of_a_table_is_translated_cell_by_cell(tmp_path, call, run, table_of, answers, column):
    cells = [("id", "date"), *((str(n), date) for n, date in enumerate(DATES)), ("5", "")]
    path = table_of(tmp_path / "table.csv", cells)
    answer = call("translate", run, path, "--column", column)
    assert (answer.code, answer.out.split("\n")) == (0, [*answers, "", ""])


def test_of_a_table_the_column_of_the_training_is_translated(tmp_path, call, run, table_of, answers):
    cells = [("id", "iso"), *((str(n), date) for n, date in enumerate(DATES)), ("5", "")]
    answer = call("translate", run, table_of(tmp_path / "table.csv", cells))
    assert (answer.code, answer.out.split("\n")) == (0, [*answers, "", ""])
    assert "column: iso (column 1)" in answer.err
    cells[0] = ("id", "date")
    answer = call("translate", run, table_of(tmp_path / "other.csv", cells))
    assert answer.code != 0
    assert "there is no column 'iso'" in answer.err
    assert "valid: id, date; --column NAME takes another one" in answer.err


def test_of_a_table_without_a_header_the_column_of_a_training_without_one_is_translated(tmp_path, call, table_of):
    columns = [TakenColumn(position=0), TakenColumn(position=1)]
    data = TrainingData(columns=TakenColumns(inputs=(columns[1],), target=columns[0], width=2))
    replace(character_model("0123456789-"), data=data).save(tmp_path / "model.safetensors")

    def translate(name, rows):
        return call("translate", tmp_path / "model.safetensors", table_of(tmp_path / name, rows))

    one, two = translate("1.csv", [("1-2",)]), translate("2.csv", [("x", "1-2")])
    assert (one.code, two.code, one.out) == (0, 0, two.out)
    for rows in ([("x", "1-2", "y")], [("id", "source"), ("x", "1-2")]):
        answer = translate("other.csv", rows)
        assert answer.code == 2
        assert "the table does not have the columns of the training" in answer.err
        assert "name the column to translate: --column NAME" in answer.err


@pytest.mark.parametrize("suffix", [".parquet", ".csv.gz"])
def test_a_table_without_a_column_is_refused_by_a_model_without_names_of_columns(tmp_path, call, suffix):
    character_model("0123456789-").save(tmp_path / "model.safetensors")
    path = tmp_path / f"table{suffix}"
    path.write_bytes(b"1845-01-05\n")
    answer = call("translate", tmp_path / "model.safetensors", path)
    assert answer.code == 2
    assert "this input is a table" in answer.err
    assert f"where: {path}" in answer.err
    assert "--column NAME" in answer.err


# JSON


def test_json_gives_one_object_a_line(call, run, translator):
    answer = call("translate", run, "-", "--json", stdin=b"1845-01-05\n\n")
    first, empty = (json.loads(line) for line in answer.out.splitlines())
    wanted = translator.translate(["1845-01-05"])[0]
    names = "row source text score rank_score finished tokens token_scores unknown unlike alternatives"
    assert first.keys() == set(names.split())
    assert (first["row"], first["source"], first["text"]) == (1, "1845-01-05", wanted.text)
    assert first["score"] == pytest.approx(wanted.score, abs=1e-4)
    assert first["tokens"] == list(wanted.tokens)
    assert (empty["row"], empty["source"], empty["text"]) == (2, "", "")
    wide = json.loads(call("translate", run, "-", "--json", "--nbest", "3", stdin=b"1845-01-05\n").out)
    expected = translator.translate(["1845-01-05"], num_return_sequences=3)[0]  # wider than the beam of the model
    assert [one["text"] for one in wide["alternatives"]] == [one.text for one in expected.alternatives]
    assert len(expected.alternatives) == 2


def test_texts_of_a_lexicon_have_its_answers_and_the_model_answers_the_others(call, run, answers, tmp_path):
    lexicon, texts = tmp_path / "lexicon.csv", AS_BYTES.decode().splitlines()
    lexicon.write_text(f"source,target\n{texts[1]},from the lexicon\n{texts[1]},second\n", encoding="utf-8")
    found = call("translate", run, "-", "--lexicon", lexicon, stdin=AS_BYTES)
    assert found.out.splitlines() == [answers[0], "from the lexicon", *answers[2:]]
    assert "1 row was answered from the lexicon" in found.err
    lines = call("translate", run, "-", "--lexicon", lexicon, "--json", stdin=AS_BYTES).out.splitlines()
    assert [json.loads(line).get("from_lexicon", False) for line in lines] == [False, True, False, False]
    forced = call("translate", run, "-", "--lexicon", lexicon, "--prefix", "J", stdin=AS_BYTES)
    assert "from the lexicon" not in forced.out
    missing = call("translate", run, "-", "--lexicon", tmp_path / "none.tsv", stdin=AS_BYTES)
    assert (missing.code, "none.tsv" in missing.err) == (1, True)


# Warnings


def test_unknown_characters_and_texts_that_are_unlike_the_training_are_counted(call, run, table_of, tmp_path):
    answer = call("translate", run, "-", stdin="18é5-01-05\n1845-01-05\néß\n".encode())
    assert (answer.code, answer.out.count("\n"), "é" in answer.out) == (0, 3, False)
    assert "warning: 3 unknown tokens in 2 lines were read as <unk>: 'é' (2), 'ß' (1)" in answer.err
    reason = "(the text has 13 tokens, the longest of the training 10)"
    answer = call("translate", run, "-", stdin=b"1845-01-05\n1845-01-05 05\n")
    assert f"warning: 1 text is unlike all that the model was trained on: row 2 {reason}\n" in answer.err
    table = table_of(tmp_path / "odd.csv", [("iso", "english"), *[("1845-01-05 05", "x"), ("1845-01-05 06", "y")] * 3])
    answer = call("evaluate", run, table, "--beam", "1")
    assert f"6 texts are unlike all that the model was trained on: row 1 {reason}, row 2 {reason}" in answer.err
    assert "and 3 more" in answer.err


def test_answers_that_were_cut_are_named(call, run):
    answer = call("translate", run, "-", "--beam", 1, "--set", "decoding.max_new_tokens=2", stdin=b"\n" + AS_BYTES)
    assert answer.code == 0
    assert "4 answers were cut off at the maximum number of tokens, in lines 2, 3, 4, 5;" in answer.err
    assert "--set decoding.max_new_tokens=N allows more" in answer.err
    assert "warning: decoding.max_new_tokens is 2, and the longest target trained on has 18 tokens" in answer.err
    assert all(len(line) == 2 for line in answer.out.splitlines()[1:])


def test_a_damaged_table_is_translated_with_empty_lines_only_on_demand(tmp_path, call, run):
    damaged = tmp_path / "damaged.csv"
    damaged.write_text("1845-01-05,a\n1845-01-06\n1845-01-07,c\n")
    refused = call("translate", run, damaged, "--column", 0, "--no-header")
    assert (refused.code, refused.out) == (1, "")
    assert "leave them empty with --ledger FILE" in refused.err
    answer = call("translate", run, damaged, "--column", 0, "--no-header", "--ledger", tmp_path / "lost.jsonl")
    assert answer.code == 0
    assert [bool(line) for line in answer.out.split("\n")] == [True, False, True, False]
    assert "1 × wrong number of cells (row 2)" in answer.err
    assert json.loads((tmp_path / "lost.jsonl").read_text("utf-8"))["row"] == 2
    assert "warning: 1 row has no cell and gets an empty line" in answer.err


def test_what_was_taken_of_a_table_is_said_before_its_answers(tmp_path, call, run):
    table = tmp_path / "h.csv"
    table.write_text("to,from\n1845-01-05,a\n1845-01-06,b\n")
    answer = call("translate", run, table, "--column", 0)
    assert answer.err.splitlines()[:3] == [
        f"read {table} (CSV, with a header): 2 rows read, 2 kept",
        "column: to (column 0)",
        "the first row was read as a header: 'to' | 'from' (otherwise: --no-header)",
    ]
    quiet = call("translate", run, table, "--column", 0, "--quiet")
    assert (quiet.out, quiet.err) == (answer.out, "")
