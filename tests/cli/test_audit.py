"""`glassformer audit`: what it prints, its JSON and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glassformer.data.datasets import dates

CLEAN = dates(120, seed=5)
HOSTILE = "x\x1b[31m<b>y"


@pytest.fixture
def dirty(tmp_path, table_of) -> Path:
    rows = [("iso", "english"), *CLEAN, CLEAN[0], (CLEAN[1][0], HOSTILE), ("cafÃ©", "z")]
    return table_of(tmp_path / "dirty.csv", rows)


def test_each_finding_is_printed_with_rows_and_advice_and_nothing_is_changed(call, dirty):
    before = dirty.read_bytes()
    answer = call("audit", dirty)
    assert answer.code == 0, answer.err
    assert "123 rows read, 123 kept" in answer.err
    assert "source: iso (column 0) · target: english (column 1)" in answer.err
    assert "error: wrong decoding\n" in answer.out
    assert f"  {dirty}: 1 of 123 rows (0.8 %) repeats an earlier row, source and target\n" in answer.out
    assert f"row 121:  {CLEAN[0][0]} → {CLEAN[0][1]}  (the same as row 1)" in answer.out
    assert "to do: " in answer.out
    assert "option: --set data.drop_contradictions=true\n" in answer.out
    assert "1 error, 3 warnings" in answer.out.splitlines()[-1]
    assert dirty.read_bytes() == before


def test_what_an_option_would_leave_is_examined(call, dirty):
    cleaning = ("drop_duplicates=true", "drop_contradictions=true", "strip_controls=true")
    limits = ("max_source_length=30", "max_target_length=30")
    options = [word for setting in (*cleaning, *limits) for word in ("--set", f"data.{setting}")]
    answer = call("audit", dirty, *options, "--json")
    assert answer.code == 0, answer.err
    dropped = "  2 × contradiction (row 2, 122)\n  1 × duplicate (row 121)"
    assert f"after cleaning: 123 rows read, 120 kept\n{dropped}" in answer.err
    found = json.loads(answer.out)
    kinds = {finding["kind"] for finding in found["findings"]}
    assert not kinds & {"duplicates", "contradictions", "control characters", "rows left out"}
    assert found["tables"][0]["left_out"] == {"duplicate": 1, "contradiction": 2}


def test_an_invisible_character_is_printed_as_an_escape_and_a_joiner_of_a_script_is_not(call, tmp_path, table_of):
    rows = [("iso", "english"), *CLEAN, ("a\u200bb", "x"), ("\u0c95\u200c\u0cb7\u200b", "y")]
    out = call("audit", table_of(tmp_path / "t.csv", rows)).out
    assert "a\\u200bb → x  (U+200B ZERO WIDTH SPACE)" in out
    assert "\u0c95\u200c\u0cb7\\u200b → y" in out


def test_strict_is_exit_code_3_where_something_was_found_and_json_has_the_texts_as_they_are(
    call, tmp_path, table_of, dirty
):
    clean = table_of(tmp_path / "clean.csv", [("iso", "english"), *CLEAN])
    assert call("audit", clean, "--strict").code == 0
    answer = call("audit", dirty, "--strict", "--json", "--quiet")
    assert (answer.code, answer.err) == (3, "")
    found = json.loads(answer.out)
    (control,) = (finding for finding in found["findings"] if finding["kind"] == "control characters")
    assert (control["examples"][0]["target"], control["examples"][0]["row"]) == (HOSTILE, 122)


def test_contradictions_name_the_columns_that_are_not_read(call, tmp_path, table_of):
    rows = [(word, f"{word}{end}", end) for word in ("ab", "cd", "ef") for end in ("s", "ing")]
    table = table_of(tmp_path / "forms.csv", [("lemma", "form", "ending"), *rows])
    advice = "to do: if a column that is not read decides (ending), read it: --feature NAME; if all targets are right"
    assert advice in call("audit", table).out
    assert "that is not read" not in call("audit", table, "--feature", "ending").out


def test_a_folder_is_audited_and_its_rows_are_named_with_their_files(call, tmp_path, table_of):
    folder = tmp_path / "folder"
    folder.mkdir()
    first = table_of(folder / "a.csv", [("iso", "english"), *CLEAN[:60], ("", "empty")])
    second = table_of(folder / "b.csv", [("iso", "english"), *CLEAN[60:], CLEAN[0]])
    answer = call("audit", folder, "--valid", first)
    assert answer.code == 0, answer.err
    assert "122 rows read, 121 kept" in answer.err
    assert f"    row 61 of {first}:  empty source\n" in answer.out
    assert f"    row 61 of {second}:  {CLEAN[0][0]} → {CLEAN[0][1]}  (the same as row 1 of {first})\n" in answer.out
    assert f"(row 1 of {first} has the same)" in answer.out
