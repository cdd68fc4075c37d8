"""Texts unlike the training: what is new is named, what was trained on is never marked, the pages say the same."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings as examples, strategies as st
from numpy.typing import NDArray

from glassformer.export.html import page_html
from glassformer.glassbox.report import joined, modules, report_html
from glassformer.glassbox.trace import explain
from glassformer.inference.translator import Translator
from glassformer.settings import SideSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text import Tokenizer, learn
from glassformer.text.seen import Seen, learn_seen, words_of
from tests.browser import chromium
from tests.inference.test_translator import untrained
from tests.tiny import in_one_array

NODE = shutil.which("node")


def dates(n: int, first: int, last: int, seed: int) -> list[str]:
    draw = random.Random(seed).randint
    return [f"{draw(first, last):04}-{draw(1, 12):02}-{draw(1, 28):02}" for _ in range(n)]


def encoded(tokenizer: Tokenizer, texts: list[str]) -> tuple[NDArray[Any], NDArray[Any]]:
    sequences = in_one_array([tokenizer.frame(ids) for ids in tokenizer.encode_many(texts)])
    return sequences.ids, sequences.lengths


def learned(texts: list[str], alphabet: str = "", **side: object) -> tuple[Tokenizer, Seen]:
    tokenizer = learn([*texts, alphabet], SideSettings(**{"kind": "characters", **side}))
    ids, lengths = encoded(tokenizer, texts)
    return tokenizer, Seen(*learn_seen(ids, lengths), int(lengths.max()) - tokenizer.settings.n_frame_tokens)


def unlike(model: tuple[Tokenizer, Seen], text: str) -> str:
    tokenizer, seen = model
    return seen.unlike(tokenizer.frame(tokenizer.encode(text)), tokenizer, tokenizer.unknown(text))


def test_a_model_of_dates_until_2000_says_that_a_later_year_is_new_and_knows_other_dates_of_its_years() -> None:
    model = learned(dates(9000, 1400, 2000, 1))
    assert unlike(model, "2026-11-23") == "no text of the training begins with “202”"
    assert all(unlike(model, text) for text in dates(150, 2001, 2030, 2))
    assert not any(unlike(model, text) for text in dates(2000, 1400, 2000, 3))
    assert unlike(model, "1999-11-23, noon") == "the text has 16 tokens, the longest of the training 10"
    assert unlike(model, "1999-11-2") == "no text of the training ends with “1-2”"
    assert unlike(model, "19") == "no text of the training is “19”"
    assert unlike(model, "1999/11/23") == "no text of the training has “999/”"


@pytest.mark.parametrize(
    ("text", "string", "expected"),
    [("3/4 x", "3/", "3/4"), ("a 3/4 x", "/", "3/4"), ("a 3/4 x", "a ", "a "), ("a bc", " b", " bc"), ("ab", "b", "b")],
)
def test_a_string_of_characters_is_named_by_its_words_unless_they_are_all_of_the_text(
    text: str, string: str, expected: str
) -> None:
    start = text.index(string)
    assert words_of(list(text), start, start + len(string), "characters") == expected


def test_new_words_are_no_mark_where_texts_are_diverse_and_a_repeated_text_is_one_text() -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 8))) for _ in range(300)]
    for texts in (words, words * 5):
        tokenizer, seen = learned(texts)
        assert seen.n == 1
        assert unlike((tokenizer, seen), "ponmlk") == ""
        assert unlike((tokenizer, seen), "pon9") == "no text of the training has “9”"
    commands = [" ".join(words) for words in product("abcd", repeat=4) if "b a" not in " ".join(words)]
    assert unlike(learned(commands, kind="words"), "c b a c") == "no text of the training has “c b a”"


def test_a_new_string_of_subwords_is_named_by_its_whole_words() -> None:
    draw = random.Random(2)
    names = [
        f"{draw.choice(('bolt', 'nut'))} M{draw.choice('3568')} {draw.choice(('zinc', 'steel'))}" for _ in range(80)
    ]
    model = learned([*names, "bolt M3 zinc bolt M5 zinc"], kind="subwords", vocabulary_size=40)
    assert unlike(model, "bolt M35 zinc") == "no text of the training has “M35”"
    assert unlike(model, "bolt Ø35 zinc") == "no text of the training has “Ø35”"
    assert unlike(model, names[0]) == ""


@pytest.mark.parametrize(
    ("kind", "expected"), [("subwords", "FURO"), ("sentencepiece", "FURO"), ("characters", "U"), ("words", "U")]
)
def test_a_subword_is_named_by_its_word(kind: Any, expected: str) -> None:
    tokens = ["▁a", "▁F", "U", "RO", "▁1"] if kind != "characters" else list("FURO")
    assert words_of(tokens, tokens.index("U"), tokens.index("U") + 1, kind) == expected


@examples(max_examples=50)
@given(
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=40), st.text("abcd", min_size=1, max_size=6)
)
def test_what_is_marked_has_a_string_that_no_text_has_and_what_was_trained_on_is_never_marked(
    texts: list[str], other: str
) -> None:
    model = learned(texts, "abcd")
    assert not any(unlike(model, text) for text in texts)
    if (words := unlike(model, other)) and "tokens" not in words:
        string = words.partition("“")[2].removesuffix("”")
        framed = [f"^{text}$" for text in texts]
        for mark, says in (("^", ("begins with", "is")), ("$", ("ends with", "is"))):
            if words.removeprefix("no text of the training ").startswith(says):
                string = mark + string if mark == "^" else string + mark
        assert string in f"^{other}$"
        assert not any(string in text for text in framed)


@pytest.mark.skipif(NODE is None, reason="node is not installed")
@pytest.mark.parametrize("kind", ["characters", "words", "subwords"])
def test_the_page_has_the_same_words(kind: str) -> None:
    texts = [text.replace("-", " - ") for text in dates(3000, 1400, 1499, 1)]
    tokenizer, seen = learned(texts, kind=kind)
    drawn = [
        *texts[:50],
        *dates(50, 1000, 2999, 2),
        "14",
        "1",
        "1400 - 1 - 1 - 1",
        "x",
        "1450 / 01",
        "1450 -",
        "- 01 - 01",
    ]
    rows = [tokenizer.frame(tokenizer.encode(text)) for text in drawn]
    given_to_page = {"seen": seen.to_json(), "rows": rows, "kind": kind}
    unknown = [iter(tokenizer.unknown(text)) for text in drawn]
    given_to_page["texts"] = [
        [next(own) if token == tokenizer.vocabulary.unk_id else tokenizer.tokens([token])[0] for token in ids]
        for ids, own in zip(rows, unknown, strict=True)
    ]
    program = """
    const { unlikeWords } = await import(process.argv[1]);
    const { seen, rows, texts, kind } = JSON.parse((await import('node:fs')).readFileSync(0, 'utf-8'));
    const words = rows.map((ids, row) => unlikeWords(seen, ids, { bos: 1, eos: 2 }, (at) => texts[row][at], kind));
    process.stdout.write(JSON.stringify([...words, unlikeWords({}, rows[0], {}, String, kind)]));
    """
    module = "data:text/javascript," + quote(joined("glassbox/model/seen.js", modules()))
    command = [NODE, "--input-type=module", "-e", program, module]
    answer = subprocess.run(command, input=json.dumps(given_to_page), capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr[-2000:]
    expected = [unlike((tokenizer, seen), text) for text in drawn]
    assert json.loads(answer.stdout) == [*expected, ""]
    assert len({words.partition("“")[0] for words in expected}) > 3


def test_the_table_of_a_large_training_is_small() -> None:
    draw = random.Random(1)
    tokenizer, seen = learned(["".join(draw.choices("abcdefghij", k=20)) for _ in range(10_000)])
    assert len(base64.b64decode(str(seen.to_json()["bits"]))) <= 2**15
    assert unlike((tokenizer, seen), "abcdefghijjihgfedcba") == ""


def trained_on(texts: list[str], model: ModelFile) -> ModelFile:
    """The model with what a training on these sources records about them."""
    ids, lengths = encoded(model.source_tokenizer, texts)
    n, bits = learn_seen(ids, lengths)
    longest = int(lengths.max()) - model.source_tokenizer.settings.n_frame_tokens
    seen = {"seen_length": n, "seen_strings": base64.b64encode(bits).decode(), "longest_source": longest}
    return replace(model, data=model.data.model_copy(update=seen))


def test_an_answer_says_how_its_text_is_unlike_the_training_and_that_of_an_older_file_does_not(tmp_path: Path) -> None:
    old = untrained(alphabet="abc")
    new = trained_on(["abca", "ab"], old)
    new.save(tmp_path / "new.safetensors")
    texts, says = ["abca", "abcab", ""], ["", "the text has 5 tokens, the longest of the training 4", ""]
    answers = Translator.load(tmp_path / "new.safetensors", device="cpu").translate(texts)
    assert [answer.unlike for answer in answers] == [answer.to_json()["unlike"] for answer in answers] == says
    assert {answer.unlike for answer in Translator(old, device="cpu").translate(texts)} == {""}
    assert "seen_strings" not in new.describe()["data"]


@pytest.mark.medium
@pytest.mark.browser
def test_the_pages_say_that_a_text_is_unlike_the_training(tmp_path: Path) -> None:
    model = trained_on(["abca", "ab"], untrained(alphabet="abc"))
    text, says = "aXb", "unlike the training: no text of the training has “X”"
    (tmp_path / "report.html").write_bytes(report_html(explain(model, "ab", weights=True)))
    (tmp_path / "page.html").write_bytes(page_html(model, "float32"))
    with chromium() as browser:
        page = browser.new_page()
        page.goto(f"{(tmp_path / 'report.html').as_uri()}#tokens")
        page.wait_for_selector("dl.answer:visible")
        assert "unlike" not in page.inner_text("dl.answer")
        page.fill("[name=text]", text)
        page.click("[data-key='ask']")
        page.wait_for_selector(f".wrong:visible:has-text('{says}')")
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector("body[data-ready='true']")
        page.fill("#text", text)
        page.wait_for_selector(f".output-area:has-text('{says.capitalize()}.')")
        page.fill("#text", "ab")
        page.wait_for_selector(".output-area:not(:has-text('Unlike'))")
        page.goto(f"{(tmp_path / 'page.html').as_uri()}?explain={text}")
        page.wait_for_selector(f".wrong:visible:has-text('{says}')")
