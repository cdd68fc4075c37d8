"""Text to token ids and back. It needs Python's standard library alone; for subwords the `tokenizers` library; for the
tokens of SentencePiece its library and the file `sentencepiece_cut.py` next to this one.

`glassformer.json` holds the tokenizers: the settings, pieces and merges or scores of a vocabulary. A text is normalized
and split into pieces, and each piece is looked up; a special token is never the result of a text.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Protocol

ROLES = {
    "pad": ("<pad>", "<blank>"),
    "bos": ("<bos>", "<sos>", "<s>", "<start>"),
    "eos": ("<eos>", "</s>", "<end>"),
    "unk": ("<unk>",),
}
"""Role of a special token -> its written forms."""

MARK = "▁"  # a space in subwords; spaces and marks are exchanged, so that a mark of the text is not lost
EXCHANGE = str.maketrans(f" {MARK}", f"{MARK} ")
CHUNK = rf"{MARK}?[\p{{L}}\p{{M}}\p{{N}}]+|{MARK}?[^{MARK}\p{{L}}\p{{M}}\p{{N}}]+|{MARK}"
BYTES = [chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)]
BYTE_OF = {piece: byte for byte, piece in enumerate(BYTES)}


class InputError(Exception):
    """A text that the model cannot take, or a file that is not an export."""


class Segmenter(Protocol):
    """Splits a text into pieces, each with the part of the text that it is made of, and joins those of an answer."""

    def split(self, text: str) -> list[tuple[str, str]]: ...
    def join(self, pieces: list[str]) -> str: ...


class Characters:
    """One piece for each Unicode code point."""

    def split(self, text: str) -> list[tuple[str, str]]:
        return [(character, character) for character in text]

    def join(self, pieces: list[str]) -> str:
        return "".join(pieces)


class Words:
    """One piece for each word: the text between white space."""

    def split(self, text: str) -> list[tuple[str, str]]:
        return [(word, word) for word in text.split()]

    def join(self, pieces: list[str]) -> str:
        return " ".join(pieces)


class Bytes:
    """One piece for each byte of UTF-8."""

    def split(self, text: str) -> list[tuple[str, str]]:
        return [(BYTES[byte], BYTES[byte]) for byte in text.encode()]

    def join(self, pieces: list[str]) -> str:
        return bytes(BYTE_OF[piece] for piece in pieces).decode(errors="replace")


class Subwords:
    """Pieces of BPE or of a unigram model, within words and within runs of other characters."""

    def __init__(self, saved: dict[str, Any]) -> None:
        import tokenizers as library

        pieces = [*saved["pieces"], ""]  # the library needs a piece for unknown characters: one that is no other
        if "merges" in saved:
            ids = {piece: i for i, piece in enumerate(pieces)}
            model = library.models.BPE(ids, [(left, right) for left, right in saved["merges"]], unk_token="")
        else:
            model = library.models.Unigram(list(zip(pieces, [*saved["scores"], 0.0], strict=True)), len(pieces) - 1)
        self.library = library.Tokenizer(model)
        self.library.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(CHUNK), "isolated")

    def split(self, text: str) -> list[tuple[str, str]]:
        marked = MARK + text.translate(EXCHANGE) if text else ""
        spans = self.library.encode(marked).offsets  # the first mark is not in the text
        return [(marked[start:end], marked[start or 1 : end].translate(EXCHANGE)) for start, end in spans]

    def join(self, pieces: list[str]) -> str:
        return "".join(pieces).translate(EXCHANGE).removeprefix(" ")


class SentencePiece:
    """Pieces of an imported SentencePiece model."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.cutter = import_module("sentencepiece_cut").Cutter(**saved["sentencepiece"])

    def split(self, text: str) -> list[tuple[str, str]]:
        return [(cut.piece, text[cut.start : cut.end]) for cut in self.cutter.cut(text)]

    def join(self, pieces: list[str]) -> str:
        return "".join(pieces).replace(MARK, " ").strip()


SEGMENTERS: dict[str, Callable[[dict[str, Any]], Segmenter]] = {
    "characters": lambda _: Characters(),
    "words": lambda _: Words(),
    "bytes": lambda _: Bytes(),
    "subwords": Subwords,
    "sentencepiece": SentencePiece,
}
"""Kind of token -> its segmenter, made from a saved tokenizer."""


class Tokenizer:
    """One side of the model: text to ids and back."""

    def __init__(self, saved: dict[str, Any]) -> None:
        settings, specials = saved["settings"], saved["specials"]
        self.kind, self.form, self.lowercase = saved["kind"], settings["normalization"], settings["lowercase"]
        self.trim = settings.get("trim", False)
        self.segmenter = SEGMENTERS[saved["kind"]](saved)
        self.size, special_ids = len(specials) + len(saved["pieces"]), set(specials.values())
        ordinary = (i for i in range(self.size) if i not in special_ids)
        self.ids: dict[str, int] = dict(zip(saved["pieces"], ordinary, strict=True))
        self.pieces = {i: piece for piece, i in self.ids.items()}
        roles = {role: specials[form] for role, forms in ROLES.items() for form in forms if form in specials}
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
        ids, unknown = [], []
        for piece, part in self.segmenter.split(self.normalize(text)):
            token = self.ids.get(piece, self.unk_id)
            if token is None:
                named = f"word {piece!r}" if self.kind == "words" else f"character {piece[0]!r}"
                raise InputError(f"the {named} is not in the vocabulary, which has no <unk>")
            ids.append(token)
            unknown += [] if piece in self.ids else [part]
        return ids, unknown

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        text = self.segmenter.join([self.pieces[i] for i in ids if i in self.pieces])
        return unicodedata.normalize("NFC", text) if self.form == "NFD" else text
