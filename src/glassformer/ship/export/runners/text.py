"""Text to token ids and back. It needs Python's standard library alone, and for the tokens of SentencePiece its library
and the file `sentencepiece_cut.py` next to this one.

`glassformer.json` holds the tokenizers: the settings, pieces and merges or scores of a vocabulary. A text is normalized
and split into pieces, and each piece is looked up; a special token is never the result of a text.
"""

from __future__ import annotations

import functools
import heapq
import math
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
BYTES = [chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)]
BYTE_OF = {piece: byte for byte, piece in enumerate(BYTES)}
UNKNOWN_PENALTY = 10.0  # of an unknown character in unigram segmentation, below the lowest score of a piece


class InputError(Exception):
    """A text that the model cannot take, or a file that is not an export."""


class Segmenter(Protocol):
    """Splits a text into pieces, and joins the pieces of an answer. `spell`: the part of the text of each piece."""

    def split(self, text: str) -> list[str]: ...
    def spell(self, text: str) -> list[str]: ...
    def join(self, pieces: list[str]) -> str: ...


class Characters:
    """One piece for each Unicode code point."""

    def split(self, text: str) -> list[str]:
        return list(text)

    spell = split

    def join(self, pieces: list[str]) -> str:
        return "".join(pieces)


class Words:
    """One piece for each word: the text between white space."""

    def split(self, text: str) -> list[str]:
        return text.split()

    spell = split

    def join(self, pieces: list[str]) -> str:
        return " ".join(pieces)


class Bytes:
    """One piece for each byte of UTF-8."""

    def split(self, text: str) -> list[str]:
        return [BYTES[byte] for byte in text.encode()]

    spell = split

    def join(self, pieces: list[str]) -> str:
        return bytes(BYTE_OF[piece] for piece in pieces).decode(errors="replace")


class Subwords:
    """Pieces of BPE or of a unigram model, within words and within runs of other characters."""

    def __init__(self, saved: dict[str, Any]) -> None:
        segment = bpe(saved["merges"]) if "merges" in saved else unigram(saved["pieces"], saved["scores"])
        self.segment = functools.lru_cache(maxsize=65536)(segment)

    def split(self, text: str) -> list[str]:
        marked = MARK + text.translate(EXCHANGE) if text else ""
        return [piece for chunk in chunks(marked) for piece in self.segment(chunk)]

    def spell(self, text: str) -> list[str]:
        parts = [piece.translate(EXCHANGE) for piece in self.split(text)]
        return [part if i else part[1:] for i, part in enumerate(parts)]  # the first mark is not in the text

    def join(self, pieces: list[str]) -> str:
        text = "".join(pieces).translate(EXCHANGE)
        return text[1:] if text.startswith(" ") else text


class SentencePiece:
    """Pieces of an imported SentencePiece model."""

    def __init__(self, saved: dict[str, Any]) -> None:
        self.cutter = import_module("sentencepiece_cut").Cutter(**saved["sentencepiece"])

    def split(self, text: str) -> list[str]:
        return [cut.piece for cut in self.cutter.cut(text)]

    def spell(self, text: str) -> list[str]:
        return [text[cut.start : cut.end] for cut in self.cutter.cut(text)]

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


def chunks(marked: str) -> list[str]:
    """Split before each mark, and between words (letters, their marks, numbers) and all other characters.

    A character that is newer than the Unicode tables of this Python is of no word.
    """

    def in_word(character: str) -> bool:
        return unicodedata.category(character)[0] in "LMN"

    found, start = [], 0
    while start < len(marked):
        end = start + (marked[start] == MARK)
        if end < len(marked) and marked[end] != MARK:
            kind = in_word(marked[end])
            while end < len(marked) and marked[end] != MARK and in_word(marked[end]) == kind:
                end += 1
        found.append(marked[start:end])
        start = end
    return found


def bpe(merges: list[list[str]]) -> Callable[[str], list[str]]:
    """Return a function that merges the characters of a chunk: the earliest merge first, from left to right."""
    ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def segment(chunk: str) -> list[str]:
        pieces, n = list(chunk), len(chunk)  # "" where a piece was merged into the one before it
        after, before = list(range(1, n + 1)), list(range(-1, n - 1))
        heap: list[tuple[int, int, str, str]] = []

        def push(i: int, j: int) -> None:
            if i >= 0 and j < n and (pieces[i], pieces[j]) in ranks:
                heapq.heappush(heap, (ranks[pieces[i], pieces[j]], i, pieces[i], pieces[j]))

        for i in range(n - 1):
            push(i, i + 1)
        while heap:
            _, i, left, right = heapq.heappop(heap)
            j = after[i]
            if j == n or pieces[i] != left or pieces[j] != right:
                continue  # one of the two was merged meanwhile
            pieces[i], pieces[j], after[i] = left + right, "", after[j]
            if after[i] < n:
                before[after[i]] = i
            push(before[i], i)
            push(i, after[i])
        return [piece for piece in pieces if piece]

    return segment


def unigram(pieces: list[str], scores: list[float]) -> Callable[[str], list[str]]:
    """Return a function that splits a chunk into the pieces of the highest sum of scores.

    Unknown characters in a row are one piece.
    """
    score_of = dict(zip(pieces, scores, strict=True))
    longest = max(map(len, pieces))
    unknown_score = min(0.0, *scores) - UNKNOWN_PENALTY

    def segment(chunk: str) -> list[str]:
        best = [(0.0, 0, False)] + [(-math.inf, 0, False)] * len(chunk)  # score, start of the last piece, unknown
        for start in range(len(chunk)):
            for end in range(start + 1, min(start + longest, len(chunk)) + 1):
                unknown = end == start + 1 and chunk[start] not in score_of
                score = best[start][0] + (unknown_score if unknown else score_of.get(chunk[start:end], -math.inf))
                if score > best[end][0]:
                    best[end] = score, start, unknown
        found: list[str] = []
        end, unknown_after = len(chunk), False
        while end > 0:
            _, start, unknown = best[end]
            if unknown and unknown_after:
                found[-1] = chunk[start:end] + found[-1]
            else:
                found.append(chunk[start:end])
            end, unknown_after = start, unknown
        return found[::-1]

    return segment


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

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without <bos> and <eos>. Raises InputError for what the vocabulary lacks."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            surrogate = f"U+{ord(text[error.start]):04X}, column {error.start + 1}"
            raise InputError(f"the text contains a lone surrogate, which is not a character: {surrogate}") from None
        pieces = self.segmenter.split(self.normalize(text))
        if self.unk_id is not None:
            return [self.ids.get(piece, self.unk_id) for piece in pieces]
        for piece in pieces:
            if piece not in self.ids:
                named = f"word {piece!r}" if self.kind == "words" else f"character {piece[0]!r}"
                raise InputError(f"the {named} is not in the vocabulary, which has no <unk>")
        return [self.ids[piece] for piece in pieces]

    def unknown(self, text: str) -> list[str]:
        """Return the parts of the normalized text that the vocabulary lacks, in order."""
        normal = self.normalize(text)
        pieces, parts = self.segmenter.split(normal), self.segmenter.spell(normal)
        return [part for piece, part in zip(pieces, parts) if piece not in self.ids]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids, without special tokens."""
        text = self.segmenter.join([self.pieces[i] for i in ids if i in self.pieces])
        return unicodedata.normalize("NFC", text) if self.form == "NFD" else text
