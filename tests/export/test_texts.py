"""The tokenization that ships with exports, in Python and JavaScript: the ids and texts of `glassformer.text`."""

from __future__ import annotations

import importlib
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

import glassformer.export
from glassformer.export.programs import SHARED
from glassformer.glassbox.report import joined, modules
from glassformer.settings import SideSettings
from glassformer.text import Tokenizer, ascii68, learn, sentencepiece_cut

RUNNERS = Path(glassformer.export.__file__).parent / "runners"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")

LEARNED = [
    "the cat sat on the mat, the cats sat on the mats; cat-like", "Le chat s'assit, là-bas: «été» 1999!",
    "straße ΣΊΣΥΦΟΣ İstanbul", "a\u0301 combining e\u0301te\u0301, 12 and 123 or 1½", "日本語の文と、한국어 문장",
    "a▁b  ▁ c", "Ünïcödé 👩‍👩‍👧 🎉", "tab\there\nline", "ﬁ ² Å", "0-1-2, x", "مرحبا בעולם", "aaa aaab aabab",
]  # fmt: skip
SUBWORDS = {"kind": "subwords", "vocabulary_size": 160}
KINDS: dict[str, dict[str, Any]] = {
    "characters": {"kind": "characters"},
    "characters, NFD": {"kind": "characters", "normalization": "NFD", "lowercase": True},
    "characters, rare ones unknown": {"kind": "characters", "min_count": 3, "normalization": "NFKC"},
    "characters without <unk>, trimmed": {"kind": "characters", "unknown": False, "trim": True},
    "words": {"kind": "words", "vocabulary_size": 30, "lowercase": True},
    "words without <unk>": {"kind": "words", "unknown": False, "normalization": "NFKC"},
    "bytes": {"kind": "bytes", "normalization": "none"},
    "bpe": SUBWORDS | {"algorithm": "bpe"},
    "bpe, lower case": SUBWORDS | {"algorithm": "bpe", "lowercase": True, "min_count": 2},
    "unigram": SUBWORDS | {"algorithm": "unigram"},
    "unigram, NFD": SUBWORDS | {"algorithm": "unigram", "normalization": "NFD"},
    "unigram without <unk>": SUBWORDS | {"algorithm": "unigram", "min_count": 4, "unknown": False},
}
IMPORTED = (
    "unigram", "bpe", "unigram, white space kept", "unigram, lower case, no prefix", "unigram, user-defined",
    "bpe, user-defined",
)  # fmt: skip
ALL = [*KINDS, "ascii68", *(f"sentencepiece, {name}" for name in IMPORTED)]
ODD = [
    "", " ", " \x1f\u3000", "  the  cat ", "\u00a0the\u3000cat\u2028sat\x1c", "▁▁the ▁cat▁", "11▁",
    "<eos><pad> </s> <unk> <0xC3>", "zzzQQQ qqq the zcatz", "e\u0301\u0301te", "ΣΊΣΥΦΟΣ ΟΔΥΣΣΕΎΣ İI", "ﬁne ½ ² ﷺ",
    "😀👩‍👩‍👧\ufeff\U0010fffd\x00\x7f", "catcatcatmatsatcatsmats" * 5, "a-b--c...d!?e", ">>fra<< the fox",
    "ｆｕｌｌ ｗｉｄｔｈ ①㎏\u200b", "<sep>the<sep> fox aab ab▁baab", "\x07\u00ad½",
]  # fmt: skip
# Of what the vocabularies know, so that runs of pieces occur; and of anything else that Python's Unicode tables have:
# those of the library are newer.
ASSIGNED = st.characters(exclude_categories=["Cs", "Cn"])
texts = st.text(st.sampled_from(sorted(set("".join(LEARNED)))), max_size=40) | st.text(ASSIGNED, max_size=20)


