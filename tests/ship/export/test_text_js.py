"""text.js, which ships with exported models, converts text exactly as glassformer.text does."""

from __future__ import annotations

import io
import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassformer.ship.export
from glassformer.errors import TextError
from glassformer.paper.settings import SideSettings
from glassformer.ship.storage.importers.spm import read_sentencepiece
from glassformer.text import Tokenizer, Vocabulary, ascii68, learn

TEXT_JS = Path(glassformer.ship.export.__file__).parent / "runners" / "text.js"
PAGE_JS = TEXT_JS.parents[3] / "glassbox" / "page" / "text.js"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

PROGRAM = """
const { Tokenizer, TextError } = await import(process.argv[1]);
const { isBlank } = await import(process.argv[1].replace('text.js', 'segmenters.js'));
const page = await import(process.argv[2]);
const { encodeSource } = await import(process.argv[1].replace('text.js', 'source.js'));
const { readFileSync } = await import('node:fs');
const given = JSON.parse(readFileSync(0, 'utf-8'));
const attempt = (compute) => {
  try { return compute(); } catch (error) { if (error instanceof TextError) return error.message; throw error; }
};
const answers = given.map(({ saved, texts, ids, limit }) => {
  const tokenizer = new Tokenizer(saved);
  return {
    size: tokenizer.size,
    texts: texts.map((text) => ({
      blank: isBlank(text),
      pieces: attempt(() => tokenizer.split(text).map(([piece]) => piece)),
      page: page.CAN_SPLIT.has(saved.kind) ? page.split(saved.settings, text.toWellFormed()) : null,
      ids: attempt(() => tokenizer.encode(text)),
      unknown: attempt(() => tokenizer.tokens(text).map(({ unknown }) => unknown).filter((part) => part !== null)),
      framed: attempt(() => encodeSource(tokenizer, text, limit)?.ids ?? null),
    })),
    decoded: ids.map((row) => tokenizer.decode(row)),
  };
});
process.stdout.write(JSON.stringify(answers));
"""

SAMPLES = [
    "the cat sat on the mat", "Le chat s'assit, là-bas: «été» 1999!", "straße ΣΊΣΥΦΟΣ İstanbul", "日本語のテキスト 12",
    "a▁b  ▁ c", "Ünïcödé 👩‍👩‍👧 🎉", "tab\there\nline", "ﬁ ² Å e\u0301", "0-1-2, x", "مرحبا בעולם", "aaa aaab aabab",
]  # fmt: skip
ALPHABET = [
    *"abcdeéßΣσςİ ▁-,.'0129", *"\t\n\x1c\x1f\x85\xa0\u2003\u3000\ufeff\u200b", "e\u0301", "각", "가", "ﬁ", "Å", "語",
    "👩‍👩‍👧", "🎉", "\U00010400", "q", "zz", "the ", " cat",
]  # fmt: skip
KINDS: dict[str, Callable[[], Tokenizer]] = {
    "characters": lambda: learn(SAMPLES, SideSettings(kind="characters")),
    "characters in NFD": lambda: learn(SAMPLES, SideSettings(kind="characters", normalization="NFD", lowercase=True)),
    "characters without <unk>": lambda: learn(SAMPLES, SideSettings(kind="characters", unknown=False)),
    "characters without <unk>, trimmed": lambda: learn(
        SAMPLES, SideSettings(kind="characters", unknown=False, trim=True)
    ),
    "ascii68": ascii68,
    "words": lambda: learn(SAMPLES, SideSettings(kind="words", lowercase=True)),
    "words without <unk>": lambda: learn(SAMPLES, SideSettings(kind="words", unknown=False, normalization="NFKC")),
    "bytes": lambda: learn(SAMPLES, SideSettings(kind="bytes", normalization="none")),
    "bpe": lambda: learn(SAMPLES * 3, SideSettings(kind="subwords", vocabulary_size=150)),
    "bpe of frequent characters": lambda: learn(
        SAMPLES * 2, SideSettings(kind="subwords", vocabulary_size=60, min_count=6, normalization="NFKC")
    ),
    "unigram": lambda: learn(SAMPLES * 3, SideSettings(kind="subwords", algorithm="unigram", vocabulary_size=130)),
    "unigram without <unk>": lambda: learn(
        SAMPLES * 2,
        SideSettings(kind="subwords", algorithm="unigram", vocabulary_size=70, min_count=4, unknown=False),
    ),
}


SENTENCEPIECE: dict[str, dict[str, Any]] = {
    "unigram": {"model_type": "unigram"},
    "bpe": {"model_type": "bpe"},
    "white space kept": {
        "model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
    },
    "lower case, no prefix": {
        "model_type": "unigram", "normalization_rule_name": "nfkc_cf", "add_dummy_prefix": False,
    },
    "unigram, user-defined": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "cat", "▁b", "ab"]},
    "bpe, user-defined": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "cat", "▁b", "ab"]},
}  # fmt: skip
MORE = [
    ">>fra<< the cat",
    "ｆｕｌｌ ｗｉｄｔｈ ①㎏",
    "  the\u3000cat \u00a0",
    "aab ab▁baab",
    "<sep>the<sep> cat",
    "\x07\u00ad½",
]


