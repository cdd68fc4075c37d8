"""Whether a text is unlike those of a training: longer than all of them, or with a string of tokens that none has.

    n, bits = learn_seen(ids, lengths)           of the framed sources of the training, one after the other
    Seen(n, bits, longest).unlike(ids, tokenizer)    "no text of the training begins with “202”"; "" where it is alike

The strings have `n` tokens. `bits` is a Bloom filter of them (Bloom 1970): a string of the training always counts as
seen, and of those that are new a few per cent do. `glassbox/page/model/seen.js` is the same for the pages.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.settings import TokenKind
from glassformer.text.new_strings import FACTOR, PROBES, first_new
from glassformer.text.segmenters import MARK
from glassformer.text.tokenizer import Tokenizer

MAX_N = 4
NEW = 0.005  # maximum fraction of training texts with a string that is in no other one
SAMPLE_ROWS = 50_000  # that decide on n
MIN_BITS, MAX_BITS, BITS_A_STRING = 2**10, 2**18, 8
_BLOCK_ROWS = 2**14
_EDGE = re.compile(r"\s|<.+>")  # between words of characters

Ids = NDArray[np.integer[Any]]


def learn_seen(ids: Ids, lengths: Ids) -> tuple[int, bytes]:
    """Return n and the filter of framed texts, one after the other in `ids`.

    n is the largest, up to MAX_N, with which at most a fraction NEW of the different texts has a string that is in no
    other one: as many of new texts of the same kind are expected to be taken for unlike.
    """
    ends = lengths.cumsum(dtype=np.int64)
    rows = np.linspace(0, len(lengths) - 1, min(len(lengths), SAMPLE_ROWS)).astype(np.int64)
    texts = {ids[ends[row] - lengths[row] : ends[row]].tobytes() for row in rows.tolist()}
    sample = [np.frombuffer(text, ids.dtype) for text in sorted(texts)]
    sampled, sizes = np.concatenate(sample), np.array([len(text) for text in sample])
    for n in range(MAX_N, 0, -1):
        strings, of = np.concatenate(list(_hashes(sampled, sizes, n)), axis=1)
        occurrences = np.sort(strings.astype(np.uint64) << 32 | of)
        occurrences = occurrences[np.diff(occurrences, prepend=occurrences[:1] ^ 1) != 0]  # once for each text
        hashes, counts = np.unique(occurrences >> 32, return_counts=True)
        alone = occurrences[np.repeat(counts == 1, counts)] & 0xFFFFFFFF
        if len(np.unique(alone)) <= NEW * len(sample) and len(hashes) * BITS_A_STRING <= MAX_BITS:
            break
    n_bits = MAX_BITS if len(rows) < len(lengths) else MIN_BITS
    while n_bits < min(len(hashes) * BITS_A_STRING, MAX_BITS):
        n_bits *= 2
    bits = np.zeros(n_bits, np.bool_)
    for start in range(0, len(lengths), _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        first = ends[start] - lengths[start]
        for strings, _ in _hashes(ids[first : ends[block][-1]], lengths[block], n):
            for probe in range(PROBES):
                bits[(strings + probe * (strings >> 17 | 1)) & (n_bits - 1)] = True
    return n, np.packbits(bits, bitorder="little").tobytes()


def _hashes(ids: Ids, lengths: Ids, n: int) -> Iterator[NDArray[np.uint32]]:
    """Yield the hashes of the strings of n tokens, and the row of each; a shorter text is one string."""
    row_of = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
    for size in range(1, n + 1):
        count = max(0, len(ids) - size + 1)
        is_string = row_of[:count] == row_of[len(ids) - count :]
        is_string &= (lengths[row_of[:count]] >= n) if size == n else (lengths[row_of[:count]] == size)
        hashed = np.zeros(count, np.uint32)
        for i in range(size):
            hashed = (hashed ^ (ids[i : count + i].astype(np.uint32) + np.uint32(1))) * np.uint32(FACTOR)
            hashed ^= hashed >> np.uint32(15)
        yield np.stack((hashed[is_string], row_of[:count][is_string]))


@dataclass(frozen=True)
class Seen:
    """The strings of the training, and the maximum number of tokens of its texts."""

    n: int
    bits: bytes
    longest: int

    def to_json(self) -> dict[str, int | str]:
        """Return n, the filter in base64 and the maximum, for the pages."""
        return {"n": self.n, "bits": base64.b64encode(self.bits).decode(), "longest": self.longest}

    def unlike(self, ids: Sequence[int], tokenizer: Tokenizer, unknown: Sequence[str] = ()) -> str:
        """Return in words how a framed source is unlike all texts of the training; "" if it is not.

        `unknown` is that of `Tokenizer.unknown`.
        """
        n_tokens = len(ids) - tokenizer.settings.n_frame_tokens
        if n_tokens > self.longest:
            return f"the text has {n_tokens} tokens, the longest of the training {self.longest}"
        new = first_new(ids, self.n, self.bits)
        if new is None:
            return ""
        vocabulary, kind = tokenizer.vocabulary, tokenizer.settings.kind
        begins, ends = new[0] == vocabulary.bos_id, new[-1] == vocabulary.eos_id
        verb = ("is" if ends else "begins with") if begins else "ends with" if ends else "has"
        start = next(at for at in range(len(ids)) if tuple(ids[at : at + len(new)]) == tuple(new))
        n_start = tokenizer.settings.n_frame_tokens - 1
        tokens = tokenizer.tokens(ids[n_start:-1], unknown)
        words = words_of(tokens, start + begins - n_start, start + len(new) - ends - n_start, kind)
        return f"no text of the training {verb} “{words}”"


def words_of(tokens: Sequence[str], start: int, end: int, kind: TokenKind) -> str:
    """Return what the tokens from `start` to `end` are in their text: whole words of subwords and of characters.

    Characters of a text of one word are only themselves.
    """
    is_marked, (first, last) = kind in ("subwords", "sentencepiece"), (start, end)

    def is_edge(at: int) -> bool:
        if kind == "characters":
            return any(map(_EDGE.fullmatch, tokens[at - 1 : at + 1]))
        return tokens[at].startswith(MARK) if is_marked else True

    while first > 0 and not is_edge(first):
        first -= 1
    while last < len(tokens) and not is_edge(last):
        last += 1
    if is_marked:
        return "".join(tokens[first:last]).replace(MARK, " ").strip()
    if last - first == len(tokens):
        first, last = start, end
    return (" " if kind == "words" else "").join(tokens[first:last])
