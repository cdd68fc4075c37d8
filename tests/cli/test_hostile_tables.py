"""Hostile tables from the command line: no traceback, an exit code of the tree of errors, and answer i is of row i."""

from __future__ import annotations

import json

import pytest

from glassformer.data.datasets import dates
from glassformer.errors import EXIT_LEFT_OUT
from tests.hostile import tables, write

TABLES = tables()
FEW = [*TABLES][::14]
"""Tables of every format for the fast suite."""

DATES = [source for source, _ in dates(12, seed=8)]
"""Cells that CSV, JSON Lines and Parquet can hold. Each has an answer of its own, or none."""


def tables_of(verb: str) -> list[object]:
    """The tables of a verb; `score` of a huge target is computed, and takes minutes."""
    names = [name for name in TABLES if verb != "score" or "huge cell" not in name]
    return [pytest.param(verb, name, marks=() if name in FEW else pytest.mark.slow) for name in names]


@pytest.mark.parametrize(
    ("verb", "name"),
    [case for verb in ("audit", "split", "translate", "evaluate", "score") for case in tables_of(verb)],
)
def test_a_hostile_table_ends_in_an_exit_code_and_a_message(call, run, tmp_path, verb, name):
    path = write(TABLES[name], tmp_path)
    words = {
        "audit": ("audit", path, "--set", "data.strip_controls=true", "--json"),
        "split": ("split", path, "--out", tmp_path / "parts"),
        "translate": ("translate", run, path, "--column", "0", "--set", "decoding.max_new_tokens=2"),
        "evaluate": ("evaluate", run, path, "--beam", "1", "--set", "decoding.max_new_tokens=2"),
        "score": ("score", run, path),
    }[verb]
    answer = call(*words, "--bad-rows", "skip")
    assert answer.code in ((0, 1, 2, EXIT_LEFT_OUT) if verb == "translate" else (0, 1, 2)), answer
    assert "Traceback" not in answer.err
    assert ("error: " in answer.err) == (answer.code in (1, 2))
    if verb == "audit" and answer.code == 0:
        json.loads(answer.out)


def test_a_huge_text_is_shortened_on_the_terminal_and_not_in_json(call, run, tmp_path, table_of):
    table = table_of(tmp_path / "t.csv", [("source", "target"), (DATES[0], "x" * 50_000)])
    assert len(call("evaluate", run, table, "--beam", "1").out) < 5_000
    (example,) = json.loads(call("evaluate", run, table, "--beam", "1", "--json").out)["examples"]
    assert example["gold"] == "x" * 50_000
