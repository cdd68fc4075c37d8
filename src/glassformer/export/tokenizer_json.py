"""The tokenizer of a model as a `tokenizer.json` of the `tokenizers` library, with the same ids for every text.

    normalizer       white space at the ends, Unicode form, lower case; words: " " before each word; subwords: "▁" for a
                     space, and at the start
    pre-tokenizer    characters, words, bytes, or the chunks within which subwords are formed
    model            WordLevel (characters, words, bytes), BPE, Unigram
    post-processor   the frame: <bos> … <eos>
    decoder          the reverse of the above

The library knows a token by its written form, so that no two may have the same. Ordinary pieces are written such that
no text becomes a special token: a word is written with a space before it, a byte as one letter, and a special token is
neither one character nor within one chunk. Special tokens that are spelled out in a text are found before all of this,
unless `Tokenizer.encode_special_tokens` is set (in transformers: `split_special_tokens`).

The Unicode forms of the library are of an older version than Python's: 72 rare characters that are newer (㋿, digits
of segmented displays, modifier letters) stay as they are under NFKC, and one under NFD.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from glassformer.errors import SettingsError
from glassformer.settings import SideSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text import Tokenizer
from glassformer.text.inputs import listed
from glassformer.text.segmenters import CHUNK, MARK

Part = dict[str, Any]
"""A component of the library, as it is written in JSON."""

TARGET_PREFIX = 2 * MARK
"""Before each target piece of joined vocabularies: no source piece starts so, since no chunk has two marks."""
NO_UNKNOWN = "<unknown characters are an error>"
"""The name of a token that does not exist: the library fails where it would need it."""

# What Python's str.split() takes for white space; the library has four characters fewer.
WHITE_SPACE = r"[\t-\r\x1c-\x20\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
ANY_CHARACTER = r"[\s\S]"
CASED = r"[\p{Cased}&&[^\p{Case_Ignorable}]]"
FINAL_SIGMA = rf"{CASED}\p{{Case_Ignorable}}*\KΣ(?!\p{{Case_Ignorable}}*{CASED})"
"""Lower case depends on the neighbors of one letter: "Σ" is "ς" at the end of a word (Unicode, section 3.13)."""
ESCAPE = "\ufdd0"  # a code point that is no character; it may be in a text all the same


def tokenizer_files(model_file: ModelFile) -> dict[str, Part]:
    """Return name -> content of the tokenizers with their own ids, as far as the library can represent them.

    `tokenizer.json` frames a source as `<bos> … <eos>`; the target has a file of its own if it has another tokenizer.
    No token is special for the library, so that none is found where it is spelled out in a text.
    """
    source, target = model_file.source_tokenizer, model_file.target_tokenizer
    sides = {"tokenizer.json": source}
    if target is not source and target.to_dict() != source.to_dict():
        sides["target_tokenizer.json"] = target
    files = {}
    for name, tokenizer in sides.items():
        with contextlib.suppress(SettingsError):
            files[name] = tokenizer_json(tokenizer, added=False)
    return files


def tokenizer_json(source: Tokenizer, joined: Tokenizer | None = None, *, added: bool = True) -> Part:
    """Return a tokenizer that encodes and decodes, with its own ids.

    With a `joined` one for the targets it encodes sources and decodes targets: the target ids first, then the source
    ids. `added`: special tokens are also special for the library, which can leave them out of a decoded text. Raises
    SettingsError where the library cannot represent it.
    """
    target = joined or source
    if source.inputs:
        raise _refusal("a source has several inputs", f"inputs: {listed(source.inputs)}")
    for side in (source, target):
        if side.settings.kind not in _PRE_TOKENIZERS:
            raise _refusal("the library splits a text in another way", f"tokens of the kind {side.settings.kind}")
    names = _joined_forms(source, target) if joined else _written_forms(source)
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise _refusal("two of its tokens would have the same written form", repr(repeated))
    if target.settings.normalization == "NFD" and any(map(_may_compose, target.vocabulary.ordinary)):
        raise _refusal("the library cannot compose characters after decoding", "normalization NFD of the target")
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    special = [{"id": token, "content": names[token], **flags} for token in sorted(target.vocabulary.special_ids)]
    prefix = [{"type": "Strip", "content": MARK, "start": len(TARGET_PREFIX), "stop": 0}] if joined else []
    first_id = len(target) if joined else 0
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special if added else [],
        "normalizer": _sequence("normalizers", _normalizers(source.settings)),
        "pre_tokenizer": _sequence("pretokenizers", _PRE_TOKENIZERS[source.settings.kind]),
        "post_processor": _frame(names, [first_id + token for token in source.frame([])]),
        "decoder": _sequence("decoders", prefix + _DECODERS[target.settings.kind]),
        "model": _model(source, names, first_id),
    }


def _frame(names: Sequence[str], ids: Sequence[int]) -> Part:
    *start, end = ({"SpecialToken": {"id": names[token], "type_id": 0}} for token in ids)
    text, pair = ({"Sequence": {"id": name, "type_id": 0}} for name in ("A", "B"))
    special = {names[token]: {"id": names[token], "ids": [token], "tokens": [names[token]]} for token in ids}
    return {
        "type": "TemplateProcessing",
        "single": [*start, text, end],
        "pair": [*start, text, pair, end],
        "special_tokens": special,
    }


def _model(source: Tokenizer, names: Sequence[str], first_id: int) -> Part:
    """Return the model of the source, whose ids begin at `first_id`, with the written forms of all tokens by id."""
    ids = {name: token for token, name in enumerate(names)}
    unk_id = source.vocabulary.unk_id
    unknown = None if unk_id is None else first_id + unk_id
    unk_token = NO_UNKNOWN if unknown is None else names[unknown]
    learned = source.to_dict()
    if "scores" in learned:
        # The score of what no chunk contains does not matter; 0 is the highest that there is.
        scores = dict.fromkeys(names, 0.0) | dict(zip(source.vocabulary.ordinary, learned["scores"], strict=True))
        return {"type": "Unigram", "unk_id": unknown, "vocab": list(scores.items()), "byte_fallback": False}
    if "merges" in learned:
        flags = {"fuse_unk": False, "byte_fallback": False, "ignore_merges": False, "dropout": None}
        affixes = {"continuing_subword_prefix": None, "end_of_word_suffix": None}
        merges = [list(merge) for merge in learned["merges"]]
        return {"type": "BPE", "unk_token": unk_token, **flags, **affixes, "vocab": ids, "merges": merges}
    return {"type": "WordLevel", "vocab": ids, "unk_token": unk_token}


def _joined_forms(source: Tokenizer, target: Tokenizer) -> list[str]:
    """Return the written form of every token of joined vocabularies, by id."""
    targets, sources = (
        [(name, token in side.vocabulary.special_ids) for token, name in enumerate(_written_forms(side))]
        for side in (target, source)
    )
    return [
        *(name if is_special else TARGET_PREFIX + name for name, is_special in targets),
        *(f"<source:{name[1:]}" if is_special else name for name, is_special in sources),
    ]


def _written_forms(tokenizer: Tokenizer) -> list[str]:
    """Return the written form of every token, by id: no special token is written like a piece."""
    vocabulary, kind = tokenizer.vocabulary, tokenizer.settings.kind
    if kind == "bytes":
        ordinary = dict(zip(vocabulary.ordinary.values(), _byte_letters(), strict=True))
    else:
        before = " " if kind == "words" else ""
        ordinary = {token: before + piece for piece, token in vocabulary.ordinary.items()}
    return [ordinary.get(token, piece) for token, piece in enumerate(vocabulary.pieces)]


def _byte_letters() -> list[str]:
    """Return the letter that the library's ByteLevel writes for each byte: itself if it is printable and no space."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unprintable = [byte for byte in range(256) if byte not in printable]
    letters = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(unprintable)}
    return [letters[byte] for byte in range(256)]


