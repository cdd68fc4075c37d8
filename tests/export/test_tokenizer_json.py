"""tokenizer.json: the ids and the texts of our tokenizers, computed by the `tokenizers` library from the file alone."""

from __future__ import annotations

import json
import random
import sys
import unicodedata
from itertools import cycle
from typing import Any

import pytest

from glassformer.errors import SettingsError
from glassformer.export.tokenizer_json import tokenizer_files, tokenizer_json
from glassformer.settings import Settings, SideSettings, TokenSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text import Tokenizer, ascii68, learn, learn_both
from glassformer.text.inputs import Cells, inputs_of

tokenizers = pytest.importorskip("tokenizers", reason="the extra subwords is not installed")

TEXTS = 3 * [
    "The quick brown fox, jumps over 12 lazy dogs!",
    "ein ▁Haus  im Wald",
    "naïve café Σίσυφος ΟΔΟΣ",
    "a<eos>b <unk> <bos> <eos>",
    "tab\there",
    "the the fox fox jumps",
]
HARD = "The quick▁▁ <eos><unk>Σς.'ïé́é\t\n\r\x1c\x85\u00a0\u2028漢😀\ufdd001\0<s>İ"
ENDS = ["", "<eos>", " <eos>", "<unk> x", "▁▁fox", " <source:eos>", "<source:unk>", " fox", "\ufdd0", "ΟΔΟΣ"]
KINDS = {
    "characters": SideSettings(kind="characters"),
    "characters, lower case": SideSettings(kind="characters", lowercase=True, normalization="NFKC"),
    "characters, trimmed": SideSettings(kind="characters", trim=True),
    "words": SideSettings(kind="words"),
    "words, lower case": SideSettings(kind="words", lowercase=True, normalization="none"),
    "bytes": SideSettings(kind="bytes", normalization="none"),
    "bpe": SideSettings(kind="subwords", algorithm="bpe", vocabulary_size=120),
    "bpe, decomposed": SideSettings(kind="subwords", algorithm="bpe", vocabulary_size=120, normalization="NFD"),
    "unigram": SideSettings(kind="subwords", algorithm="unigram", vocabulary_size=120),
}
NEWER_THAN_THE_LIBRARY = {0x32FF, 0xAB69, 0x11938, 0x1F16C, *range(0xA7F2, 0xA7F5), *range(0x1FBF0, 0x1FBFA)}
NEWER_THAN_THE_LIBRARY |= set(range(0x10781, 0x107BB))
"""Characters whose decomposition is newer than the tables of the library (Unicode 12 to 14)."""
TARGETS = ("characters", "words", "bytes", "bpe", "unigram")


@pytest.fixture(scope="module")
def learned() -> dict[str, Tokenizer]:
    return {kind: learn(TEXTS, settings) for kind, settings in KINDS.items()}


def library(content: dict[str, Any] | None) -> Any:
    """The library's tokenizer, from the JSON that a file would have; nothing spelled out in a text is special."""
    found = tokenizers.Tokenizer.from_str(json.dumps(content))
    found.encode_special_tokens = True
    return found


def hard_texts(n: int = 150) -> list[str]:
    generator = random.Random(5)
    drawn = ["".join(generator.choices(HARD, k=generator.randrange(25))) for _ in range(n)]
    return ["", " ", "▁", *TEXTS, *(text + generator.choice(ENDS) for text in drawn)]


def drawn_ids(size: int, n: int = 100) -> list[list[int]]:
    generator = random.Random(6)
    return [[generator.randrange(size) for _ in range(generator.randrange(10))] for _ in range(n)]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "decomposed" not in kind])
def test_a_single_vocabulary_encodes_and_decodes_as_ours(kind: str, learned: dict[str, Tokenizer]) -> None:
    ours = learned[kind]
    theirs = library(tokenizer_json(ours))
    for text in hard_texts():
        assert theirs.encode(text).ids == ours.frame(ours.encode(text)), repr(text)
    for ids in drawn_ids(len(ours)):
        assert theirs.decode(ids, skip_special_tokens=True) == ours.decode(ids), ids


@pytest.mark.parametrize(("source", "target"), list(zip(KINDS, cycle(TARGETS))))  # neither depends on the other
def test_joined_vocabularies_encode_sources_and_decode_targets(
    source: str, target: str, learned: dict[str, Tokenizer]
) -> None:
    ours, answers = learned[source], learned[target]
    theirs = library(tokenizer_json(ours, answers))
    assert theirs.get_vocab_size() == len(answers) + len(ours)
    for text in hard_texts(40):
        expected = [len(answers) + token for token in ours.frame(ours.encode(text))]
        assert theirs.encode(text).ids == expected, repr(text)
    for ids in drawn_ids(len(answers), 40):
        assert theirs.decode(ids, skip_special_tokens=True) == answers.decode(ids), ids


