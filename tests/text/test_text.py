"""Text: one contract for all kinds of tokens, then the vocabulary, what each kind adds, and invalid files."""

from __future__ import annotations

import copy
import itertools
import json
import os
import subprocess
import sys
import unicodedata
from functools import cache
from typing import get_args

import pytest
from hypothesis import example, given, settings, strategies as st

from glassformer.errors import MissingExtraError, ModelFileError, SettingsError, TextError, UsageError
from glassformer.settings import FRAME_TOKENS, SideSettings, TokenKind, TokenSettings
from glassformer.text import (
    SPECIALS,
    Tokenizer,
    Vocabulary,
    ascii68,
    grow_both,
    learn,
    learn_both,
    tokenizer as tokenizer_module,
)

CORPUS = [
    "low lower lowest, new newer newest",
    "the slow low road is newer than the old one",
    "wide wider widest  (two spaces) and ▁ a mark",
    " a space in front, and one at the end ",
    "a<eos>b <unk> <pad> are plain text",
    "",
]

KINDS = {
    "characters": SideSettings(kind="characters"),
    "words": SideSettings(kind="words"),
    "bpe": SideSettings(kind="subwords", vocabulary_size=90),
    "unigram": SideSettings(kind="subwords", algorithm="unigram", vocabulary_size=60),
    "bytes": SideSettings(kind="bytes"),
}
CHARACTERS_OF_CORPUS = st.sampled_from(sorted(set("".join(CORPUS))))
KNOWN_TEXTS = st.one_of(
    st.text(CHARACTERS_OF_CORPUS, max_size=30),
    st.lists(st.sampled_from(" ".join(CORPUS).split(" ")), max_size=8).map(" ".join),
)
ANY_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)

every_kind = pytest.mark.parametrize("kind", KINDS)
subword_kinds = pytest.mark.parametrize("kind", ["bpe", "unigram"])
quick = settings(max_examples=15)


def test_the_contract_has_each_kind_that_is_learned() -> None:
    assert {side.kind for side in KINDS.values()} == {*get_args(TokenKind)} - {"sentencepiece"}


@cache
def learned(kind: str) -> Tokenizer:
    return learn(CORPUS, KINDS[kind])


# The contract


@every_kind
@quick
@given(known=KNOWN_TEXTS, text=ANY_TEXTS)
def test_a_text_of_known_pieces_is_decoded_unchanged_and_any_text_with_and_without_a_frame(
    kind: str, known: str, text: str
) -> None:
    tokenizer = learned(kind)
    if kind == "words":
        known = " ".join(word for word in known.split() if not tokenizer.unknown(word))
    ids = tokenizer.encode(known)
    assert tokenizer.decode(ids) == known
    assert tokenizer.tokens(ids) == tokenizer.split(known)
    ids = tokenizer.encode(text)
    assert all(0 <= at < len(tokenizer) for at in ids)
    assert len(ids) == len(tokenizer.split(text))
    vocabulary = tokenizer.vocabulary
    framed = tokenizer.frame(ids)
    assert (framed[0], framed[1:-1], framed[-1]) == (vocabulary.bos_id, ids, vocabulary.eos_id)
    assert len(framed) == len(ids) + FRAME_TOKENS
    assert tokenizer.decode([*framed, vocabulary.pad_id]) == tokenizer.decode(ids)


@every_kind
@quick
@example([])
@example([""])
@given(texts=st.lists(ANY_TEXTS | KNOWN_TEXTS, max_size=6))
def test_many_texts_at_once_and_a_saved_tokenizer_give_the_ids_of_each_text_alone(kind: str, texts: list[str]) -> None:
    tokenizer, loaded = learned(kind), reloaded(kind)
    ids = [tokenizer.encode(text) for text in texts]
    assert tokenizer.encode_many(texts) == loaded.encode_many(texts) == ids
    framed, lengths = tokenizer.frame_many(texts, "text {}".format)
    assert framed.tolist() == [number for row in ids for number in tokenizer.frame(row)]
    assert lengths.tolist() == [len(tokenizer.frame(row)) for row in ids]
    assert [loaded.split(text) for text in texts] == [tokenizer.split(text) for text in texts]
    assert (loaded.to_dict(), loaded.vocabulary) == (tokenizer.to_dict(), tokenizer.vocabulary)


