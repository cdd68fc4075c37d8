"""Models of SentencePiece as plain data cut texts as the files of the library do; and damaged models."""

from __future__ import annotations

import base64
import io
import random
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from glassformer.errors import MissingExtraError, ModelFileError, SettingsError
from glassformer.settings import SideSettings, TokenSettings
from glassformer.storage.importers.spm import read_sentencepiece
from glassformer.text import Tokenizer, Vocabulary, learn
from glassformer.text.sentencepiece import sentencepiece as segmenter
from glassformer.text.sentencepiece_cut import Cutter

sentencepiece = pytest.importorskip("sentencepiece", reason="the extra sentencepiece is not installed")

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "said", "hello", "world", "12", "345"]
WORDS += ["ｆｕｌｌ", "ｗｉｄｔｈ", "ﬁne", "“quotes”", "é", "straße", "naïve", "①", "㎏"]
CHARACTERS = "abcdefgh the ▁  éèß①㎏ﬁ\u3000\u00a0\t\n\u200b\u0301ｆ漢字カナ가나𓀀😀'\"-.,<>\x07\u00ad½İ"

MODELS: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "bpe": {"model_type": "bpe"},
    "unigram, white space kept": {
        "model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
    },
    "unigram, lower case, no prefix": {
        "model_type": "unigram", "normalization_rule_name": "nfkc_cf", "add_dummy_prefix": False,
    },
    "unigram, user-defined": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "fox", "▁b", "ab"]},
    "bpe, user-defined": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "fox", "▁b", "ab"]},
    "unigram, pieces across words": {"model_type": "unigram", "split_by_whitespace": False},
}  # fmt: skip
each_model = pytest.mark.parametrize("name", MODELS)


@cache
def trained(name: str) -> bytes:
    return trained_with(**MODELS[name])


def trained_with(size: int = 120, **options: Any) -> bytes:
    chance, out = random.Random(0), io.BytesIO()
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(2, 12))) for _ in range(500)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=out,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=0.99,
        minloglevel=2,
        **options,
    )
    return out.getvalue()


def ours(content: bytes) -> Cutter:
    return segmenter({"sentencepiece": read_sentencepiece(content, "test.spm").model_dump()})


ALL = [chr(i) for low, high in ((32, 0xD800), (0xE000, 0x1FFFF)) for i in range(low, high, 7)]


def texts_by_chance(n: int) -> list[str]:
    chance = random.Random(1)
    letters = [list(CHARACTERS), [word + end for word in WORDS for end in (" ", "\u3000", "")], ALL, list("aab ▁b")]
    return ["".join(chance.choices(chance.choice(letters), k=chance.randint(0, 20))) for _ in range(n)]


@each_model
def test_the_pieces_and_their_text_are_those_of_the_library(name: str) -> None:
    content = trained(name)
    theirs, mine, texts = (
        sentencepiece.SentencePieceProcessor(model_proto=content),
        ours(content),
        texts_by_chance(500),
    )
    pieces = theirs.encode(texts, out_type=str)
    assert mine.split(texts) == pieces
    assert any(len(cut) > 3 for cut in pieces)
    assert [mine.join(cut) for cut in pieces] == [theirs.decode(cut).replace("▁", " ").strip() for cut in pieces]


@each_model
def test_the_spans_are_in_order_and_unknown_characters_are_found(name: str) -> None:
    mine = ours(trained(name))
    for text in texts_by_chance(300):
        spans = mine.spans(text)
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert spans == sorted(spans)
    text = "  the 𓀀𓀁 fox"
    assert [text[start:end] for piece, (start, end) in zip(mine.split([text])[0], mine.spans(text), strict=True)
            if "𓀀" in piece] == ["𓀀𓀁"]  # fmt: skip


def test_the_code_of_a_language_is_one_piece() -> None:
    mine = ours(trained("unigram"))
    code, *rest = mine.split([">>fra<< the fox"])[0]
    assert (code, rest) == (">>fra<<", mine.split([" the fox"])[0])
    assert mine.spans(">>fra<< the fox")[0] == (0, 7)


