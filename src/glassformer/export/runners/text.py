"""Text to token ids and back, and the command line of `run.py`. It needs Python's standard library alone.

`glassformer.json` holds the tokenizers: the settings, pieces and merges or scores of a vocabulary. A text is normalized
and split into pieces, and each piece is looked up; a special token is never the result of a text.
"""

from __future__ import annotations

import argparse
import functools
import heapq
import json
import re
import sys
import unicodedata
from pathlib import Path

FORMAT = "glassformer-export/1"
ROLES = {
    "bos": ("<bos>", "<sos>", "<s>", "<start>"),
    "eos": ("<eos>", "</s>", "<end>"),
    "unk": ("<unk>",),
}
"""Role of a special token -> its written forms."""

MARK = "▁"  # a space in subwords; spaces and marks are exchanged, so that a mark of the text is not lost
EXCHANGE = str.maketrans(f" {MARK}", f"{MARK} ")
BYTES = [chr(byte) if 0x20 <= byte < 0x7F else f"<0x{byte:02X}>" for byte in range(256)]
UNKNOWN_PENALTY = 10.0  # of an unknown character in unigram segmentation, below the lowest score of a piece


class InputError(Exception):
    """A text that the model cannot take, or a file that is not an export."""


class Characters:
    """One piece for each Unicode code point."""

    def __init__(self, saved):
        pass

    def split(self, text):
        return list(text)

    def join(self, pieces):
        return "".join(pieces)


class Words:
    """One piece for each word: the text between white space."""

    def __init__(self, saved):
        pass

    def split(self, text):
        return text.split()

    def join(self, pieces):
        return " ".join(pieces)


class Bytes:
    """One piece for each byte of UTF-8."""

    def __init__(self, saved):
        self.byte_of = {piece: byte for byte, piece in enumerate(BYTES)}

    def split(self, text):
        return [BYTES[byte] for byte in text.encode()]

    def join(self, pieces):
        return bytes(self.byte_of[piece] for piece in pieces).decode(errors="replace")


class Subwords:
    """Pieces of BPE or of a unigram model, within words and within runs of other characters."""

    def __init__(self, saved):
        segment = bpe(saved["merges"]) if "merges" in saved else unigram(saved["pieces"], saved["scores"])
        self.segment = functools.lru_cache(maxsize=65536)(segment)

    def split(self, text):
        marked = MARK + text.translate(EXCHANGE) if text else ""
        return [piece for chunk in chunks(marked) for piece in self.segment(chunk)]

    def join(self, pieces):
        text = "".join(pieces).translate(EXCHANGE)
        return text[1:] if text.startswith(" ") else text


SEGMENTERS = {"characters": Characters, "words": Words, "bytes": Bytes, "subwords": Subwords}


def chunks(marked):
    """Split before each mark, and between letters, marks of letters or numbers (L, M, N) and all other characters."""

    def in_word(character):
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


def bpe(merges):
    """Return a function that merges the characters of a chunk: the earliest merge first, from left to right."""
    ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}

    def segment(chunk):
        pieces = list(chunk)  # None where a piece was merged into the one before it
        after = [*range(1, len(pieces)), None]
        before = [None, *range(len(pieces) - 1)]
        heap = []

        def push(i):
            j = None if i is None else after[i]
            if j is not None and (pieces[i], pieces[j]) in ranks:
                heapq.heappush(heap, (ranks[pieces[i], pieces[j]], i, pieces[i], pieces[j]))

        for i in range(len(pieces)):
            push(i)
        while heap:
            _, i, left, right = heapq.heappop(heap)
            j = after[i]
            if j is None or pieces[i] != left or pieces[j] != right:
                continue  # one of the two was merged meanwhile
            pieces[i], pieces[j], after[i] = left + right, None, after[j]
            if after[i] is not None:
                before[after[i]] = i
            push(i)
            push(before[i])
        return [piece for piece in pieces if piece is not None]

    return segment


