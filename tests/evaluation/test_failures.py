"""Where a model fails: edits with their kinds, groups, confusions and advice, against counts by hand."""

from __future__ import annotations

import functools
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from glassformer.evaluation.failures import (
    FEW,
    AnswerEdit,
    Failures,
    KindOfEdit,
    edits_of,
    find_failures,
    largest_kind,
    most_wrong,
)
from glassformer.evaluation.metrics import Item, Share, edit_distance
from glassformer.inference.translator import Translation, Translator
from glassformer.storage.records import TrainingData
from tests.inference.test_translator import ALPHABET, untrained

words = st.lists(st.sampled_from("abc"), max_size=7)


@pytest.mark.parametrize(
    ("expected", "got", "kinds"),
    [
        ("abc", "abd", ["substitution"]),
        ("abc", "ab", ["ends too early"]),
        ("abcd", "abd", ["deletion"]),
        ("abc", "abxc", ["insertion"]),
        ("abc", "abbc", ["copy of a neighbor"]),
        ("abc", "abccx", ["runs on", "runs on"]),
        ("abc", "", ["ends too early"] * 3),
        ("", "ab", ["runs on"] * 2),
        ("abc", "abc", ["no token"]),
    ],
)
def test_an_edit_has_the_kind_of_what_happened(expected: str, got: str, kinds: list[str]) -> None:
    assert [edit.kind for edit in edits_of(expected, got)] == kinds


def test_a_missing_end_is_cut_off_where_the_limit_was_reached() -> None:
    assert edits_of("abc", "a", is_cut=True) == (AnswerEdit("cut off", "b"), AnswerEdit("cut off", "c"))


@given(words, words)
def test_edits_are_the_fewest_and_turn_one_text_into_the_other(expected: list[str], got: list[str]) -> None:
    edits = edits_of(expected, got)
    if expected == got:
        assert edits == (AnswerEdit("no token"),)
        return
    assert len(edits) == edit_distance(expected, got)
    missing, extra = [edit.expected for edit in edits if edit.expected], [edit.got for edit in edits if edit.got]
    kept = len(expected) - len(missing)
    assert kept == len(got) - len(extra)
    assert sorted([*expected, *extra]) == sorted([*got, *missing])


@functools.cache
def translator() -> Translator:
    file = untrained()
    counts = tuple(range(0, 7 * len(file.source_tokenizer), 7))
    data = TrainingData(source_counts=counts, target_counts=counts, longest_source=6)
    return Translator(replace(file, data=data), device="cpu")


def answered(*rows: tuple[str, str, str]) -> list[tuple[Item, Translation]]:
    """Items with these sources, targets and answers; the later an answer, the more probable it is."""
    n = len(rows)
    return [
        (Item(row, source, (target,)), Translation(text, row - n, row - n, tuple(text), (), finished=True))
        for row, (source, target, text) in enumerate(rows)
    ]


def found_in(*rows: tuple[str, str, str], columns: dict[str, list[str]] | None = None) -> Failures:
    return find_failures(translator(), answered(*rows), columns)


GOOD, BAD = ("ab", "de", "de"), ("abcde", "dead", "deed")


def test_groups_have_all_items_and_a_bad_one_is_what_to_add() -> None:
    sizes = ["small"] * 30 + ["large"] * 15 + ["rare", "odd"]
    found = found_in(*[GOOD] * 30, *[BAD] * 12, *[("abcde", "a", "a")] * 3, GOOD, BAD, columns={"size": sizes})
    assert found.right == Share(34, 47)
    groups = {(each.by, group.name): group.share for each in found.breakdowns for group in each.groups}
    assert groups["column size", "small"] == Share(30, 30)
    assert groups["column size", "large"] == Share(3, 15)
    assert groups["column size", "2 other values"] == Share(1, 2)
    assert groups["tokens of the source", "2"] == Share(31, 31)
    assert groups["tokens of the source", "3 to 5"] == Share(3, 16)
    assert all(sum(group.share.of for group in each.groups) == 47 for each in found.breakdowns)
    assert all(sum(group.share.count for group in each.groups) == 34 for each in found.breakdowns)
    rows = [each.rows for each in found.advice]
    assert "rows with size = large" in rows
    assert "rows whose source has 3 to 5 tokens" in rows
    assert not any("small" in each for each in rows)
    assert all(each.share.high < each.others.low for each in found.advice)


def test_the_group_that_loses_most_answers_is_found_without_edits() -> None:
    rows = [("a" * (1 + row % 6), "b", "b" if row % 6 < 3 else "c") for row in range(20 * FEW)]
    assert most_wrong(translator(), answered(*rows)) == found_in(*rows).advice[0]
    assert most_wrong(translator(), answered(*((source, "b", "b") for source, *_ in rows))) is None


def test_the_words_for_the_rows_that_are_wrong_most_name_three_tokens_of_many() -> None:
    rows = [GOOD] * 40 + [(f"a{token}", "d", "e") for token in "ßéñóü" for _ in range(5)]
    asked = [(item, replace(answer, unknown=tuple({*item.source} & {*"ßéñóü"}))) for item, answer in answered(*rows)]
    found = most_wrong(translator(), asked)
    assert found is not None
    assert found.rows == "rows with source tokens that were never trained: “ß”, “é”, “ñ” and 2 more"