@pytest.mark.parametrize("settings", [{"trim": True}, {"lowercase": True}, {"bos": False}, {"normalization": "NFD"}])
def test_texts_of_characters_are_normalized_each_by_itself(settings: dict[str, Any]) -> None:
    texts = [" ΌΣΟΣ", "\u0301a ", "", "a\u0301\0b", "İ"]
    tokenizer = learn(texts, SideSettings(kind="characters", **settings))
    for some in (texts, [text for text in texts if "\0" not in text]):
        ids, _ = tokenizer.frame_many(some, "text {}".format)
        assert ids.tolist() == [number for text in some for number in tokenizer.frame(tokenizer.encode(text))]


@cache
def reloaded(kind: str) -> Tokenizer:
    return Tokenizer.from_dict(json.loads(json.dumps(learned(kind).to_dict())))


def test_learning_in_another_process_gives_the_same() -> None:
    code = (
        "import json, sys\n"
        "from glassformer.settings import SideSettings\n"
        "from glassformer.text import learn\n"
        "texts, sides = json.load(sys.stdin)\n"
        "print(json.dumps([learn(texts, SideSettings(**side)).to_dict() for side in sides]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps([CORPUS, [KINDS[kind].model_dump() for kind in ("bpe", "unigram")]]),
        env={**os.environ, "TOKENIZERS_PARALLELISM": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(ran.stdout) == [learned(kind).to_dict() for kind in ("bpe", "unigram")]


@every_kind
def test_special_tokens_have_the_first_ids_of_a_learned_vocabulary(kind: str) -> None:
    vocabulary = learned(kind).vocabulary
    expected = ["<pad>", "<bos>", "<eos>", *([] if kind == "bytes" else ["<unk>"])]
    assert list(vocabulary.pieces[: len(expected)]) == expected
    assert vocabulary.special_ids == set(range(len(expected)))
    assert vocabulary.forbidden_ids == tuple(at for at in range(len(expected)) if at != 2)  # 2 is <eos>
    assert (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id) == (0, 1, 2)
    assert vocabulary.unk_id == (None if kind == "bytes" else 3)
    assert len(learned(kind)) == len(vocabulary) == len(vocabulary.pieces)


@every_kind
@pytest.mark.parametrize("special", sorted(form for forms in SPECIALS.values() for form in forms))
def test_a_special_token_in_the_text_stays_plain(kind: str, special: str) -> None:
    tokenizer = learned(kind)
    reserved = tokenizer.vocabulary.special_ids - {tokenizer.vocabulary.unk_id}
    for text in (special, f"a{special}b", f"a {special} b", special * 2):
        assert not reserved & set(tokenizer.encode(text))
        if kind != "words":
            assert tokenizer.decode(tokenizer.encode(text)) == "".join(
                character for character in text if character not in tokenizer.unknown(text)
            )


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "unigram"])
def test_an_unknown_piece_becomes_unk_and_is_named(kind: str) -> None:
    tokenizer = learned(kind)
    ids = tokenizer.encode("low é new")
    assert ids.count(3) == 1
    assert tokenizer.tokens(ids)[ids.index(3)] == "<unk>"
    assert tokenizer.unknown("low é new é") == ["é", "é"]
    assert tokenizer.unknown("low new") == []
    assert "<unk>" not in tokenizer.decode(ids)


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "unigram"])
def test_without_unk_an_unknown_piece_is_an_error_that_names_it(kind: str) -> None:
    tokenizer = learn(CORPUS, KINDS[kind].model_copy(update={"unknown": False}))
    assert tokenizer.vocabulary.unk_id is None
    named = "word 'é'" if kind == "words" else "character 'é' (U+00E9 LATIN SMALL LETTER E WITH ACUTE)"
    message = (
        f"the {named} is not in the vocabulary\n"
        "  where: row 7, column 5\n"
        "  got: 'low é new'\n"
        "  next: remove it, or train with a vocabulary that contains it or <unk> (the setting 'unknown')"
    )
    with pytest.raises(TextError) as error:
        tokenizer.encode("low é new", where="row 7")
    assert str(error.value) == message


