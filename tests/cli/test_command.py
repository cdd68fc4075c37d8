"""The command class: an option that takes one value can be given once."""

from __future__ import annotations

import shutil

import pytest


@pytest.mark.parametrize(
    ("words", "option", "count"),
    [
        (["train", "t.csv", "-or", "--out", "s"], "--out", 2),
        (["translate", "--beam", "2", "m", "i.txt", "--beam", "2"], "--beam", 2),
        (["evaluate", "m", "t.csv", "--target", "1", "--target=2", "--target", "3"], "--target", 3),
        (["evaluate", "m", "t.csv", "--header", "--no-header"], "--header / --no-header", 2),
    ],
)
def test_an_option_given_twice_is_an_error_that_names_it(call, words, option, count):
    answer = call(*words)
    assert (answer.code, answer.out) == (2, "")
    assert f"the option {option}" in answer.err
    assert f"got: {count} values" in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["settings", "ascii68", "--json", "--json"],
        ["settings", "--json", "--", "ascii68"],
        ["train", "--out", "r", "--out", "s", "--help"],
        ["train", "--out", "r", "--out", "s", "-h"],
        ["train", "--steps", "3", "--set", "a", "--out", "r", "--help"],
        ["explain", "--out", "page.html", "--help"],
    ],
)
def test_a_flag_can_be_given_twice_and_help_is_always_given(call, words):
    answer = call(*words)
    assert answer.code == 0, answer.err
    assert ("Usage" in answer.out) == ("--out" in words)


def test_a_value_can_look_like_an_option_and_an_option_of_several_values_is_repeatable(call, run):
    assert call("tokens", run, "--side", "source", "--", "--side").code == 0
    assert "Usage" not in call("tokens", run, "--", "--help").out
    edits = ("--edit", "no such edit", "--edit", "nor this one")
    assert "takes one value" not in call("explain", run, "1845-01-05", *edits).err


@pytest.mark.parametrize(
    "words",
    [
        "explain RUN x --html MODEL",
        "translate RUN LIST --out MODEL",
        "evaluate RUN LIST --report MODEL",
        "translate RUN - --choices LIST --out LIST",
        "import RUN --out MODEL",
    ],
)
def test_no_file_that_is_read_is_replaced(call, run, tmp_path, words):
    table, model = tmp_path / "table.csv", tmp_path / "model.safetensors"
    table.write_text("1845-01-05,a\n")
    shutil.copy(run / "model.safetensors", model)
    names = {"RUN": tmp_path, "MODEL": model, "LIST": table}
    before = table.read_bytes(), model.read_bytes()
    answer = call(*(names.get(word, word) for word in words.split()), "--overwrite")
    assert (answer.code, "a file that this command reads or writes too" in answer.err) == (2, True)
    assert (table.read_bytes(), model.read_bytes()) == before
