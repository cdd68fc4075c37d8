"""The second engine on the command line: the same answers, and a word on how they were compared."""

from __future__ import annotations

import json

import pytest

from glassformer.data.datasets import dates

pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")

TEXTS = [source for source, _ in dates(80, seed=8)]


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "texts.txt"
    path.write_text("".join(f"{text}\n" for text in ["", *TEXTS]), encoding="utf-8")
    return path


def test_translate_answers_as_with_torch_and_says_on_how_many_sources_that_was_compared(call, run, lines):
    expected = call("translate", run, lines, "--beam", "1")
    answer = call("translate", run, lines, "--beam", "1", "--engine", "ctranslate2")
    assert (answer.code, answer.out) == (0, expected.out)
    assert "ctranslate2 in float32: equal to numpy on 64 of 64 drawn sources" in answer.err
    assert "ctranslate2" not in expected.err
    assert "ctranslate2" not in call("translate", run, lines, "--engine", "ctranslate2", "--quiet").err


def test_the_best_answer_of_a_beam_is_nearly_always_that_of_torch(call, run, lines):
    answers = [
        call("translate", run, lines, "--beam", "5", "--engine", engine).out.splitlines()
        for engine in ("torch", "ctranslate2")
    ]
    assert sum(one == other for one, other in zip(*answers, strict=True)) >= 0.97 * len(TEXTS)


def test_translate_in_int8_says_how_many_answers_changed(call, run, lines):
    answer = call("translate", run, lines, "--engine", "ctranslate2", "--precision", "int8")
    assert answer.code == 0
    assert len(answer.out.splitlines()) == len(TEXTS) + 1
    assert "ctranslate2 in int8: equal to numpy on " in answer.err


def test_evaluate_in_int8_shows_each_metric_in_both(call, run, few):
    answer = call("evaluate", run, few, "--engine", "ctranslate2", "--precision", "int8", "--json")
    exact = json.loads(call("evaluate", run, few, "--json").out)["metrics"]
    assert answer.code == 0
    head, *rows = answer.err[answer.err.index("the first 24 rows") :].splitlines()[1:]
    assert head.split("  ")[0] == "metric"
    assert "numpy, float32" in head
    assert "ctranslate2, int8" in head
    shown = {name: (float(float32), float(int8)) for name, float32, int8 in map(str.split, rows)}
    assert shown.keys() == exact.keys()
    assert shown["exact_match"][0] == pytest.approx(100 * exact["exact_match"]["value"], abs=0.01)
    now = json.loads(answer.out)["metrics"]  # the table has 24 rows, all of them the first
    assert shown["bleu"][1] == pytest.approx(now["bleu"]["value"], abs=0.01)


@pytest.mark.parametrize("verb", ["translate", "evaluate"])
def test_an_engine_that_is_not_there_names_those_that_are(call, run, lines, table, verb):
    answer = call(verb, run, lines if verb == "translate" else table, "--engine", "marian")
    assert (answer.code, answer.out) == (2, "")
    assert "there is no engine 'marian'\n  next: valid: auto, numpy, torch, ctranslate2" in answer.err


def test_a_precision_of_the_other_engine_is_refused_with_those_that_there_are(call, run, lines):
    answer = call("translate", run, lines, "--precision", "int8")
    assert answer.code == 2
    assert "valid: auto, float32, bfloat16" in answer.err
