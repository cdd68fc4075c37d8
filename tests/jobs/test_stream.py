"""Texts in, answers out, in order; a text that is too long does not stop the others."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from glassformer import translate_stream
from glassformer.errors import MissingExtraError, TooLongError, UsageError
from glassformer.jobs.answers import NO_ANSWER
from glassformer.jobs.sentences import joined
from tests.jobs.conftest import LIMIT, TOO_LONG_TEXT as TOO_LONG


def texts_of(answers) -> list[str]:
    return [answer.text for answer in answers]


def test_answers_come_in_order_while_texts_still_come(shouting):
    found = translate_stream(shouting, (str(n) for n in itertools.count()))
    assert texts_of(itertools.islice(found, 1000)) == [str(n) for n in range(1000)]
    assert len(shouting.calls) == 2


def test_a_text_that_is_too_long_is_left_out_with_its_reason_and_the_others_are_answered(shouting):
    first, second, third = translate_stream(shouting, ["a", TOO_LONG, "b"])
    assert (first.text, second.text, third.text) == ("A", "", "B")
    assert second.left_out == f"{LIMIT + 1} tokens; the model takes at most {LIMIT}"
    left_out = second.to_json()
    assert [left_out[name] for name in ("left_out", "score", "rank_score")] == [second.left_out, None, None]
    assert (first.left_out, "left_out" in first.to_json()) == ("", False)


def test_stop_raises_with_the_row_counted_over_all_chunks(shouting):
    found = translate_stream(shouting, ["a"] * 300 + [TOO_LONG], long="stop")
    assert len(list(itertools.islice(found, 256))) == 256
    with pytest.raises(TooLongError) as caught:
        next(found)
    assert caught.value.got == f"row 301 ({LIMIT + 1} tokens)"


def test_split_translates_sentences_and_keeps_the_white_space_between_them(shouting):
    pytest.importorskip("sentencex")
    text, wide = "One is short.  Two is short!\n\nThree is short?", "今日は今日は今日は。明日は明日は明日は？今"
    answer, other = translate_stream(shouting, [text, wide], long="split", prefixes=[">", ""])
    assert (answer.text, answer.left_out, other.text) == (">" + text.upper(), "", wide)
    assert shouting.calls[0][:3] == ["One is short.", "Two is short!", "Three is short?"]
    assert (answer.score, answer.rank_score, answer.token_scores) == (-3.0, -1.5, (-1.0, -1.0, -1.0))
    assert "".join(answer.tokens) == ">ONE IS SHORT.TWO IS SHORT!THREE IS SHORT?"


@pytest.mark.parametrize(
    ("texts", "space", "expected"),
    [
        (("你好。", "再见。"), "", "你好。再见。"),
        (("你好。", "再见。"), " ", "你好。再见。"),
        (("你好。", "再见。"), "\n", "你好。\n再见。"),
        (("你 好 。", "再见。"), "", "你 好 。 再见。"),  # the targets of the training have spaces
        (("“好。”", "“走了。”"), "", "“好。”“走了。”"),
        (("在 GitHub 上。", "再见。"), "", "在 GitHub 上。再见。"),
        (("안녕", "잘 가"), "", "안녕 잘 가"),
        (("One.", "“Two.”"), "", "One. “Two.”"),
        (("One.", "二。"), "", "One. 二。"),
        (("2024-03-01", "2024-03-02"), "", "2024-03-01 2024-03-02"),
        (("你好。", ""), "", "你好。 "),
    ],
)
def test_answers_are_joined_as_they_are_written(texts, space, expected):
    assert joined([replace(NO_ANSWER, text=text) for text in texts], [space]).text == expected


def test_a_sentence_that_is_too_long_itself_leaves_its_text_out(shouting):
    pytest.importorskip("sentencex")
    first, second = translate_stream(shouting, [f"Short. {TOO_LONG}. Short.", "a"], long="split")
    assert (first.text, second.text) == ("", "A")
    assert first.left_out == f"a sentence of {LIMIT + 2} tokens; the model takes at most {LIMIT}"
    assert shouting.calls == [["a"]]


def test_split_without_its_library_names_the_extra(shouting, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sentencex", None)
    with pytest.raises(MissingExtraError, match="sentencex"):
        list(translate_stream(shouting, [TOO_LONG], long="split"))


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("text", {}, "must be an iterable"),
        (["a"], {"long": "cut"}, "'cut' is not available"),
        (["a"], {"long": "split", "num_beams": 2, "num_return_sequences": 2}, "cannot be joined"),
        (["a", "b"], {"prefixes": ["x"]}, "each text needs a prefix"),
    ],
)
def test_arguments_that_are_not_valid_are_named(shouting, texts, options, message):
    with pytest.raises(UsageError, match=message):
        list(translate_stream(shouting, texts, **options))
