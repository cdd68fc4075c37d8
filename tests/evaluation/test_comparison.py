"""Comparisons: the tests of sacreBLEU and an exact test as oracles, and how often a difference is found by mistake."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data.given import as_table
from glassformer.data.tables import Table
from glassformer.errors import ColumnError, TableError, UsageError
from glassformer.evaluation import comparison
from glassformer.evaluation.answers import Answers
from glassformer.evaluation.comparison import COMPARED, MIN_ROWS, Comparison, compare
from glassformer.settings import SideSettings
from glassformer.text import learn

WORDS = ["the", "a", "cat", "dog", "man", "sees", "hears", "and", "old", "new", "house", "garden"]


def table_of(targets: Sequence[str]) -> Table:
    return as_table([(f"source {row}", target) for row, target in enumerate(targets)])


def compared(a: Sequence[Sequence[str]], b: Sequence[Sequence[str]], targets: Sequence[str], **more) -> Comparison:
    """Compare texts; a side has a list of texts for each seed."""
    sides = ([Answers(f"model {i}", texts) for i, texts in enumerate(side)] for side in (a, b))
    return compare(*sides, table_of(targets), **{"resamples": 100} | more)


def sentences(n: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(WORDS, random.integers(4, 9))) for _ in range(n)]


def changed(texts: Sequence[str], fraction: float, seed: int) -> list[str]:
    """The texts with a fraction of their words replaced."""
    random = np.random.default_rng(seed)
    return [
        " ".join(str(random.choice(WORDS)) if random.random() < fraction else word for word in text.split())
        for text in texts
    ]


def simulated(n_rows: int, n_seeds: int, random: np.random.Generator, difficulty: np.ndarray, gain: float):
    """Answers of several seeds, right more often where a row is easy, a seed good, or the side better by `gain`."""
    skill = gain + random.normal(0, 0.15, (n_seeds, 1)) * (n_seeds > 1)
    right = difficulty + skill + random.normal(0, 0.5, (n_seeds, n_rows)) > 0
    return [[f"right {row}" if hit else "wrong" for row, hit in enumerate(line)] for line in right]


def n_found(n_seeds: int, gain: float, trials: int, n_rows: int = 300) -> int:
    """In how many of the trials a difference of exact match is found."""
    random = np.random.default_rng(7)
    targets = [f"right {row}" for row in range(n_rows)]
    found = 0
    for _ in range(trials):
        difficulty = random.normal(1.2, 1.5, n_rows)
        a, b = (simulated(n_rows, n_seeds, random, difficulty, more) for more in (0, gain))
        result = compared(a, b, targets, resamples=100).metrics["exact_match"]
        assert result.better in ("", "A", "B")
        found += bool(result.better)
    return found


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_a_better_recipe_is_found_and_equal_ones_differ_in_at_most_one_trial_of_ten(n_seeds, monkeypatch):
    monkeypatch.setattr(comparison, "COMPARED", ("exact_match",))
    assert n_found(n_seeds, gain=1, trials=10) >= 9
    assert n_found(n_seeds, gain=0, trials=30) <= 3


def test_p_of_exact_match_is_that_of_the_sign_test(monkeypatch):
    monkeypatch.setattr(comparison, "COMPARED", ("exact_match",))
    targets = [f"{row}" for row in range(100)]
    a = ["wrong" if row < 14 else text for row, text in enumerate(targets)]
    b = ["wrong" if 14 <= row < 20 else text for row, text in enumerate(targets)]
    exact = 2 * sum(math.comb(20, k) for k in range(7)) / 2**20
    found = compared([a], [b], targets, resamples=5000).metrics["exact_match"]
    assert found.difference == pytest.approx(0.08)
    assert found.p == pytest.approx(exact, abs=0.02)
    standard_error = math.sqrt(0.2 - 0.08**2) / 10
    assert (found.low, found.high) == pytest.approx(
        (0.08 - 1.96 * standard_error, 0.08 + 1.96 * standard_error), abs=0.01
    )


@settings(max_examples=4)
@given(st.integers(0, 99), st.integers(1, 3), st.integers(1, 3), st.floats(0, 0.6))
def test_the_sides_can_be_exchanged(seed, n_a, n_b, fraction):
    targets = sentences(MIN_ROWS, seed)
    a = [changed(targets, 0.2, seed + 10 + i) for i in range(n_a)]
    b = [changed(targets, fraction, seed + 20 + i) for i in range(n_b)]
    one, other = compared(a, b, targets, resamples=50), compared(b, a, targets, resamples=50)
    assert (one.won_by_a, one.won_by_b, one.examples_a) == (
        other.won_by_b,
        other.won_by_a,
        tuple(replace(row, a=row.b, b=row.a) for row in other.examples_b),
    )
    for name in one.metrics:
        mine, theirs = one.metrics[name], other.metrics[name]
        assert (mine.difference, mine.a, mine.a_seeds) == (pytest.approx(-theirs.difference), theirs.b, theirs.b_seeds)
        assert 0 < mine.p <= 1
        assert mine.low <= mine.high
        if n_a == n_b == 1:
            assert (mine.low, mine.high, mine.p) == pytest.approx((-theirs.high, -theirs.low, theirs.p))


def test_bleu_is_not_compared_where_it_is_undefined():
    targets = [f"right {row}" for row in range(MIN_ROWS)]
    found = compared([targets], [targets[::-1]], targets)
    assert "bleu" not in found.metrics
    assert found.notes[-1] == "bleu is not compared: no answer has four tokens (model 0)"


def test_the_same_seed_gives_the_same_figures_and_the_verdict_is_in_words():
    targets = sentences(80, seed=1)
    a, b = changed(targets, 0.3, seed=2), changed(targets, 0.1, seed=3)
    found = compared([a], [b], targets)
    assert found == compared([a], [b], targets)
    assert found != compared([a], [b], targets, seed=2)
    one = found.metrics["word_error_rate"]
    assert one.better == "B"
    least, most = f"{-100 * one.high:.2f}", f"{-100 * one.low:.2f}"
    assert one.verdict == f"B is better by {-100 * one.difference:.2f} points ({least} to {most})"
    assert found.metrics["bleu"].signature.startswith("nrefs:1|")
    close = compared([a], [changed(targets, 0.3, seed=4)], targets).metrics["chrf"]
    assert close.better == ""
    assert close.verdict.startswith("no difference found in 80 rows: one below ")
    assert close.verdict.endswith(" points would often be missed")
    same = compared([a], [a], targets)
    assert {(one.p, one.low, one.high, one.better) for one in same.metrics.values()} == {(1, 0, 0, "")}
    assert (same.won_by_a, same.won_by_b, same.examples_a, same.examples_b) == (0, 0, (), ())


def test_rows_are_won_by_fewer_edits_and_the_largest_differences_are_shown_first():
    targets = [f"target {row:02}" for row in range(20)]
    a, b = list(targets), list(targets)
    a[3], b[3] = "target 0x", "nothing"
    b[5], a[7] = "target 05!", "?"
    found = compared([a], [b], targets)
    assert (found.won_by_a, found.won_by_b) == (2, 1)
    assert [row.source for row in found.examples_a] == ["source 3", "source 5"]
    (row,) = found.examples_b
    assert (row.source, row.target, row.a, row.b) == ("source 7", "target 07", "?", "target 07")


def test_a_source_with_several_targets_is_one_item():
    pairs = [(f"s{row}", f"t{row}") for row in range(20)]
    table, more = as_table([*pairs, ("s0", "other")]), ["t0"]
    texts = [target for _, target in pairs]
    a, b = Answers("a", ["other", *texts[1:], *more]), Answers("b", [*texts, *more])
    found = compare([a], [b], table, resamples=10)
    assert (found.metrics["exact_match"].difference, found.items) == (0, 20)
    assert compare([a], [b], table, group=False, resamples=10).items == 21


def test_tokens_of_two_vocabularies_are_not_compared():
    targets = sentences(20, seed=1)
    tokenizers = [learn(texts, SideSettings(kind="characters")) for texts in (targets, [*targets, "é"])]
    one, other = (Answers("model", targets, tokenizer) for tokenizer in tokenizers)
    table, few = table_of(targets), {"resamples": 10}
    assert tuple(compare([one], [one], table, **few).metrics) == COMPARED
    for sides in ([one], [other]), ([Answers("file", targets)], [Answers("file", targets)]):
        found = compare(*sides, table, **few)
        assert tuple(found.metrics) == tuple(name for name in COMPARED if name != "token_error_rate")
        assert found.notes[0].startswith("token_error_rate is not compared: ")
    assert compare([one], [Answers("file", targets)], table, **few).notes == ()


def test_what_cannot_be_compared_is_an_error():
    targets = sentences(20, seed=1)
    with pytest.raises(TableError, match="too few rows") as few:
        compared([targets[:9]], [targets[:9]], targets[:9])
    assert (few.value.got, few.value.expected) == ("9 rows", "at least 20")
    for a, b in (([targets], []), ([targets], [targets[1:]])):
        with pytest.raises(UsageError, match="each model needs an answer for each row"):
            compared(a, b, targets)


def test_a_file_has_an_answer_for_each_row_of_the_table_or_for_each_that_was_kept(tmp_path):
    table = as_table([("a", "x"), ("", "y"), ("c", "z")])
    path = tmp_path / "answers.txt"
    for lines in ("1\n2\n3\n", "1\n3\n"):
        path.write_text(lines, encoding="utf-8")
        assert Answers.read(str(path), table).texts == ["1", "3"]
    path.write_text("1\n", encoding="utf-8")
    with pytest.raises(TableError, match="one answer for each row") as error:
        Answers.read(str(path), table)
    assert (error.value.got, error.value.where) == ("1", str(path))
    assert error.value.expected == "3, or 2 without the rows that were not kept, as (pairs) has"
    path = tmp_path / "answers.csv"
    path.write_text("mine,yours\n1,2\n", encoding="utf-8")
    with pytest.raises(ColumnError, match="no column of answers"):
        Answers.read(str(path), table)
    with pytest.raises(TableError, match="there is no such file"):
        Answers.read(str(tmp_path / "nothing.txt"), table)
