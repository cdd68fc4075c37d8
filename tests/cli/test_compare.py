"""`glassformer compare`: models and files of answers on each side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cases import cipher


def found_of(call, *words: object) -> dict:
    answer = call("compare", *words, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


@pytest.mark.parametrize("form", ["a.txt.gz", "a,b.jsonl --json", "a.csv --keep english --alignments"])
def test_what_translate_writes_is_compared_as_the_model_itself(form, tmp_path, call, run, few):
    name, *words = form.split()
    done = call("translate", run, few, "--column", "iso", "--out", tmp_path / name, *words)
    assert done.code == 0, done.err
    found = found_of(call, run, tmp_path / name, few)
    assert found["items"] == 24
    assert (found["won_by_a"], found["won_by_b"]) == (0, 0)
    for metric in found["metrics"].values():
        assert metric["a"] == metric["b"]
        assert (metric["p"], metric["better"]) == (1, "")


@pytest.fixture(scope="module")
def early(run) -> Path:
    """The weights after a part of the training."""
    return min((run / "checkpoints").glob("s*-*.safetensors"))


def test_a_trained_model_is_better_than_an_early_one(call, run, early, table):
    found = found_of(call, early, run, table, "--seed", "3")
    evaluated = json.loads(call("evaluate", run, table, "--json").out)["metrics"]
    of_b = {name: each["b"] for name, each in found["metrics"].items()}
    assert of_b == {name: evaluated[name]["value"] for name in of_b}
    assert of_b.keys() | {"sequence_error_rate", "bleu"} == evaluated.keys()  # early answers are short
    assert found["metrics"]["char_error_rate"]["better"] == "B"
    assert (found["seed"], found["a"]) == (3, [str(early)])
    shown = call("compare", early, run, table).out
    assert f"char_error_rate: {found['metrics']['char_error_rate']['verdict'][:20]}" in shown
    assert f"B has fewer edits than A in {found['won_by_b']} rows, and more in {found['won_by_a']}\n" in shown
    assert "rows in which B has fewer edits" in shown
    assert "for two recipes, compare several seeds of each" in shown


def test_several_seeds_are_one_side(call, run, early, few):
    shown = call("compare", f"{early},{early}", run, few).out
    assert f"A: {early}, {early} (2 seeds)\n" in shown
    assert "compare several seeds" not in shown


def test_models_with_other_inputs_read_their_own_columns(tmp_path, call, small, table_of):
    rows = [
        (f"{lemma}{ending}", tags, str(lemma)) for lemma in range(20) for ending, tags in (("ed", "PST"), ("s", "3"))
    ]
    table = table_of(tmp_path / "verbs.csv", [("form", "tags", "lemma"), *rows])
    words = ("--source", "lemma", "--target", "form")
    runs = {"one": (), "two": ("--feature", "tags")}
    for name, features in runs.items():
        done = call("train", table, "--out", tmp_path / name, *words, *features, *small(training__steps="3"), "-q")
        assert done.code == 0, done.err
    both = found_of(call, tmp_path / "one", tmp_path / "two", table, *words)
    assert both["notes"][-2] == "the models have different inputs: each row is compared by itself"
    assert both["items"] == 40
    reverse = ("--source", "form", "--target", "lemma")
    done = call("train", table, "--out", tmp_path / "reverse", *reverse, *small(training__steps="3"), "-q")
    assert done.code == 0, done.err
    other = call("compare", tmp_path / "one", tmp_path / "reverse", table)
    assert other.code == 1
    assert "the models do not read the same rows and targets of the table" in other.err


GOLD = [("word", "answer"), *cipher(40)]


@pytest.mark.parametrize(
    ("rows", "n_right"),
    [
        ([("word", "answer", "answer_2"), *((x, y, y[::-1]) for x, y in GOLD[1:])], 0),
        ([("word", "answer", "answer_2"), *((x, y[::-1], y) for x, y in GOLD[1:])], 40),
        ([("text", "output"), *sorted(GOLD[1:])], 40),
        ([("id", "source", "answer"), *((str(i), x, y) for i, (x, y) in enumerate(sorted(GOLD[1:])))], 40),
        (sorted(GOLD[1:]), 40),
        ([("answer",), *((y,) for _, y in GOLD[1:])], 40),
        ([("prediction", "word"), *((y, x) for x, y in sorted(GOLD[1:]))], 40),
    ],
)
def test_the_column_of_answers_is_scored_and_paired_by_the_sources_that_are_beside_it(
    call, tmp_path, table_of, rows, n_right
):
    gold, answers = table_of(tmp_path / "gold.csv", GOLD), table_of(tmp_path / "answers.csv", rows)
    found = found_of(call, answers, answers, gold)
    assert found["metrics"]["exact_match"]["a"] == n_right / 40
