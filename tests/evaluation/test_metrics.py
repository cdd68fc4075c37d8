"""Metrics against other ways of computing them: a plain table of distances, loops, sacreBLEU, and by hand."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any, get_args

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, strategies as st

from glassformer.errors import SettingsError, UsageError
from glassformer.evaluation import metrics
from glassformer.evaluation.metrics import Measure
from glassformer.settings import Metric

few_letters = st.text(alphabet="abc", max_size=9)
words = st.text(alphabet="ab. é,", max_size=16)

ANSWERS = ["the cat sat on the mat .", "a dog barks loudly at night", "", "we saw it"]
GOLDS = ["the cat is on the mat .", "the dog barks loudly at night", "nobody", "we saw it"]


def bleu(answers: Any, targets: Any, tokenize: str = "13a", resamples: int = 1000, seed: int = 1) -> Measure:
    found = metrics.row_statistics("bleu", answers, targets, str.split, bleu_tokenize=tokenize)
    return metrics.measured(found, resamples, seed)


def chrf(answers: Any, targets: Any, resamples: int = 1000, seed: int = 1) -> Measure:
    return metrics.measured(metrics.row_statistics("chrf", answers, targets, str.split), resamples, seed)


def distance_by_table(a: Any, b: Any) -> int:
    """The recurrence of Wagner and Fischer 1974, cell by cell."""
    table = {(i, 0): i for i in range(len(a) + 1)} | {(0, j): j for j in range(len(b) + 1)}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            keep = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            table[i, j] = min(keep, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return table[len(a), len(b)]


@given(few_letters, few_letters)
def test_the_distance_is_that_of_the_plain_table(a: str, b: str) -> None:
    assert metrics.edit_distance(a, b) == metrics.edit_distance([*a], tuple(b)) == distance_by_table(a, b)
    tokens = a.split("c"), b.split("c")
    assert metrics.edit_distance(*tokens) == distance_by_table(*tokens)


def test_composed_and_decomposed_letters_match() -> None:
    composed, decomposed = "réunion ɔ̃", unicodedata.normalize("NFD", "réunion ɔ̃")
    assert composed != decomposed
    assert metrics.exact_matches([composed, decomposed], [decomposed, composed]).tolist() == [1.0, 1.0]
    answers, targets = ["a ", "A", "ﬁ", "²", "a  b"], ["a", "a", "fi", "2", "a b"]
    assert metrics.exact_matches(answers, targets).tolist() == [0.0] * 5  # nothing else is forgiven
    for measure in (bleu, chrf):
        text, other = f"{composed} a b c", f"{decomposed} a b c"
        assert measure([text], [other], resamples=2).value == pytest.approx(100)


@given(st.integers(0, 1000), st.integers(1, 12))
def test_bootstrap_is_the_loop_over_resampled_rows(seed: int, n: int) -> None:
    data = np.random.default_rng(seed + 1)
    above, below = data.integers(0, 5, size=n), data.integers(1, 9, size=n)
    random = np.random.default_rng(seed)
    ratios = []
    for _ in range(40):
        drawn = random.integers(n, size=n)
        ratios.append(sum(above[i] for i in drawn) / sum(below[i] for i in drawn))
    found = metrics.measured(metrics.ratio(above, below), 40, seed)
    assert found.value == pytest.approx(above.sum() / below.sum())
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(ratios, [0.025, 0.975])))


def test_references_without_a_token_are_right_only_when_nothing_was_added() -> None:
    assert metrics.measured(metrics.ratio([0, 0], [0, 0])) == Measure(0, 0, 0)
    assert metrics.measured(metrics.ratio([3, 0], [0, 0])).value == 1
    assert metrics.measured(metrics.ratio([2, 0], [0, 4])).value == 0.5
    assert metrics.measured(metrics.ratio([1], [4])) == Measure(0.25, 0.25, 0.25)
    with pytest.raises(UsageError, match="a bootstrap needs at least one resample"):
        metrics.measured(metrics.ratio([1], [1]), 0)


def test_all_right_is_a_bleu_of_exactly_100() -> None:
    texts = ["s ɛ ʁ", "s t a ʁ", "ʒ ø"]  # sacreBLEU itself ends a rounding above
    assert sacrebleu.corpus_bleu(texts, [texts]).score == pytest.approx(100)
    assert bleu(texts, texts).value == bleu(texts, texts).high == 100
    assert metrics.quick_metric("bleu", texts, texts, list) == 100


def test_bleu_is_undefined_where_no_answer_or_no_target_has_four_tokens() -> None:
    short, long = ["one two", "Mr. A"], ["one two three four", "a"]
    for answers, targets, why in ((short, long, "answer"), (long, short, "target"), (short, short, "answer")):
        found = bleu(answers, targets)
        assert found.undefined == f"no {why} has four tokens"
        assert np.isnan([found.value, found.low, found.high]).all()
        assert metrics.quick_metric("bleu", answers, targets, list) == 0
    assert bleu(["一二三四"], ["一二三四"]).undefined
    for answers, tokenize in ((["一二三四"], "zh"), (["So, go."], "13a"), (long, "none")):
        found = bleu(answers, answers, tokenize=tokenize)
        assert (found.value, found.undefined) == (100, None)


def test_tokenized_text_causes_no_remark_of_sacrebleu(caplog: pytest.LogCaptureFixture) -> None:
    bleu(["a b c d ."] * 200, ["a b c d ."] * 200, resamples=2)
    assert caplog.records == []


def test_a_bleu_tokenizer_without_its_package_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_ja_mecab.MeCab", None)
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    for name, package in [("ja-mecab", "pip install sacrebleu[ja]"), ("flores200", "pip install sentencepiece")]:
        with pytest.raises(SettingsError, match=f"the BLEU tokenizer {name!r} cannot be used") as caught:
            metrics.bleu_scorer(name)
        assert (package in caught.value.got, "\n" in caught.value.got) == (True, False)


@pytest.mark.parametrize(
    ("answer", "references", "nearest"),
    [
        ("b oʊ w", ["b aʊ", "b oʊ"], 1),  # 2 edits and 1
        ("a b", ["a b c", "a"], 1),  # 1 edit each: the shorter
        ("a b", ["a x", "x b"], 0),  # 1 edit each, of the same length: the first
        ("a  b", ["a b", "a  b"], 1),  # no edit each: the one that is the same text
        ("é", ["e", unicodedata.normalize("NFD", "é")], 1),
        ("", ["a b", "a"], 1),
        ("a", ["b", ""], 1),
        ("x", "y", 0),
        ("x", ["y"], 0),
    ],
)
def test_the_nearest_reference_has_the_fewest_edits_then_the_fewest_tokens(
    answer: str, references: Any, nearest: int
) -> None:
    assert metrics.nearest_references([answer], [references], str.split) == [nearest]


def test_rows_of_one_source_are_one_item_in_the_order_of_the_table() -> None:
    decomposed = unicodedata.normalize("NFD", "é")
    sources = ["b", "é", "b", decomposed, "a", "b", "b", "B", "B"]
    targets = ["1", "2", "3", "4", "5", "1", "0", decomposed, "é"]
    items = metrics.group_by_source(list(zip(sources, targets, strict=True)))
    assert [(item.row, item.source, item.references) for item in items] == [
        (0, "b", ("1", "3", "0")), (1, "é", ("2", "4")), (4, "a", ("5",)), (7, "B", (decomposed,)),
    ]  # fmt: skip


@given(st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=5), st.integers(0, 99))
def test_bleu_and_chrf_with_several_references_are_those_of_sacrebleu(
    rows: list[tuple[str, list[str]]], seed: int
) -> None:
    answers, references = [row[0] for row in rows], [row[1] for row in rows]

    def streams(drawn: Any) -> list[list[str | None]]:
        """What sacreBLEU takes: a list of first references, of second ones, …; None where an item has fewer."""
        return [[references[i][k] if k < len(references[i]) else None for i in drawn] for k in range(3)]

    random = np.random.default_rng(seed)
    draws = [range(len(rows)), *(random.integers(len(rows), size=len(rows)) for _ in range(6))]
    for measure, theirs in ((bleu, sacrebleu.BLEU(force=True)), (chrf, sacrebleu.CHRF())):
        value, *scores = [theirs.corpus_score([answers[i] for i in drawn], streams(drawn)).score for drawn in draws]
        found = measure(answers, references, resamples=6, seed=seed)
        if found.undefined is None:
            assert found.value == pytest.approx(value)
            assert (found.low, found.high) == pytest.approx(tuple(np.quantile(scores, [0.025, 0.975])))


def test_the_quick_figures_are_those_of_other_ways() -> None:
    def quick(name: Metric) -> float:
        return metrics.quick_metric(name, ANSWERS, GOLDS, str.split)

    assert quick("exact_match") == 0.25
    # "sat" for "is"; "a" for "the"; "nobody" is missing; of 7 + 6 + 1 + 3 words.
    assert quick("token_error_rate") == pytest.approx(3 / 17)
    assert quick("bleu") == pytest.approx(sacrebleu.corpus_bleu(ANSWERS, [GOLDS], force=True).score)
    assert quick("chrf") == pytest.approx(sacrebleu.corpus_chrf(ANSWERS, [GOLDS]).score)


@pytest.mark.parametrize("call", [metrics.exact_matches, bleu, chrf, lambda a, b: metrics.nearest_errors(a, b, list)])
def test_sides_of_different_length_no_rows_and_no_references_are_refused(call: Any) -> None:
    with pytest.raises(UsageError, match="there is no reference\n  where: row 2\n"):
        call(["a", "b"], ["a", []])
    with pytest.raises(UsageError, match="the two sides do not have the same number of rows\n  got: 3 and 2\n"):
        call([1, 2, 3], [1, 2])
    with pytest.raises(UsageError, match="there is nothing to score\n  got: no rows\n  expected: at least one"):
        call([], [])


def test_the_loss_is_no_metric_of_texts_and_each_metric_has_a_better_direction() -> None:
    with pytest.raises(SettingsError, match="the metric 'loss' cannot be computed from texts\n  expected: exact_match"):
        metrics.quick_metric("loss", ["a"], ["a"], list)
    names = {*metrics.NAMES, *get_args(Metric)}
    assert {name for name in names if metrics.higher_is_better(name)} == {"exact_match", "bleu", "chrf"}
    assert {name for name in names if not metrics.is_fraction(name)} == {"bleu", "chrf", "loss"}