@cache
def runner(name: str = "text") -> ModuleType:
    """Import a file that ships with exports, which is not a module of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(RUNNERS), *sys.path, *(str(path.parent) for path in SHARED)])
        return importlib.import_module(name)


@cache
def tokenizer(kind: str) -> Tokenizer:
    if kind == "ascii68":
        return ascii68()
    if kind in KINDS:
        return learn(LEARNED * 3, SideSettings.model_validate(KINDS[kind]))
    pytest.importorskip("sentencepiece", reason="the extra sentencepiece is not installed")
    from tests.text.test_sentencepiece import tokenizer as imported

    return imported(kind.removeprefix("sentencepiece, "), bos=False)


@cache
def both(kind: str) -> tuple[Tokenizer, Any]:
    """The tokenizer of the package, and that of the runner made from its saved form."""
    ours = tokenizer(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sentencepiece_cut", sentencepiece_cut)  # which exports have next to text.py
        return ours, runner().Tokenizer(json.loads(json.dumps(ours.to_dict())))


def has_id_for(ours: Tokenizer, text: str) -> bool:
    return ours.vocabulary.unk_id is not None or not ours.unknown(text)


def check_text(kind: str, text: str) -> None:
    ours, theirs = both(kind)
    if not has_id_for(ours, text):
        with pytest.raises(runner().InputError, match="is not in the vocabulary, which has no <unk>"):
            theirs.encode(text)
        return
    ids = ours.encode(text)
    assert theirs.encode(text) == (ids, ours.unknown(text)), repr(text)
    assert theirs.decode(ids) == ours.decode(ids), repr(text)


@pytest.mark.parametrize("kind", ALL)
def test_odd_texts_have_the_ids_of_the_package_and_its_special_tokens(kind: str) -> None:
    ours, theirs = both(kind)
    vocabulary = ours.vocabulary
    assert (theirs.bos_id, theirs.eos_id, theirs.unk_id) == (vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id)
    assert [*theirs.start, theirs.eos_id] == ours.frame([])
    for text in ODD:
        check_text(kind, text)


@settings(max_examples=15, deadline=None)
@given(text=texts, numbers=st.lists(st.integers(0, 2**16), max_size=20))
@pytest.mark.parametrize("kind", ALL)
def test_any_text_has_the_ids_of_the_package_and_any_ids_its_text(kind: str, text: str, numbers: list[int]) -> None:
    check_text(kind, text)
    ours, theirs = both(kind)
    ids = [number % len(ours) for number in numbers]
    assert theirs.decode(ids) == ours.decode(ids)


@pytest.mark.parametrize(("kind", "named"), [("characters", "character 'z'"), ("words", "word 'zap'")])
def test_without_unk_an_unknown_token_is_named(kind: str, named: str) -> None:
    ours = learn(["the cat"], SideSettings.model_validate({"kind": kind, "unknown": False}))
    with pytest.raises(runner().InputError, match=f"the {named} is not in the vocabulary, which has no <unk>"):
        runner().Tokenizer(ours.to_dict()).encode("the zap")


def test_a_lone_surrogate_is_named() -> None:
    with pytest.raises(runner().InputError, match=r"lone surrogate, which is not a character: U\+D800, column 2"):
        both("characters")[1].encode("a\ud800")


# JavaScript

PROGRAM = """
const { encodeSource, isBlank, TextError, Tokenizer } = await import(process.argv[1]);
const { readFileSync } = await import('node:fs');
const attempt = (compute) => {
  try { return compute(); } catch (error) { if (error instanceof TextError) return error.message; throw error; }
};
const answer = ({ saved, texts, ids }) => {
  const tokenizer = new Tokenizer(saved);
  return {
    size: tokenizer.size,
    texts: texts.map((text) => ({
      blank: isBlank(text),
      pieces: attempt(() => tokenizer.split(text).map(([piece]) => piece)),
      encoded: attempt(() => encodeSource(tokenizer, text, 1e9)),
    })),
    decoded: ids.map((row) => tokenizer.decode(row)),
  };
};
process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, 'utf-8')).map(answer)));
"""
PARTS = [
    *"abcdeéßΣσςİ ▁-,.'0129", *"\t\n\x1c\x1f\x85\xa0\u2003\u3000\ufeff\u200b", "e\u0301", "각", "가", "ﬁ", "Å", "語",
    "👩‍👩‍👧", "🎉", "\U00010400", "q", "zz", "the ", " cat",
]  # fmt: skip


MODULE = "data:text/javascript," + quote(joined("glassbox/tokenizer/source.js", modules()))


class Case(NamedTuple):
    """What JavaScript is given: the texts to encode, and the ids to decode."""

    ours: Tokenizer
    texts: list[str]
    ids: list[list[int]]


def in_node(cases: Iterable[Case]) -> list[Any]:
    """All in one process."""
    given = [case._asdict() | {"saved": case.ours.to_dict(), "ours": None} for case in cases]
    command = [str(NODE), "--input-type=module", "-e", PROGRAM, MODULE]
    answer = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout)


def drawn(kind: str) -> Case:
    ours, source = tokenizer(kind), random.Random(kind)
    texts = [*ODD, *LEARNED, *("".join(source.choices(PARTS, k=source.randint(1, 14))) for _ in range(100))]
    return Case(ours, texts, [source.choices(range(len(ours)), k=source.randint(0, 9)) for _ in range(50)])


@cache
def found_in_javascript() -> dict[str, tuple[Case, Any]]:
    cases = {kind: drawn(kind) for kind in (*KINDS, "ascii68")}
    return dict(zip(cases, zip(cases.values(), in_node(cases.values()), strict=True), strict=True))


@needs_node
@pytest.mark.parametrize("kind", [*KINDS, "ascii68"])
def test_in_javascript_text_becomes_the_same_ids_and_ids_the_same_text(kind: str) -> None:
    (ours, texts, rows), found = found_in_javascript()[kind]
    assert found["size"] == len(ours)
    assert found["decoded"] == [ours.decode(row) for row in rows]
    for text, one in zip(texts, found["texts"], strict=True):
        pieces = ours.split(text)
        assert one["blank"] == (not text.strip()), repr(text)
        assert one["pieces"] == pieces, repr(text)
        if not text.strip():
            assert one["encoded"] is None
        elif not has_id_for(ours, text):
            assert "is not in the vocabulary" in one["encoded"], repr(text)
        else:
            assert one["encoded"]["ids"] == ours.frame(ours.encode(text)), repr(text)
            assert one["encoded"]["unknown"] == ours.unknown(text), repr(text)
