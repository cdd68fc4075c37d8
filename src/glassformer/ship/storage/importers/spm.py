"""Read a SentencePiece model file (`.spm`, `.model`): a protocol buffer, of which only what segments a text is taken.

    field of the model    1 pieces (1 piece, 2 score, 3 type)   2 trainer (3 kind of model, 24 suffix, 35 byte fallback)
                          3 normalizer (2 rules, 3 dummy prefix, 4 fold white space, 5 escape white space)
                          5 denormalizer (2 rules)

Nothing in the file is trusted: each length is checked before it is used.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

from glassformer.errors import ModelFileError, UsageError
from glassformer.text.sentencepiece import SentencePiece, SentencePieceModel

MAX_BYTES = 64_000_000  # of a file; real ones have about one million
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_ALGORITHMS = {1: "unigram", 2: "bpe"}
_OTHER_MODELS = {3: "word", 4: "char"}


def read_sentencepiece(content: bytes, where: str) -> SentencePieceModel:
    """Return the model in the bytes of a file. Raises ModelFileError, with the name `where`, for one that is not valid.

    Refused are kinds of models other than unigram and BPE, byte fallback, marks after words, and rules for decoding.
    """
    if len(content) > MAX_BYTES:
        raise _refused(where, "it is too large", f"{len(content):,} bytes", f"at most {MAX_BYTES:,}")
    try:
        return _model(content, where)
    except (ValueError, IndexError, struct.error, UsageError) as error:
        raise ModelFileError(
            "this is not a SentencePiece model, or it is damaged", where=where, got=str(error)
        ) from None


def _model(content: bytes, where: str) -> SentencePieceModel:
    fields = _fields(content)
    trainer, normalizer, denormalizer = (_message(fields, number) for number in (2, 3, 5))
    kind = trainer.get(3, [1])[-1]
    if kind not in _ALGORITHMS:
        raise _refused(
            where, "its kind of model is not supported", _OTHER_MODELS.get(kind, str(kind)), "unigram or bpe"
        )
    for number, switch in ((24, "marks of white space after a word"), (35, "byte fallback")):
        if trainer.get(number, [0])[-1]:
            raise _refused(where, f"{switch} is not supported")
    if denormalizer.get(2, [b""])[-1]:
        raise _refused(where, "rules for decoding are not supported")
    pieces: dict[str, float] = {}
    of_type: dict[int, list[int]] = {_USER_DEFINED: [], _UNUSED: []}
    for piece in fields.get(1, []):
        parts = dict(_each_field(piece))
        text, score, type_ = parts.get(1, b"").decode(), struct.unpack("<f", parts.get(2, bytes(4)))[0], parts.get(3, 1)
        if type_ in (_UNKNOWN, _CONTROL, _BYTE):
            continue  # these are not in any text
        if type_ not in (_NORMAL, _USER_DEFINED, _UNUSED):
            raise ValueError(f"the piece {text!r} has the type {type_}")
        if text in pieces:
            raise ValueError(f"the piece {text!r} is repeated")
        if type_ in of_type:
            of_type[type_].append(len(pieces))
        pieces[text] = score
    switches = {name: bool(normalizer.get(number, [1])[-1]) for name, number in _SWITCHES.items()}
    rules = base64.b64encode(normalizer.get(2, [b""])[-1]).decode("ascii")
    model = {
        "algorithm": _ALGORITHMS[kind],
        "pieces": list(pieces),
        "scores": list(pieces.values()),
        "user_defined": of_type[_USER_DEFINED],
        "unused": of_type[_UNUSED],
        "rules": rules,
        **switches,
    }
    return SentencePiece([], {"sentencepiece": model}).model  # which checks it


_SWITCHES = {"dummy_prefix": 3, "fold_spaces": 4, "escape_spaces": 5}


def _refused(where: str, why: str, got: str | None = None, expected: str | None = None) -> ModelFileError:
    return ModelFileError(f"this SentencePiece model cannot be used: {why}", where=where, got=got, expected=expected)


# Protocol buffers: fields of number and type; only lengths, integers and floats occur


def _each_field(content: bytes) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each field: an integer, or bytes. Raises ValueError for what is not a message."""
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(content, position)
            yield number, value
            continue
        if wire == 2:
            length, position = _varint(content, position)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"a field of the type {wire}")
        if length > len(content) - position:
            raise ValueError("a field is longer than the file")
        yield number, content[position : position + length]
        position += length


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(content):
            raise ValueError("the file ends within a number")
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("a number is too long")


def _fields(content: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for number, value in _each_field(content):
        found.setdefault(number, []).append(value)
    return found


def _message(fields: dict[int, list[Any]], number: int) -> dict[int, list[Any]]:
    """Return the fields of a message inside a message; none if it is not there."""
    parts = fields.get(number, [])
    if not all(isinstance(part, bytes) for part in parts):
        raise ValueError(f"field {number} is not a message")
    return _fields(b"".join(parts))