def test_files_have_the_tokenizers_own_ids_and_no_token_is_special(learned: dict[str, Tokenizer]) -> None:
    sides = learned["bpe"], learned["words"]
    files = tokenizer_files(ModelFile(Settings(), *sides, {}))
    assert list(files) == ["tokenizer.json", "target_tokenizer.json"]
    for ours, content in zip(sides, files.values(), strict=True):
        theirs = tokenizers.Tokenizer.from_str(json.dumps(content))  # as it is: no switch was set
        for text in hard_texts(40):
            assert theirs.encode(text).ids == ours.frame(ours.encode(text))
        ids = ours.encode("the quick fox")
        assert theirs.decode(ids) == ours.decode(ids)
    shared = ModelFile(Settings(), sides[0], sides[0], {})
    assert tokenizer_files(shared) == {"tokenizer.json": files["tokenizer.json"]}
    decomposed = ModelFile(Settings(), learned["bpe, decomposed"], sides[1], {})
    assert list(tokenizer_files(decomposed)) == ["target_tokenizer.json"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bytes"])
def test_without_unk_an_unknown_character_is_an_error(kind: str) -> None:
    settings = KINDS[kind]
    ours = learn(["ab ab"], settings.model_copy(update={"unknown": False}))
    assert ours.vocabulary.unk_id is None
    theirs = library(tokenizer_json(ours))
    assert theirs.encode("ab").ids == ours.frame(ours.encode("ab"))
    with pytest.raises(Exception, match=r"(?i)unk"):
        theirs.encode("ab 漢")


def test_ascii68_has_its_special_tokens_at_the_end() -> None:
    ours = ascii68()
    theirs = library(tokenizer_json(ours))
    assert theirs.encode("A-z").ids == ours.frame(ours.encode("A-z"))
    assert theirs.encode("").ids == [65, 66]
    assert theirs.decode([65, *ours.encode("A-z, 9"), 66, 67], skip_special_tokens=True) == "A-z, 9"


def test_lower_case_is_pythons_for_every_letter_and_for_sigma() -> None:
    ours = learn(["a"], SideSettings(kind="bytes", normalization="none", lowercase=True))
    theirs = library(tokenizer_json(ours))
    every = map(chr, range(sys.maxunicode + 1))
    letters = [letter for letter in every if unicodedata.category(letter) in ("Lu", "Ll", "Lt", "Lm")]  # of Lo: none
    for start in range(0, len(letters), 500):
        text = " ".join(letters[start : start + 500])
        assert theirs.encode(text).ids == ours.frame(ours.encode(text)), start
    generator = random.Random(7)
    for _ in range(1000):
        text = "".join(generator.choices("ΑΣσς. ':a1Å\u0301-!ªʰ\u0345ⅠⓐΣ", k=generator.randrange(9)))
        assert theirs.encode(text).ids == ours.frame(ours.encode(text)), text


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC"])
def test_unicode_forms_are_those_of_python(form: str) -> None:
    ours = learn(["a"], SideSettings(kind="bytes", normalization=form))
    theirs = library(tokenizer_json(ours, ascii68()))
    offset = len(ascii68())
    characters = (chr(code) for code in range(0xA0, 0x20000) if code not in NEWER_THAN_THE_LIBRARY)
    assigned = [character for character in characters if unicodedata.category(character)[0] in "LMNS"]
    composed = [character for character in assigned if not unicodedata.is_normalized("NFKD", character)]
    assigned = [*composed, *filter(unicodedata.combining, assigned), *assigned[::10]]
    for start in range(0, len(assigned), 200):
        text = " ".join(assigned[start : start + 200])
        assert theirs.encode(text).ids == [offset + token for token in ours.frame(ours.encode(text))], start
    marks = "e\u0301\u0327\u0323ẹ́각ㄱㅏ가\u0345"
    generator = random.Random(8)
    for _ in range(300):
        text = "".join(generator.choices(marks, k=6))
        assert theirs.encode(text).ids == [offset + token for token in ours.frame(ours.encode(text))], text


def test_what_the_library_cannot_represent_is_refused_with_the_reason(learned: dict[str, Tokenizer]) -> None:
    with pytest.raises(SettingsError) as error:
        tokenizer_json(learned["words"], learned["bpe, decomposed"])
    assert str(error.value) == (
        "the tokenizer of this model cannot be written as tokenizer.json: the library cannot compose characters after "
        "decoding\n"
        "  got: normalization NFD of the target\n"
        "  next: --to onnx and --to ctranslate2 have their own tokenizer"
    )
    plain = learn(["plain ▁漢ß"], SideSettings(kind="subwords", normalization="NFD"))  # nothing there is composed
    assert library(tokenizer_json(plain)).decode(plain.encode("a ▁漢ß")) == "a ▁漢ß"
    korean = learn(["가"], SideSettings(kind="characters", normalization="NFD"))
    with pytest.raises(SettingsError, match="cannot compose"):
        tokenizer_json(korean)
    inputs = learn_both([(Cells(["a", "V"]), "b")], TokenSettings(shared=False), inputs_of(["lemma"], ["tags"]))
    with pytest.raises(SettingsError, match=r"a source has several inputs\n  got: inputs: .*tags \(feature\)"):
        tokenizer_json(inputs[0])
    saved = learned["bpe"].to_dict()
    saved["pieces"][-1] = "<eos>"
    saved["merges"] = []
    with pytest.raises(SettingsError, match="two of its tokens would have the same written form\n  got: '<eos>'"):
        tokenizer_json(Tokenizer.from_dict(saved))
