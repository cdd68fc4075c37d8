"""`glassformer export`: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest

from glassformer.data.digits import six_digits

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")


def test_an_export_is_checked_on_the_held_out_rows_of_the_run(run, call, tmp_path):
    answer = call("export", run, "--to", "ctranslate2", "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    assert "held-out rows" in answer.err
    assert "greedy search: " in answer.err
    assert "beam of 2: " in answer.err
    record = json.loads((tmp_path / "out" / "check.json").read_text(encoding="utf-8"))
    printed = json.loads(answer.out)
    assert printed["check"]["searches"] == six_digits(record["searches"])
    assert printed["bytes"] > 10_000
    n_held_out = len((run / "held_out.jsonl").read_text(encoding="utf-8").splitlines())
    assert record["searches"][0]["rows"] == n_held_out + 4  # and the edge cases


def test_a_table_to_check_on_is_read_with_its_columns(run, table, call, tmp_path):
    answer = call("export", run, "--to", "ctranslate2", "--out", tmp_path / "out", "--check", table, "--source", "0")
    assert answer.code == 0, answer.err
    assert "read " in answer.err
    assert "the given rows" in answer.err
    half = call(
        "export", run, "--to", "ctranslate2", "--out", tmp_path / "half", "--check", table, "--precision", "float16"
    )
    assert "exact_match on 200 rows: " in half.err