@pytest.mark.parametrize("wrong", ["low new é", "low new \ud83d"])
def test_a_text_among_many_has_the_name_that_the_caller_gave_it(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = learn(CORPUS, SideSettings(kind="characters", unknown=False))
    texts, names = ["low", "new", wrong, "low"], ["row 2", "row 3", "row 5", "row 6"]
    for batch in (1, 2, 4):
        monkeypatch.setattr(tokenizer_module, "_BATCH", batch)
        with pytest.raises(TextError) as error:
            tokenizer.encode_many(texts, where=names)
        assert error.value.where == "row 5, column 9"
        with pytest.raises(TextError) as error:
            tokenizer.encode_many(texts)
        assert error.value.where == "text 3, column 9"
        with pytest.raises(TextError) as error:
            tokenizer.frame_many(texts, "row {}".format)
        assert error.value.where == "row 2, column 9"
    assert tokenizer.encode_many(["low"], where=["row 2"]) == [tokenizer.encode("low")]


@every_kind
@pytest.mark.parametrize("wrong", [-1, 100_000])
def test_an_id_outside_the_vocabulary_is_an_error(kind: str, wrong: int) -> None:
    tokenizer = learned(kind)
    for read in (tokenizer.decode, tokenizer.tokens):
        with pytest.raises(TextError) as error:
            read([2, wrong])
        assert error.value.what == f"token id {wrong} is not in the vocabulary"
        assert error.value.expected == f"0 to {len(tokenizer) - 1}"


@every_kind
def test_a_lone_surrogate_is_an_error(kind: str) -> None:
    expected = (
        "the text contains a lone surrogate, which is not a character\n"
        "  where: {}column 3\n"
        "  got: U+D83D\n"
        "  next: save the text as valid UTF-8"
    )
    tokenizer = learned(kind)
    for call in (tokenizer.split, tokenizer.encode, tokenizer.unknown):
        with pytest.raises(TextError) as error:
            call("ab\ud83d")
        assert str(error.value) == expected.format("")
    with pytest.raises(TextError) as error:
        learn(["ab", "ab\ud83d"], KINDS[kind]).encode_many(["ab\ud83d"])
    assert str(error.value) == expected.format("text 1, " if kind == "bytes" else "text 2, ")


@pytest.mark.parametrize("kind", ["characters", "words", "bpe", "unigram"])
def test_texts_without_a_piece_to_learn_are_an_error(kind: str) -> None:
    for texts in ([], ["", ""]):
        with pytest.raises(TextError, match="there is no text to learn tokens from"):
            learn(texts, KINDS[kind])
    with pytest.raises(SettingsError) as error:
        learn(["ab ab ab"], KINDS[kind].model_copy(update={"min_count": 9}))
    assert str(error.value) == (
        "no piece occurs min_count times\n  got: 9\n  expected: at most 3, the count of the most frequent piece"
    )


@pytest.mark.parametrize("form", ["none", "NFC", "NFD", "NFKC"])
@pytest.mark.parametrize("lowercase", [False, True])
@quick
@given(text=st.text(st.sampled_from("aéÅﬁÉ ñe\u0301Σ가ㄱ"), max_size=12))
def test_a_decoded_text_is_in_the_normal_form(form: str, lowercase: bool, text: str) -> None:
    normal = text if form == "none" else unicodedata.normalize(form, text)
    normal = normal.lower() if lowercase else normal
    tokenizer = learn([text, "x"], SideSettings(kind="characters", normalization=form, lowercase=lowercase))
    given = unicodedata.normalize("NFC", normal) if form == "NFD" else normal  # as people have it
    assert tokenizer.decode(tokenizer.encode(text)) == given
    assert "".join(tokenizer.split(text)) == normal


# The facts


def test_ascii68_has_the_68_ids_of_the_dates() -> None:
    tokenizer = ascii68()
    characters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-, "
    assert len(tokenizer) == 68
    assert tokenizer.tokens(range(68)) == [*characters, "<sos>", "<eos>", "<pad>"]
    assert tokenizer.vocabulary.unk_id is None
    iso, long = "1676-11-30", "November 30, 1676"
    assert tokenizer.frame(tokenizer.encode(iso)) == [65, 1, 6, 7, 6, 62, 1, 1, 62, 3, 0, 66]
    target = [65, 23, 50, 57, 40, 48, 37, 40, 53, 64, 3, 0, 63, 64, 1, 6, 7, 6, 66, 67]
    assert [*tokenizer.frame(tokenizer.encode(long)), tokenizer.vocabulary.pad_id] == target
    assert tokenizer.decode(target) == long


def test_the_preset_setting_gives_ascii68() -> None:
    tokenizer = learn(["anything at all"], SideSettings(kind="subwords", preset="ascii68"))
    assert tokenizer.to_dict() == ascii68().to_dict()
    assert tokenizer.settings.kind == "characters"
    assert not tokenizer.settings.unknown
    assert Tokenizer.from_dict(tokenizer.to_dict()).encode("Z") == [35]
    lowered = learn([], SideSettings(preset="ascii68", lowercase=True))
    assert lowered.encode("AZ") == lowered.encode("az") == [36, 61]


# The vocabulary


@pytest.mark.parametrize("forms", list(itertools.product(SPECIALS["pad"], SPECIALS["bos"], SPECIALS["eos"])))
def test_special_tokens_keep_their_written_form_and_any_ids(forms: tuple[str, str, str]) -> None:
    pad, bos, eos = forms
    vocabulary = Vocabulary.from_pieces(["a", "b", eos], {eos: 0, pad: 6, "<unk>": 2, bos: 4})
    assert vocabulary.pieces == (eos, "a", "<unk>", "b", bos, eos, pad)
    assert (vocabulary.pad_id, vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id) == (6, 4, 0, 2)
    assert vocabulary.special_ids == {0, 2, 4, 6}
    assert [vocabulary.lookup(piece) for piece in ("a", "b", eos, bos, pad, "<unk>", "c")] == (
        [1, 3, 5, None, None, None, None]
    )


@pytest.mark.parametrize(
    ("pieces", "specials", "what"),
    [
        ("aba", {"<pad>": 0, "<bos>": 1, "<eos>": 2}, "a piece is repeated in the vocabulary"),
        ("ab", {"<pad>": 0, "<bos>": 1}, "a special token is missing"),
        ("ab", {"<pad>": 0, "<bos>": 1, "<eos>": 5}, "the id of <eos> is outside the vocabulary"),
        ("ab", {"<pad>": 0, "<bos>": 1, "<eos>": -1}, "the id of <eos> is outside the vocabulary"),
        ("ab", {"<pad>": 0, "<bos>": 1, "<eos>": 1}, "two special tokens have the same id"),
        ("ab", {"<pad>": 0, "<bos>": 1, "<s>": 2, "<eos>": 3}, "two special tokens have the role of <bos>"),
        ("ab", {"<pad>": 0, "<bos>": 1, "<eoss>": 2}, "'<eoss>' is not a special token"),
    ],
)
def test_an_inconsistent_vocabulary_is_an_error(pieces: str, specials: dict[str, int], what: str) -> None:
    with pytest.raises(UsageError) as error:
        Vocabulary.from_pieces(pieces, specials)
    assert error.value.what == what
    assert error.value.got or (error.value.hint or "").startswith("did you mean '<eos>'?")


# Characters, words, bytes


@pytest.mark.parametrize(
    ("side", "texts", "pieces"),
    [
        ({"kind": "characters"}, ["béa", "Zz ☃"], [" ", "Z", "a", "b", "z", "é", "☃"]),
        ({"kind": "words"}, ["c b a", "b c d", "c"], ["c", "b", "a", "d"]),
        ({"kind": "words", "vocabulary_size": 7}, ["c b a", "b c d", "c"], ["c", "b", "a"]),
        ({"kind": "words", "min_count": 2}, ["c b a", "b c d", "c"], ["c", "b"]),
    ],
)
def test_characters_are_in_the_order_of_their_code_points_and_words_in_that_of_their_counts(
    side: dict, texts: list[str], pieces: list[str]
) -> None:
    tokenizer = learn(texts, SideSettings(**side))
    assert tokenizer.tokens(range(4, len(tokenizer))) == pieces


@quick
@given(text=ANY_TEXTS)
def test_words_are_what_python_splits(text: str) -> None:
    words = unicodedata.normalize("NFC", text).split()
    assert learned("words").split(text) == words
    assert learned("words").unknown(text) == [word for word in words if word not in " ".join(CORPUS).split()]


@quick
@given(text=ANY_TEXTS)
def test_bytes_are_the_text_in_utf_8(text: str) -> None:
    tokenizer = learn([], SideSettings(kind="bytes", normalization="none"))
    assert len(tokenizer) == 256 + 3
    assert tokenizer.encode(text) == [3 + byte for byte in text.encode("utf-8")]
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.unknown(text) == []
    assert learned("bytes").split("a é") == ["a", " ", "<0xC3>", "<0xA9>"]
    assert learned("bytes").decode(learned("bytes").encode("aé")[:-1]) == "a\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("text", "form", "lowercase", "column"),
    [
        ("ab☃", "NFC", False, 3),
        ("e\u0301e\u0301☃", "NFC", False, 5),
        ("éé☃", "NFD", False, 3),
        ("ﬁﬁ☃", "NFKC", False, 3),
        ("İİ☃", "none", True, 3),
        ("☃" * 2, "NFKC", True, 1),
        ("a" * 70 + "☃", "NFC", False, 71),
    ],
)
def test_the_column_of_an_error_counts_in_the_original_text(text: str, form: str, lowercase: bool, column: int) -> None:
    side = SideSettings(kind="characters", unknown=False, normalization=form, lowercase=lowercase)
    tokenizer = learn(["ab", text.replace("☃", "")], side)
    with pytest.raises(TextError) as error:
        tokenizer.encode(text)
    assert error.value.what == "the character '☃' (U+2603 SNOWMAN) is not in the vocabulary"
    assert error.value.where == f"column {column}"
    assert error.value.got == repr(text if len(text) <= 60 else text[:60] + "…")
    with pytest.raises(TextError, match=r"the character '\\n' \(U\+000A without a name\)"):
        tokenizer.encode("\n")