# As a tokenizer


def tokenizer(name: str = "unigram", **settings: Any) -> Tokenizer:
    model = read_sentencepiece(trained(name), "test.spm")
    pieces = [piece for piece in model.pieces if piece != "x"]
    vocabulary = Vocabulary.from_pieces(pieces, {"</s>": 0, "<unk>": 1, "<pad>": len(pieces) + 2})
    side = SideSettings(kind="sentencepiece", algorithm=model.algorithm, normalization="none", **settings)
    return Tokenizer(side, vocabulary, {"sentencepiece": model.model_dump()})


@pytest.mark.parametrize("name", ["unigram", "bpe"])
def test_a_tokenizer_comes_back_from_its_json_and_encodes_the_same(name: str) -> None:
    one = tokenizer(name, bos=False)
    again = Tokenizer.from_dict(one.to_dict())
    assert again.to_dict() == one.to_dict()
    texts = texts_by_chance(50)
    assert again.encode_many(texts) == one.encode_many(texts)
    assert one.decode(one.encode("the  world ｆｏｘ")) == "the world fox"
    assert one.unknown("the 𓀀") == ["𓀀"]


def test_a_source_without_bos_has_only_an_end_and_pad_starts_a_target() -> None:
    source, target = tokenizer(bos=False), tokenizer()
    assert source.frame([5, 6]) == [5, 6, 0]
    assert target.vocabulary.bos_id == target.vocabulary.pad_id == len(target) - 1
    assert target.frame([5, 6]) == [len(target) - 1, 5, 6, 0]
    assert target.vocabulary.forbidden_ids == (1, len(target) - 1)
    assert (source.settings.n_frame_tokens, target.settings.n_frame_tokens) == (1, 2)


def test_a_target_must_start_with_bos_and_a_shared_vocabulary_may_leave_it_out_of_the_source() -> None:
    side = SideSettings(kind="characters")
    without = side.model_copy(update={"bos": False})
    assert TokenSettings(source=without, target=side, shared=True).source.n_frame_tokens == 1
    with pytest.raises(SettingsError, match=r"a target starts with <bos>"):
        TokenSettings(source=side, target=without)


def test_a_sentencepiece_model_is_not_learned() -> None:
    with pytest.raises(SettingsError, match="imported, not learned"):
        learn(["a"], SideSettings(kind="sentencepiece"))


# Bad input


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:-7],
        lambda _: b"\xff" * 20,
        lambda content: content + b"\x0b",
        lambda content: content + content,
    ],
)
def test_a_damaged_file_is_refused(damage: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ModelFileError, match="not a SentencePiece model, or it is damaged") as caught:
        read_sentencepiece(damage(trained("unigram")), "source.spm")
    assert caught.value.where == "source.spm"
    assert caught.value.got


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model_type": "word"}, "a kind of model other than unigram and bpe"),
        ({"byte_fallback": True, "size": 400}, "byte fallback"),
        ({"treat_whitespace_as_suffix": True}, "marks of white space after a word"),
    ],
)
def test_what_is_not_supported_is_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelFileError, match=words):
        read_sentencepiece(trained_with(**options), "x.spm")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scores": [0.0]}, "1 scores for"),
        ({"pieces": []}, "is repeated, or it has none"),
        ({"unused": [10**6]}, "names a piece that it does not have"),
        ({"algorithm": "word"}, "'sentencepiece.algorithm' is not valid"),
        ({"rules": "AAAA!"}, "the SentencePiece model is not valid"),
        ({"rules": base64.b64encode(b"\x04\0\0\0abcd\xff\0").decode()}, "the SentencePiece model is not valid"),
    ],
)
def test_a_damaged_model_in_a_model_file_is_refused(change: dict[str, Any], words: str) -> None:
    saved = tokenizer().to_dict()
    saved["sentencepiece"] |= change
    with pytest.raises(ModelFileError) as caught:
        Tokenizer.from_dict(saved)
    assert words in str(caught.value)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tokenizer().to_dict()
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[sentencepiece\]'"):
        Tokenizer.from_dict(saved)