def unigram(pieces, scores):
    """Return a function that splits a chunk into the pieces of the highest sum of scores.

    Unknown characters in a row are one piece.
    """
    score_of = dict(zip(pieces, scores))
    longest = max(map(len, pieces))
    unknown_score = min(0.0, *scores) - UNKNOWN_PENALTY

    def segment(chunk):
        best = [(0.0, 0, False), *[None] * len(chunk)]  # score, start of the last piece, whether that is unknown
        for start in range(len(chunk)):
            for end in range(start + 1, min(start + longest, len(chunk)) + 1):
                score, unknown = score_of.get(chunk[start:end]), False
                if score is None and end == start + 1:
                    score, unknown = unknown_score, True
                if score is not None and (best[end] is None or best[start][0] + score > best[end][0]):
                    best[end] = best[start][0] + score, start, unknown
        found, end, unknown_after = [], len(chunk), False
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

    def __init__(self, saved):
        settings, specials = saved["settings"], saved["specials"]
        self.kind, self.form, self.lowercase = saved["kind"], settings["normalization"], settings["lowercase"]
        self.segmenter = SEGMENTERS[saved["kind"]](saved)
        self.special_ids = set(specials.values())
        ordinary = (i for i in range(len(specials) + len(saved["pieces"])) if i not in self.special_ids)
        self.ids = dict(zip(saved["pieces"], ordinary))
        self.pieces = {i: piece for piece, i in self.ids.items()}
        roles = {role: specials[form] for role, forms in ROLES.items() for form in forms if form in specials}
        self.bos_id, self.eos_id, self.unk_id = roles["bos"], roles["eos"], roles.get("unk")

    def normalize(self, text):
        text = text if self.form == "none" else unicodedata.normalize(self.form, text)
        return text.lower() if self.lowercase else text

    def encode(self, text):
        """Return the ids of a text, without <bos> and <eos>. Raises InputError for what the vocabulary lacks."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            surrogate = f"U+{ord(text[error.start]):04X}, column {error.start + 1}"
            raise InputError(f"the text contains a lone surrogate, which is not a character: {surrogate}") from None
        pieces = self.segmenter.split(self.normalize(text))
        ids = [self.ids.get(piece, self.unk_id) for piece in pieces]
        if None in ids:
            piece = pieces[ids.index(None)]
            piece = piece if self.kind == "words" else piece[0]
            kind = "word" if self.kind == "words" else "character"
            raise InputError(f"the {kind} {piece!r} is not in the vocabulary, which has no <unk>")
        return ids

    def decode(self, ids):
        """Return the text of ids, without special tokens."""
        text = self.segmenter.join([self.pieces[i] for i in ids if i not in self.special_ids])
        return unicodedata.normalize("NFC", text) if self.form == "NFD" else text


class Export:
    """`glassformer.json`: both tokenizers, the limits and the settings of the search and of the model."""

    def __init__(self, folder):
        description = json.loads((Path(folder) / "glassformer.json").read_text(encoding="utf-8"))
        if description.get("format") != FORMAT:
            raise InputError(f"glassformer.json has the format {description.get('format')!r}, expected {FORMAT!r}")
        self.source, self.target = (Tokenizer(description[side]) for side in ("source", "target"))
        self.max_source_tokens, self.search = description["max_source_tokens"], description["search"]
        self.model = description["model"]

    def encode(self, text):
        """Return the ids of a source, framed by <bos> and <eos>. Raises InputError."""
        ids = self.source.encode(text)
        if len(ids) > self.max_source_tokens:
            raise InputError(f"the text has {len(ids)} tokens, and the model takes at most {self.max_source_tokens}")
        return [self.source.bos_id, *ids, self.source.eos_id]


def main(export, answer, add_options=None):
    """Read lines, answer them and write one line for each; the command line of every run.py.

    `answer(sources, options)` returns (ids, score, score after the length penalty, finished) for each source.
    """
    parser = argparse.ArgumentParser(description="Translate lines from standard input.")
    parser.add_argument("--beam", type=int, default=export.search["num_beams"], help="beam width; 1: greedy search")
    parser.add_argument("--json", action="store_true", help="lines are JSON strings, answers are JSON objects")
    if add_options:
        add_options(parser)
    options = parser.parse_args()
    if options.beam < 1:
        parser.error(f"--beam must be at least 1, not {options.beam}")
    try:
        texts = read_texts(sys.stdin.buffer.read(), options.json)
        sources = [named(i, lambda text=text: export.encode(text)) for i, text in enumerate(texts) if text.strip()]
        found = iter(answer(sources, options))
    except InputError as error:
        sys.exit(f"error: {error}")
    for text in texts:
        ids, score, rank_score, finished = next(found) if text.strip() else ((), 0.0, 0.0, True)
        translated = export.target.decode(ids)
        line = re.sub("[\r\n]", " ", translated)
        if options.json:
            values = {"score": score, "rank_score": rank_score, "finished": finished}
            line = json.dumps({"text": translated, "ids": [int(i) for i in ids], **values})
        sys.stdout.buffer.write(f"{line}\n".encode())
    sys.stdout.flush()


def read_texts(data, as_json):
    """Return the lines of standard input, split at line feeds alone; with `as_json` each is a JSON string."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"the input is not UTF-8: byte {error.start + 1}") from None
    lines = lines[:-1] if lines[-1] == "" else lines
    return [named(i, lambda line=line: read_string(line)) for i, line in enumerate(lines)] if as_json else lines


def read_string(line):
    try:
        text = json.loads(line)
    except ValueError:
        text = None
    if not isinstance(text, str):
        raise InputError("expected a JSON string")
    return text


def named(i, make):
    """Return what `make` returns; an InputError names line i, from 0."""
    try:
        return make()
    except InputError as error:
        raise InputError(f"line {i + 1}: {error}") from None