def test_white_space_at_the_ends_of_a_source_is_trimmed_and_that_of_a_target_is_kept() -> None:
    """With one vocabulary too: the start of an answer may be "May "."""
    side = SideSettings(kind="characters", unknown=False, normalization="NFKC")
    tokens = TokenSettings(source=side.model_copy(update={"trim": True}), target=side)
    source, target = learn_both([("May 5", " 5")], tokens)
    for text in ("\t May 5\u3000\n", "May 5"):
        assert source.tokens(source.encode(text)) == list("May 5")
    assert target.tokens(target.encode(" 5 ")) == [" ", "5", " "]
    grown, grown_target = grow_both((source, target), [("\tday", "\t9")], tokens)
    assert grown.split("\tday ") == list("day")
    assert grown_target.encode("\t") == [len(target) + "\t9d".index("\t")]
    with pytest.raises(TextError) as error:
        source.encode("  May\u00a0☃ ")
    assert error.value.where == "column 7"


# Subwords


def test_bpe_learns_the_merges_of_the_classic_algorithm() -> None:
    """Algorithm 1 of Sennrich et al. 2016, by hand: each merge is of the pair that is most frequent at that time."""
    texts = [word for word, count in {"lo": 9, "low": 20, "owl": 5, "wol": 3}.items() for _ in range(count)]
    saved = learn(texts, SideSettings(kind="subwords")).to_dict()
    # ▁l and lo are in 29 words, ow in 25; then ▁lo is in 29, then ▁low is in 20 and owl in 5.
    assert saved["merges"][:1] in ([["▁", "l"]], [["l", "o"]])
    assert "".join(saved["merges"][1]) == "▁lo"
    assert saved["merges"][2] == ["▁lo", "w"]
    assert saved["pieces"][:4] == sorted("▁low")


