"""The choice of the engine and the precision on the command line."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("verb", [("translate", "--column", "0"), ("evaluate",)])
def test_an_engine_that_is_not_there_names_those_that_are(call, run, table, verb):
    answer = call(*verb, run, table, "--engine", "marian")
    assert (answer.code, answer.out) == (2, "")
    assert "there is no engine 'marian'\n  next: valid: auto, numpy, torch" in answer.err
    assert "next: glassformer export --to ctranslate2" in call(*verb, run, table, "--engine", "ctranslate2").err


def test_a_precision_that_there_is_not_is_refused_with_those_that_there_are(call, run, table):
    answer = call("translate", run, table, "--column", "0", "--precision", "int8")
    assert answer.code == 2
    assert "valid: auto, float32, bfloat16" in answer.err
