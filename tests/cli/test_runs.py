"""`glassformer runs` prints a table, JSON, and what it left out."""

from __future__ import annotations

import json
import shutil

import pytest


@pytest.fixture
def folder(tmp_path, run):
    shutil.copytree(run, tmp_path / "one")
    (tmp_path / "data").mkdir()
    return tmp_path


def test_the_table_and_json_say_the_same(call, folder):
    answer = call("runs", folder)
    assert answer.code == 0
    assert "warning: data is left out: not a run: it has no recipe.toml" in answer.err
    found = json.loads(call("runs", folder, "--json").out)
    assert found["left_out"] == {"data": "not a run: it has no recipe.toml"}
    (one,) = found["runs"]
    assert (one["name"], one["state"], one["steps"], one["settings"]) == ("one", "finished", 150, {})
    row = next(line for line in answer.out.splitlines() if line.startswith("one"))
    assert f"{one['metric']} {one['value']:.4f} at {one['best_step']}" in row
    assert f"{one['n_parameters']:,}" in row