def test_unigram_takes_the_likeliest_of_all_segmentations() -> None:
    tokenizer = learned("unigram")
    saved = tokenizer.to_dict()
    scores = dict(zip(saved["pieces"], saved["scores"], strict=True))

    def best(word: str) -> float:
        cuts = itertools.product([False, True], repeat=len(word) - 1)
        totals = []
        for cut in cuts:
            ends = [at for at, here in enumerate(cut, start=1) if here] + [len(word)]
            pieces = [word[start:end] for start, end in zip([0, *ends], ends, strict=False)]
            if all(piece in scores for piece in pieces):
                totals.append(sum(scores[piece] for piece in pieces))
        return max(totals)

    for word in {word for text in CORPUS for word in text.split() if word.isalpha()}:
        taken = sum(scores[piece] for piece in tokenizer.split(word))
        assert taken == pytest.approx(best(f"▁{word}"), abs=1e-9)


@subword_kinds
def test_no_piece_joins_a_word_and_its_comma(kind: str) -> None:
    tokenizer = learn(["the dog, the dog, the (dog)"] * 9, KINDS[kind])
    assert "," in tokenizer.split("the dog, the")
    for piece in tokenizer.to_dict()["pieces"]:
        assert piece.removeprefix("▁").isalpha() or not any(map(str.isalpha, piece))


