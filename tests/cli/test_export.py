"""`glassformer export`: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest

from glassformer.data.digits import six_digits

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")


def test_an_export_is_checked_on_the_held_out_rows_of_the_run_or_on_a_given_table(run, table, call, tmp_path):
    answer = call("export", run, "--to", "ctranslate2", "--out", tmp_path / "out", "--json")
    assert answer.code == 0, answer.err
    assert "held-out rows" in answer.err
    assert "greedy search: " in answer.err
    assert "beam of 2: " in answer.err
    record = json.loads((tmp_path / "out" / "check.json").read_text(encoding="utf-8"))
    printed = json.loads(answer.out)
    assert printed["check"]["searches"] == six_digits(record["searches"])
    assert printed["bytes"] > 10_000
    options = ("--check", table, "--source", "0", "--precision", "float16")
    half = call("export", run, "--to", "ctranslate2", "--out", tmp_path / "half", *options)
    assert half.code == 0, half.err
    assert f"read {table}" in half.err
    assert "the given rows" in half.err
    assert "exact_match on 200 rows: " in half.err
