"""The tokenization that ships with exports: the ids and texts of `glassformer.text`, for every kind of token."""

from __future__ import annotations

import importlib
import json
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import glassformer.ship.export
from glassformer.errors import TextError
from glassformer.paper.settings import SideSettings
from glassformer.text import Tokenizer, ascii68, learn, sentencepiece_cut

RUNNERS = Path(glassformer.ship.export.__file__).parent / "runners"

LEARNED = [
    "the cat sat on the mat, the cats sat on the mats; cat-like",
    "été, élève, naïve façade - Ångström, œuvre",
    "a\u0301 combining e\u0301te\u0301, 12 and 123 or 1½",
    "日本語の文と、한국어 문장. ▁ is a mark  and  two spaces",
    "Ω Σίσυφος İstanbul ǅ ß 😀👍🏽 x²+y²=1",
]
KINDS: dict[str, dict[str, Any]] = {
    "characters": {"kind": "characters"},
    "characters, NFD": {"kind": "characters", "normalization": "NFD", "lowercase": True},
    "characters, rare ones unknown": {"kind": "characters", "min_count": 3, "normalization": "NFKC"},
    "characters, trimmed": {"kind": "characters", "trim": True, "normalization": "NFKC"},
    "words": {"kind": "words", "vocabulary_size": 30},
    "bytes": {"kind": "bytes", "normalization": "none"},
    "bpe": {"kind": "subwords", "algorithm": "bpe", "vocabulary_size": 160},
    "bpe, lower case": {
        "kind": "subwords",
        "algorithm": "bpe",
        "vocabulary_size": 160,
        "lowercase": True,
        "min_count": 2,
    },
    "unigram": {"kind": "subwords", "algorithm": "unigram", "vocabulary_size": 160},
    "unigram, NFD": {"kind": "subwords", "algorithm": "unigram", "vocabulary_size": 160, "normalization": "NFD"},
}
ODD = [
    "",
    " ",
    "  the  cat ",
    "\u00a0the\u3000cat\u2028sat\x1c",
    "▁▁the ▁cat▁",
    "the▁cat",
    "<eos><pad> </s> <unk> <0xC3>",
    "zzzQQQ qqq the zcatz",
    "e\u0301\u0301te",
    "ΣΊΣΥΦΟΣ ΟΔΥΣΣΕΎΣ İI",
    "ﬁne ½ ² ﷺ",
    "😀👩‍👩‍👧\ufeff\U0010fffd\x00\x7f",
    "catcatcatmatsatcatsmats" * 5,
    "a-b--c...d!?e",
]
# Of what the vocabularies know, so that runs of pieces occur; and of anything else that Python's Unicode tables have:
# those of the library are newer.
ASSIGNED = st.characters(exclude_categories=["Cs", "Cn"])
texts = st.text(st.sampled_from(sorted(set("".join(LEARNED)))), max_size=40) | st.text(ASSIGNED, max_size=20)


@cache
def runner(name: str = "text") -> ModuleType:
    """Import a file that ships with exports, which is not a module of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(RUNNERS), *sys.path])
        return importlib.import_module(name)


SENTENCEPIECE = [f"sentencepiece, {model}" for model in ("unigram", "bpe", "unigram, white space kept")]


@cache
def both(kind: str) -> tuple[Tokenizer, Any]:
    """The tokenizer of the package, and that of the runner made from its saved form."""
    if kind in SENTENCEPIECE:
        pytest.importorskip("sentencepiece", reason="the extra sentencepiece is not installed")
        from tests.text.test_sentencepiece import tokenizer

        ours = tokenizer(kind.removeprefix("sentencepiece, "))
    else:
        ours = ascii68() if kind == "ascii68" else learn(LEARNED * 3, SideSettings.model_validate(KINDS[kind]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentencepiece_cut", sentencepiece_cut)  # which exports have next to text.py
        return ours, runner().Tokenizer(json.loads(json.dumps(ours.to_dict())))


@pytest.mark.parametrize("text", [*ODD, ">>fra<< the fox", "the ｆｏｘ ①\u200b"])
@pytest.mark.parametrize("kind", [*KINDS, *SENTENCEPIECE])
def test_odd_texts_have_the_ids_of_the_package(kind: str, text: str) -> None:
    ours, theirs = both(kind)
    assert theirs.encode(text)[0] == ours.encode(text)


@settings(max_examples=150, deadline=None)
@given(text=texts)
@pytest.mark.parametrize("kind", [*KINDS, *SENTENCEPIECE])
def test_any_text_has_the_ids_of_the_package_and_they_the_same_text(kind: str, text: str) -> None:
    ours, theirs = both(kind)
    ids = ours.encode(text)
    assert theirs.encode(text) == (ids, ours.unknown(text))
    assert theirs.decode(ids) == ours.decode(ids)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
@pytest.mark.parametrize("kind", [*KINDS, *SENTENCEPIECE, "ascii68"])
def test_any_ids_have_the_text_of_the_package(kind: str, data: st.DataObject) -> None:
    ours, theirs = both(kind)
    ids = data.draw(st.lists(st.integers(0, len(ours) - 1), max_size=20))
    assert theirs.decode(ids) == ours.decode(ids)


@pytest.mark.parametrize("kind", [*KINDS, "ascii68"])
def test_special_tokens_keep_their_ids(kind: str) -> None:
    ours, theirs = both(kind)
    vocabulary = ours.vocabulary
    assert (theirs.bos_id, theirs.eos_id, theirs.unk_id) == (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id)


@pytest.mark.parametrize(("kind", "named"), [("characters", "character 'z'"), ("words", "word 'zap'")])
def test_without_unk_an_unknown_token_is_named(kind: str, named: str) -> None:
    ours = learn(["the cat"], SideSettings.model_validate({"kind": kind, "unknown": False}))
    theirs = runner().Tokenizer(ours.to_dict())
    assert theirs.encode("the cat") == (ours.encode("the cat"), [])
    with pytest.raises(TextError, match=named):
        ours.encode("the zap")
    with pytest.raises(runner().InputError, match=f"the {named} is not in the vocabulary, which has no <unk>"):
        theirs.encode("the zap")


def test_a_vocabulary_without_bos_starts_targets_with_pad() -> None:
    saved = both("characters")[0].to_dict()
    saved["specials"] = {form: at - (at > 1) for form, at in saved["specials"].items() if form != "<bos>"}
    ours = Tokenizer.from_dict(saved | {"settings": saved["settings"] | {"bos": False}})
    theirs = runner().Tokenizer(ours.to_dict())
    assert theirs.bos_id == ours.vocabulary.bos_id == 0
    assert [*theirs.start, *theirs.encode("the")[0], theirs.eos_id] == ours.frame(ours.encode("the"))


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(runner().InputError, match=r"lone surrogate, which is not a character: U\+D800, column 2"):
        both("characters")[1].encode("a\ud800")
