"""`glassformer check` prints a line for each check, writes nothing, and exits with 3 when one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from glassformer.before import checks, selftest
from glassformer.paper.kernels.packed_attention import PackedAttention
from glassformer.paper.kernels.packing import Layout


@contextmanager
def broken() -> Iterator[None]:
    """Attention with padding that hides none of it."""
    with (
        mock.patch.object(PackedAttention, "serves", return_value=False),
        mock.patch.object(Layout, "visible", property(lambda _: None)),
    ):
        yield


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch):
    monkeypatch.setattr(selftest, "MAX_SECONDS", 0.0)
    monkeypatch.setattr(selftest, "MAX_SECONDS_BEFORE", 0.0)
    monkeypatch.setattr(checks, "OVERFIT_ROWS", 4)


def test_a_sound_training_passes_and_nothing_is_written(call, table, small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    answer = call("check", table, *small())
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert len(lines) == 9
    assert all(line.startswith("ok ") for line in lines)
    assert "target tokens per second" in answer.out
    assert "to the end: 150 steps" in answer.out
    assert "200 rows read, 200 kept" in answer.err
    assert "all 9 checks passed" in answer.err
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("torch")] == []  # caches of PyTorch


def test_a_failed_check_says_what_to_do_and_exits_with_3(call, table, small):
    with broken():
        answer = call("check", table, *small())
    assert answer.code == 3
    (line,) = (line for line in answer.out.splitlines() if line.startswith("failed"))
    assert "padding leak" in line
    assert "to do: " in answer.out
    assert "1 of 9 checks failed: padding leak" in answer.err
    with broken():
        answer = call("check", table, *small(), "--json", "--quiet")
    assert (answer.code, answer.err) == (3, "")
    assert [one["name"] for one in json.loads(answer.out)["checks"] if not one["passed"]] == ["padding leak"]


def test_a_model_to_start_from_is_tested(call, table, run):
    answer = call("check", table, "--init", run, "--set", "training.steps=20")
    assert answer.code == 0, answer.out
    assert "overfit one batch" in answer.out


# Before a training


def test_a_long_training_is_tested_in_one_line(call, table, small, tmp_path, monkeypatch):
    words = small(training__steps="6", training__validate_every="3")
    monkeypatch.setattr(selftest, "LONG", 0)
    answer = call("train", table, "--out", tmp_path / "run", *words)
    assert answer.code == 0, answer.err
    (line,) = (line for line in answer.err.splitlines() if line.startswith("self-test: "))
    assert "all 6 checks passed" in line
    assert "to the end: 6 steps" in line


def test_a_check_that_fails_is_a_warning_before_a_long_training(call, table, small, tmp_path, monkeypatch):
    monkeypatch.setattr(selftest, "LONG", 0)
    monkeypatch.setattr("glassformer.before.measure.peak_memory", lambda _: 10**18)
    words = small(training__steps="4", training__validate_every="4")
    answer = call("train", table, "--out", tmp_path / "run", *words)
    assert answer.code == 0, answer.err
    assert "warning: memory: " in answer.err