def _may_compose(piece: str) -> bool:
    """Return whether NFC may change a text with this piece: by a mark, a Korean letter, or one of its characters."""
    is_mark = any(unicodedata.category(character)[0] == "M" for character in piece)
    is_korean = any("\u1100" <= character <= "\u11ff" for character in piece)
    return is_mark or is_korean or not unicodedata.is_normalized("NFC", piece)


def _refusal(what: str, got: str) -> SettingsError:
    return SettingsError(
        f"the tokenizer of this model cannot be written as tokenizer.json: {what}",
        got=got,
        hint="--to onnx and --to ctranslate2 have their own tokenizer",
    )


# Components


def _sequence(name: str, parts: Sequence[Part]) -> Part | None:
    return {"type": "Sequence", name: list(parts)} if parts else None


def _replace(pattern: str, content: str, *, regex: bool = False) -> Part:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": pattern}, "content": content}


def _split(pattern: str, behavior: str, *, regex: bool = True) -> Part:
    kind = "Regex" if regex else "String"
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": False}


EXCHANGE = [
    # Space and mark change places by way of two forms that no text has once ESCAPE is followed by "0".
    _replace(ESCAPE, ESCAPE + "0"),
    _replace(MARK, ESCAPE + "1"),
    _replace(" ", MARK),
    _replace(ESCAPE + "1", " "),
    _replace(ESCAPE + "0", ESCAPE),
]
FUSE = {"type": "Fuse"}
NO_FIRST_SPACE = {"type": "Strip", "content": " ", "start": 1, "stop": 0}

_NORMALIZERS: dict[str, list[Part]] = {
    "characters": [],
    "bytes": [],
    "words": [
        _replace(WHITE_SPACE, " ", regex=True),
        _replace(r"\A | \z", "", regex=True),
        {"type": "Prepend", "prepend": " "},
    ],
    "subwords": [*EXCHANGE, {"type": "Prepend", "prepend": MARK}],
}
_PRE_TOKENIZERS: dict[str, list[Part]] = {
    "characters": [_split(ANY_CHARACTER, "Isolated")],
    "bytes": [
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False},
        _split(ANY_CHARACTER, "Isolated"),
    ],
    "words": [_split(" ", "MergedWithNext", regex=False)],
    "subwords": [_split(CHUNK, "Isolated")],
}
_DECODERS: dict[str, list[Part]] = {
    "characters": [FUSE],
    "bytes": [{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}],
    "words": [FUSE, NO_FIRST_SPACE],
    "subwords": [FUSE, *EXCHANGE, NO_FIRST_SPACE],
}


def _normalizers(settings: SideSettings) -> list[Part]:
    parts: list[Part] = [_replace(rf"\A{WHITE_SPACE}|{WHITE_SPACE}\z", "", regex=True)] if settings.trim else []
    parts += [] if settings.normalization == "none" else [{"type": settings.normalization}]
    if settings.lowercase:
        parts += [_replace(FINAL_SIGMA, "ς", regex=True), {"type": "Lowercase"}]
    return parts + _NORMALIZERS[settings.kind]