def imported_tokenizer(options: dict[str, Any], **settings: Any) -> Tokenizer:
    """A tokenizer of a SentencePiece model that is trained here; one of its pieces is not in the vocabulary."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="the extra sentencepiece is not installed")
    out = io.BytesIO()
    source = random.Random(0)
    words = " ".join(SAMPLES).split()
    texts = [" ".join(source.choices(words, k=source.randint(2, 9))) for _ in range(300)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=out,
        vocab_size=130,
        hard_vocab_limit=False,
        character_coverage=0.98,
        minloglevel=2,
        **options,
    )
    model = read_sentencepiece(out.getvalue(), "test.spm")
    pieces = [piece for piece in model.pieces if piece != "e"]
    vocabulary = Vocabulary.from_pieces(pieces, {"</s>": 0, "<unk>": 1, "<pad>": len(pieces) + 2})
    side = SideSettings(kind="sentencepiece", algorithm=model.algorithm, normalization="none", **settings)
    return Tokenizer(side, vocabulary, {"sentencepiece": model.model_dump()})


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_the_tokens_of_an_imported_model_are_the_same(name: str) -> None:
    tokenizer = imported_tokenizer(SENTENCEPIECE[name], bos=False)
    texts, source = [*drawn_texts(len(name), 300), *MORE], random.Random(name)
    rows = [source.choices(range(len(tokenizer)), k=source.randint(0, 9)) for _ in range(50)]
    (found,) = in_node([{"saved": tokenizer.to_dict(), "texts": texts, "ids": rows, "limit": 10**9}])
    assert found["decoded"] == [tokenizer.decode(row) for row in rows]
    for text, one in zip(texts, found["texts"], strict=True):
        ids = tokenizer.encode(text)
        pieces = tokenizer.split(text)
        unknown = [piece for piece in pieces if tokenizer.vocabulary.lookup(piece) is None]
        assert one["pieces"] == pieces, repr(text)
        assert one["unknown"] == [piece.replace("▁", " ") for piece in unknown], repr(text)  # as it is normalized
        assert one["ids"] == ids, repr(text)
        assert one["framed"] == (tokenizer.frame(ids) if text.strip() else None)


def in_node(cases: list[dict[str, Any]]) -> Any:
    assert NODE is not None
    command = [NODE, "--input-type=module", "-e", PROGRAM, TEXT_JS.as_uri(), PAGE_JS.as_uri()]
    answer = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr[-2000:]
    return json.loads(answer.stdout)


def drawn_texts(seed: int, n: int = 150) -> list[str]:
    source = random.Random(seed)
    return [
        "",
        " \x1f\u3000",
        *("".join(source.choices(ALPHABET, k=source.randint(1, 14))) for _ in range(n)),
        *SAMPLES,
    ]


def attempt(compute: Callable[[], Any]) -> Any:
    try:
        return compute()
    except TextError as error:
        return error


@pytest.mark.parametrize("kind", KINDS)
def test_text_becomes_the_same_ids_and_ids_the_same_text(kind: str) -> None:
    tokenizer = KINDS[kind]()
    texts, source = drawn_texts(len(kind)), random.Random(kind)
    rows = [source.choices(range(len(tokenizer)), k=source.randint(0, 9)) for _ in range(150)]
    (found,) = in_node([{"saved": tokenizer.to_dict(), "texts": texts, "ids": rows, "limit": 10**9}])
    assert found["size"] == len(tokenizer)
    assert found["decoded"] == [tokenizer.decode(row) for row in rows]
    n_errors = 0
    for text, one in zip(texts, found["texts"], strict=True):
        assert one["blank"] == (not text.strip()), repr(text)
        assert one["pieces"] == tokenizer.split(text), repr(text)
        assert one["page"] in (None, tokenizer.split(text)), repr(text)
        expected = attempt(lambda text=text: tokenizer.encode(text))
        if isinstance(expected, TextError):
            n_errors += 1
            assert "is not in the vocabulary" in one["ids"]
        else:
            assert one["unknown"] == tokenizer.unknown(text), repr(text)
            assert one["ids"] == expected, repr(text)
            assert one["framed"] == (tokenizer.frame(expected) if text.strip() else None)
    assert (n_errors > 0) == (tokenizer.vocabulary.unk_id is None and kind != "bytes")


def test_a_text_that_is_too_long_and_a_lone_surrogate_are_errors() -> None:
    tokenizer = KINDS["characters"]()
    cases = [{"saved": tokenizer.to_dict(), "texts": ["the cat", "the ca", "a\ud800"], "ids": [], "limit": 6}]
    long, fits, surrogate = in_node(cases)[0]["texts"]
    assert long["framed"] == "the text is longer than the model takes: 7 tokens, at most 6"
    assert fits["framed"] == tokenizer.frame(tokenizer.encode("the ca"))
    assert surrogate["framed"] == "the text contains a lone surrogate, which is not a character: U+D800"


def test_an_unknown_character_or_word_is_named() -> None:
    cases = [
        {"saved": KINDS["characters without <unk>"]().to_dict(), "texts": ["cafe\u0301 q!"], "ids": [], "limit": 99},
        {"saved": KINDS["words without <unk>"]().to_dict(), "texts": ["the dog"], "ids": [], "limit": 99},
    ]
    character, word = in_node(cases)
    assert character["texts"][0]["ids"] == "the character “f” (U+0066) is not in the vocabulary"
    assert word["texts"][0]["ids"] == "the word “dog” is not in the vocabulary"
