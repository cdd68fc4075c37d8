"""Errors: the tree, the exit codes, and the text that people read."""

from __future__ import annotations

import inspect
import pickle

from glassformer import errors
from glassformer.errors import GlassformerError, SettingsError, TableError, nearest, quoted


def test_every_error_is_in_the_tree_of_the_docstring_with_its_exit_code():
    drawn = dict(line.split("─ ")[-1].split()[:2] for line in (errors.__doc__ or "").splitlines() if "─ " in line)
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert all(issubclass(kind, GlassformerError) for kind in kinds)
    codes = {kind.__name__: str(kind.exit_code) for kind in kinds if kind is not GlassformerError}
    assert (codes, GlassformerError.exit_code) == (drawn, 1)


def test_an_error_is_one_sentence_and_then_one_line_for_each_part_that_is_known():
    error = TableError("the row is torn", where="a.csv", got="1 cell", expected="2 cells", hint="correct it")
    assert str(error) == "the row is torn\n  where: a.csv\n  got: 1 cell\n  expected: 2 cells\n  next: correct it"
    assert (error.what, error.where, error.args) == ("the row is torn", "a.csv", ("the row is torn",))
    error.where = error.got = None
    assert str(error) == "the row is torn\n  expected: 2 cells\n  next: correct it"


def test_an_error_keeps_its_parts_when_it_is_pickled():
    error = pickle.loads(pickle.dumps(SettingsError("no", where="a", hint="d")))
    assert (type(error), str(error)) == (SettingsError, "no\n  where: a\n  next: d")


def test_the_nearest_word_is_named_before_the_others():
    assert nearest("learning_rat", ["steps", "learning_rate"]) == (
        "did you mean 'learning_rate'? valid: steps, learning_rate"
    )


def test_of_many_words_thirty_are_listed():
    words = [f"w{number}" for number in range(31)]
    assert nearest("qqq", words) == f"valid: {', '.join(words[:30])}, …"
    assert nearest("qqq", words[:30]) == f"valid: {', '.join(words[:30])}"
    assert len(nearest("x" * 9999, ["y" * 9999, "z" * 9999])) < 400


def test_a_quoted_value_is_short_whatever_it_is():
    assert quoted("it's") == '"it\'s"'
    assert quoted(2.5) == "2.5"
    texts = "x" * 9999, b"d" * 9999, "\0" * 99
    for value in (*texts, 10**4000, 10**9999, [10**9999], {"a": "b" * 9999}, ["c" * 99] * 99):
        assert len(quoted(value)) <= 80
    assert quoted(10**5000) == "a number of about 5,000 digits, which is too long"