@subword_kinds
def test_a_mark_is_not_a_space(kind: str) -> None:
    tokenizer = learned(kind)
    for text in ("a▁b", "▁a", "a▁", "▁", " ▁ ", "▁ ▁", "  a  b  "):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    without = learn(["a b", "b a"], KINDS[kind])
    assert without.unknown("a▁b") == ["▁"]
    assert without.encode("a▁b") != without.encode("a b")


@subword_kinds
def test_no_piece_is_learned_across_a_rare_character(kind: str) -> None:
    side = KINDS[kind].model_copy(update={"min_count": 5, "vocabulary_size": 40})
    tokenizer = learn(["low"] * 9 + ["x-y"] * 4 + ["lo[w"] * 3, side)
    assert set("".join(tokenizer.to_dict()["pieces"])) == set("▁low")
    assert tokenizer.unknown("lo[w") == ["["]


@subword_kinds
def test_a_vocabulary_smaller_than_the_alphabet_is_an_error_that_names_the_smallest(kind: str) -> None:
    def small(size: int) -> SideSettings:
        return KINDS[kind].model_copy(update={"vocabulary_size": size})

    smallest = 8 if kind == "bpe" else 9
    with pytest.raises(SettingsError, match="vocabulary_size is too small for these texts") as error:
        learn(["abc cba"], small(smallest - 1))
    assert error.value.expected == f"at least {smallest}, of which 4 are special tokens"
    tokenizer = learn(["abc cba"], small(smallest))
    assert {"a", "b", "c", "▁"} <= set(tokenizer.to_dict()["pieces"])
    assert len(tokenizer) <= smallest


@pytest.mark.parametrize(("unknown", "size", "minimum"), [(False, 5, "6, of which 3"), (True, 4, "5, of which 4")])
def test_words_without_unk_that_exceed_vocabulary_size_are_an_error(unknown: bool, size: int, minimum: str) -> None:
    with pytest.raises(SettingsError) as error:
        learn(["a b c"], SideSettings(kind="words", unknown=unknown, vocabulary_size=size))
    assert error.value.expected == f"at least {minimum} are special tokens"


