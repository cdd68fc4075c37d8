"""The segmentation of SentencePiece (Kudo and Richardson 2018), by its library, from a model as plain data.

The library reads a protocol buffer, which is written here: field 1 has the pieces (1 text, 2 score, 3 type), 2 the
trainer (3 algorithm, 45 text of the unknown piece), 3 the normalizer (2 rules, 3 to 5 its switches). Exports of models
with such tokens copy this file next to `text.py`.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any, final

SPACE = "▁"
LANGUAGE_CODE = re.compile(r">>.*?<<", re.DOTALL)
_ALGORITHMS = {"unigram": 1, "bpe": 2}
_NORMAL, _UNKNOWN, _USER_DEFINED, _UNUSED = 1, 2, 4, 5


@final
class Cutter:
    """The segmenter of a model, whose fields are those of `SentencePieceModel`. Raises ValueError."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        from sentencepiece import SentencePieceProcessor

        types = dict.fromkeys(model["user_defined"], _USER_DEFINED) | dict.fromkeys(model["unused"], _UNUSED)
        unknown = "<unk>"
        while unknown in model["pieces"]:
            unknown += "_"
        try:
            normalizer = _bytes(2, base64.b64decode(model["rules"], validate=True))
            for field, switch in enumerate(("dummy_prefix", "fold_spaces", "escape_spaces"), 3):
                normalizer += _integer(field, model[switch])
            parts = [_piece(unknown, 0.0, _UNKNOWN)]
            for i, (piece, score) in enumerate(zip(model["pieces"], model["scores"], strict=True)):
                parts.append(_piece(piece, score, types.get(i, _NORMAL)))
            parts.append(_bytes(2, _integer(3, _ALGORITHMS[model["algorithm"]]) + _bytes(45, unknown.encode())))
            parts.append(_bytes(3, normalizer))
            self._processor = SentencePieceProcessor(model_proto=b"".join(parts))
        except (ValueError, OverflowError, RuntimeError) as error:
            raise ValueError(str(error)) from None

    def _cut(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """Return the pieces of a text, and the start and end in it of what each was made of.

        Unknown characters next to each other are one piece, and so is a code of a target language at the start, as in
        ">>fra<< Good morning".
        """
        code = LANGUAGE_CODE.match(text)
        start = code.end() if code else 0
        encoding = self._processor.encode(text[start:], return_type="offset_mapping")
        offsets = [(start + begin, start + end) for begin, end in encoding["offsets"]]
        return [*([(code[0], (0, start))] if code else []), *zip(encoding["pieces"], offsets, strict=True)]

    def split(self, texts: Sequence[str]) -> list[list[str]]:
        return [[piece for piece, _ in self._cut(text)] for text in texts]

    def spans(self, text: str) -> list[tuple[int, int]]:
        return [span for _, span in self._cut(text)]

    def join(self, pieces: Sequence[str]) -> str:
        return "".join(pieces).replace(SPACE, " ").strip()

    def added(self, piece: str) -> bytes:
        return piece.replace(SPACE, " ").encode()


def _piece(text: str, score: float, type_: int) -> bytes:
    return _bytes(1, _bytes(1, text.encode()) + b"\x15" + struct.pack("<f", score) + _integer(3, type_))


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Return an integer in groups of seven bits, the lowest first."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))