def test_the_kind_of_edit_that_most_wrong_answers_have_is_found() -> None:
    early = ("ab", "de", "d")
    found = largest_kind(translator(), answered(*[GOOD] * 3, early, ("ab", "de", "dea"), early))
    assert found == KindOfEdit("ends too early", 2, Share(2, 3))
    assert largest_kind(translator(), answered(GOOD)) is None


def test_a_small_group_is_no_advice() -> None:
    found = found_in(*[GOOD] * 50, *[BAD] * (FEW - 1))
    assert found.advice == ()
    assert found_in(*[GOOD] * 50, *[BAD] * FEW).advice != ()


def test_confusions_are_shares_of_the_occurrences_of_a_token_in_all_targets() -> None:
    found = found_in(("a", "add", "aed"), ("b", "dd", "dd"), ("c", "bad", "ba"))
    assert [(each.expected, each.got, each.share) for each in found.confusions] == [
        ("d", "", Share(1, 5)),
        ("d", "e", Share(1, 5)),
    ]
    assert [(each.name, each.edits, each.answers) for each in found.kinds] == [
        ("substitution", 1, Share(1, 2)),
        ("ends too early", 1, Share(1, 2)),
    ]


def test_the_worst_rows_have_most_edits_per_token_and_the_doubtful_ones_the_lowest_score() -> None:
    rows = ("a", "abcdef", "abcdeg"), ("b", "de", "ab"), ("c", "ab", "ab"), ("d", "ef", "gf")
    found = found_in(*rows)
    assert [row.number for row in found.worst] == [1, 3, 0]
    assert [row.number for row in found.doubtful] == [0, 1, 2, 3]
    assert [row.is_right for row in found.doubtful] == [False, False, True, False]


def test_confidence_orders_the_doubtful_rows() -> None:
    rows = answered(("a", "ab", "ab"), ("b", "de", "ab"), ("c", "ab", "ab"))
    probabilities = (0.9, 0.2, 0.5)
    calibrated = [(item, replace(a, confidence=p)) for (item, a), p in zip(rows, probabilities, strict=True)]
    assert [row.number for row in find_failures(translator(), calibrated).doubtful] == [1, 2, 0]


def test_items_are_grouped_by_their_rarest_token_and_by_what_the_training_has_not() -> None:
    model = translator()
    texts = [*ALPHABET.strip()]
    found = find_failures(model, answered(*((text, "a", "a") for text in texts)))
    by_rarity = next(each for each in found.breakdowns if each.by.startswith("how often"))
    counts = model.model_file.data.source_counts
    times = [counts[model.source_tokenizer.encode(text)[0]] for text in texts]
    sizes = {group.name: group.share.of for group in by_rarity.groups}
    assert sizes.get("10 to 99 times", 0) == sum(10 <= each < 100 for each in times)
    strange = [
        replace(answer, unknown=("é",)) if row < 2 else answer for row, (_, answer) in enumerate(answered(*[BAD] * 4))
    ]
    strange[2] = replace(strange[2], unlike="no text of the training has “x”")
    strange[3] = replace(strange[3], unlike="the text has 7 tokens, the longest of the training 6")
    items = [item for item, _ in answered(BAD, BAD, BAD, ("abcdefg", "a", "b"))]
    found = find_failures(model, list(zip(items, strange, strict=True)))
    novelty = next(each for each in found.breakdowns if each.by == "what the training does not have")
    assert {group.name: group.share.of for group in novelty.groups} == {
        "unknown token": 2,
        "new string of tokens": 1,
        "longer than all": 1,
    }
    assert novelty.groups[0].rows.endswith("“é”")


def test_a_rare_subword_and_an_unknown_one_are_named_by_their_words() -> None:
    file = untrained(alphabet="tab tab cap cap a b c d e f", side={"kind": "subwords", "vocabulary_size": 24})
    tokenizer = file.source_tokenizer
    rare = tokenizer.encode("tab fade cap")[-3 - len(tokenizer.encode("cap")) :][0]
    counts = [0 if token == rare else 1_000 for token in range(len(tokenizer))]
    data = TrainingData(source_counts=tuple(counts), target_counts=tuple(counts))
    model = Translator(replace(file, data=data), device="cpu")
    items = answered(("tab fade cap", "a", "b"), ("fabØ cap", "a", "b"))
    items[1] = items[1][0], replace(items[1][1], unknown=("Ø",))
    (by_rarity,) = (one for one in find_failures(model, items).breakdowns if one.by.startswith("how often"))
    assert by_rarity.groups[0].rows == "rows with source tokens that were never trained: “fade”, “fabØ”"


@pytest.mark.parametrize(
    ("share", "low", "high"),
    [
        (Share(81, 263), 0.2553, 0.3662),
        (Share(15, 148), 0.0624, 0.1605),
        (Share(0, 20), 0.0, 0.1611),
        (Share(29, 29), 0.8830, 1.0),
    ],
)
def test_an_interval_is_that_of_wilson(share: Share, low: float, high: float) -> None:
    """Against table I of Newcombe 1998, "Two-sided confidence intervals for the single proportion", method 3."""
    assert (share.low, share.high) == pytest.approx((low, high), abs=6e-5)