@subword_kinds
@settings(max_examples=15)
@given(texts=st.lists(ANY_TEXTS, min_size=1, max_size=5), size=st.integers(30, 200))
def test_any_learned_texts_are_decoded_unchanged(kind: str, texts: list[str], size: int) -> None:
    side = KINDS[kind].model_copy(update={"vocabulary_size": size, "normalization": "none"})
    try:
        tokenizer = learn(texts, side)
    except (SettingsError, TextError):
        own = kind == "unigram"  # which keeps a piece for what it does not know
        assert not any(texts) or len(set("".join(texts)) | {"▁"}) + own > size - 4
        return
    assert [tokenizer.decode(ids) for ids in tokenizer.encode_many(texts)] == texts


@subword_kinds
def test_without_the_library_the_extra_is_named(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = learned(kind).to_dict()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    for call in (lambda: learn(CORPUS, KINDS[kind]), lambda: Tokenizer.from_dict(saved)):
        with pytest.raises(MissingExtraError, match=r"pip install '\.\[subwords\]'"):
            call()
    for other in ("characters", "words", "bytes"):
        assert learn(CORPUS, KINDS[other]).encode("low")


# What a hostile file can say


HOSTILE = [
    ("characters", lambda saved: saved.pop("pieces"), "'pieces' is not valid"),
    ("characters", lambda saved: saved.update(kind="runes"), "'kind' is not valid"),
    ("characters", lambda saved: saved.update(kind="bytes"), "the settings are for another kind of tokenizer"),
    ("characters", lambda saved: saved.update(pattern=".*"), "'pattern' is not valid"),
    ("characters", lambda saved: saved["settings"].update(min_count=0), ".min_count' cannot take"),
    ("characters", lambda saved: saved["pieces"].append("ab"), "a piece is not valid for this kind of tokenizer"),
    ("characters", lambda saved: saved["pieces"].append("a"), "a piece is repeated in the vocabulary"),
    ("characters", lambda saved: saved["pieces"].append(""), "'pieces."),
    ("characters", lambda saved: saved["pieces"].append("\ud800"), "'pieces."),
    ("characters", lambda saved: saved.update(merges=[]), "the learned values do not match the kind of tokenizer"),
    ("characters", lambda saved: saved["specials"].update({"<pad>": True}), "'specials.<pad>' is not valid"),
    ("characters", lambda saved: saved["specials"].pop("<eos>"), "a special token is missing"),
    ("words", lambda saved: saved["pieces"].append("two words"), "a piece is not valid for this kind of tokenizer"),
    ("bytes", lambda saved: saved["pieces"].pop(), "the pieces are not the 256 bytes"),
    ("bpe", lambda saved: saved.pop("merges"), "the learned values do not match the kind of tokenizer"),
    ("bpe", lambda saved: saved.update(scores=[]), "the learned values do not match the kind of tokenizer"),
    ("bpe", lambda saved: saved["pieces"].remove("▁"), "the piece '▁', which represents a space, is missing"),
    ("bpe", lambda saved: saved["merges"].append(["l", "o", "w"]), "'merges."),
    ("bpe", lambda saved: saved["merges"].append(["q", "q"]), "a merge has a piece that is not in the vocabulary"),
    ("bpe", lambda saved: saved["merges"].append(saved["merges"][0]), "a merge is repeated"),
    ("unigram", lambda saved: saved["scores"].pop(), "the number of scores is not the number of pieces"),
    ("unigram", lambda saved: saved["scores"].append(float("nan")), "'scores."),
    ("unigram", lambda saved: saved["scores"].append(0.5), "'scores."),
]


@pytest.mark.parametrize(("kind", "spoil", "what"), HOSTILE)
def test_an_invalid_saved_tokenizer_is_an_error_that_says_why(kind: str, spoil, what: str) -> None:
    saved = copy.deepcopy(learned(kind).to_dict())
    spoil(saved)
    with pytest.raises(ModelFileError) as error:
        Tokenizer.from_dict(saved)
    assert error.value.what.startswith("the tokenizer in the model file is damaged: ")
    assert what in error.value.what
