"""Text to token ids and back. It needs Python's standard library alone, and `segmenters.py`; for subwords the
`tokenizers` library; for the tokens of SentencePiece its library and the file `sentencepiece_cut.py`.

`glassformer.json` holds the tokenizers: the settings, pieces and merges or scores of a vocabulary. A text is normalized
and split into pieces, and each piece is looked up; a special token is never the result of a text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from segmenters import SPECIALS, Segmenter, segmenter


class InputError(Exception):
    """A text that the model cannot take, or a file that is not an export."""


def segmenter_of(saved: dict[str, Any]) -> Segmenter:
    if saved["kind"] == "sentencepiece":
        return import_module("sentencepiece_cut").Cutter(saved["sentencepiece"])
    return segmenter(saved["kind"], saved["pieces"], saved)


class Tokenizer:
    """One side of the model: text to ids and back."""

    def __init__(self, saved: dict[str, Any]) -> None:
        settings, specials = saved["settings"], saved["specials"]
        self.kind, self.form, self.lowercase = saved["kind"], settings["normalization"], settings["lowercase"]
        self.trim = settings.get("trim", False)
        self.segmenter = segmenter_of(saved)
        self.size, special_ids = len(specials) + len(saved["pieces"]), set(specials.values())
        ordinary = (i for i in range(self.size) if i not in special_ids)
        self.ids: dict[str, int] = dict(zip(saved["pieces"], ordinary, strict=True))
        self.pieces = {i: piece for piece, i in self.ids.items()}
        roles = {role: specials[form] for role, forms in SPECIALS.items() for form in forms if form in specials}
        self.bos_id, self.eos_id = roles.get("bos", roles["pad"]), roles["eos"]  # targets of MarianMT start with <pad>
        self.unk_id = roles.get("unk")
        self.start = [self.bos_id] if settings.get("bos", True) else []

    def normalize(self, text: str) -> str:
        text = text.strip() if self.trim else text
        text = text if self.form == "none" else unicodedata.normalize(self.form, text)
        return text.lower() if self.lowercase else text

    def encode(self, text: str) -> tuple[list[int], list[str]]:
        """Return the ids of a text, without <bos> and <eos>, and the parts of it that the vocabulary lacks, in order.

        Raises InputError for such a part where the vocabulary has no <unk>.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            surrogate = f"U+{ord(text[error.start]):04X}, column {error.start + 1}"
            raise InputError(f"the text contains a lone surrogate, which is not a character: {surrogate}") from None
        text = self.normalize(text)
        pieces = self.segmenter.split([text])[0]
        lacking = [i for i, piece in enumerate(pieces) if piece not in self.ids]
        if lacking and self.unk_id is None:
            piece = pieces[lacking[0]]
            what = f"word {piece!r}" if self.kind == "words" else f"character {piece[0]!r}"
            raise InputError(f"the {what} is not in the vocabulary, which has no <unk>")
        spans = self.segmenter.spans(text) if lacking else []
        unknown = [text[slice(*spans[i])] for i in lacking]
        return [self.ids.get(piece, self.unk_id) for piece in pieces], unknown

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        text = self.segmenter.join([self.pieces[i] for i in ids if i in self.pieces])
        return unicodedata.normalize("NFC", text) if self.form == "NFD" else text
