"""Many texts to ids at once, in arrays: the same ids as `Tokenizer.encode_many` and `frame`, faster.

    BlockEncoder(tokenizer).encode(texts, where) -> ids, lengths
    count_characters(texts, settings)            how often each character occurs, for `learning`

Characters are looked up in one array of all code points, with texts joined by NUL. Where that could differ (a text with
NUL, an unknown character without <unk>, a lone surrogate), the texts are encoded one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from glassformer.paper.settings import SideSettings
from glassformer.text.normalization import normalize, normalized
from glassformer.text.tokenizer import Tokenizer

_CODE_POINTS = 0x110000
_COUNTED = 2**16  # texts that are counted at once


class BlockEncoder:
    """Encodes many texts with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._table: NDArray[np.int32] | None = None
        if tokenizer.settings.kind == "characters" and not getattr(tokenizer, "inputs", ()):
            unknown = tokenizer.vocabulary.unk_id
            self._table = np.full(_CODE_POINTS, -1 if unknown is None else unknown, np.int32)
            for piece, token_id in tokenizer.vocabulary.ordinary.items():
                self._table[ord(piece)] = token_id

    def encode(
        self, texts: Sequence[str], where: Callable[[int], str] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the framed ids of all texts in one array, and the number of ids of each text.

        Raises the errors of `Tokenizer.encode_many`; `where(i)` names text i in them.
        """
        if self._table is not None and (found := self._characters(texts, self._table)) is not None:
            return found
        names = None if where is None else [where(i) for i in range(len(texts))]
        framed = [self._tokenizer.frame(ids) for ids in self._tokenizer.encode_many(texts, where=names)]
        lengths = np.fromiter(map(len, framed), np.int64, len(framed))
        return np.fromiter(chain.from_iterable(framed), np.int32, int(lengths.sum())), lengths

    def _characters(
        self, texts: Sequence[str], table: NDArray[np.int32]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        settings, vocabulary = self._tokenizer.settings, self._tokenizer.vocabulary
        codes = _code_points(texts, settings)
        if codes is None:
            return None
        ends = np.flatnonzero(codes == 0)
        ids = table[codes]
        ids[ends] = vocabulary.eos_id
        if len(ends) != len(texts) or (len(ids) and ids.min() < 0):
            return None
        starts = np.concatenate(([0], ends + 1))
        lengths = np.diff(starts)
        if not settings.bos:
            return ids, lengths
        is_bos = np.zeros(len(ids) + len(texts), np.bool_)
        is_bos[starts[:-1] + np.arange(len(texts))] = True
        framed = np.empty(len(is_bos), np.int32)
        framed[is_bos], framed[~is_bos] = vocabulary.bos_id, ids
        return framed, lengths + 1


def count_characters(texts: Iterable[str], settings: SideSettings) -> Counter[str]:
    """Return how often each character occurs in normalized texts. Raises TextError for a lone surrogate."""
    counts = np.zeros(0, np.int64)  # as long as the largest code point needs
    rows = 0
    for block in _blocks(texts):
        codes = _code_points(block, settings)
        if codes is None:  # the error names the text
            for row, text in enumerate(block, start=rows + 1):
                normalize(text, settings, f"text {row}")
        else:
            found = np.bincount(codes, minlength=len(counts))
            found[: len(counts)] += counts
            found[0] -= len(block)
            counts = found
        rows += len(block)
    return Counter({chr(code): int(counts[code]) for code in np.flatnonzero(counts).tolist()})


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(texts)
    while block := list(islice(rest, _COUNTED)):
        yield block


def _code_points(texts: Sequence[str], settings: SideSettings) -> NDArray[np.uint32] | None:
    """Return the code points of normalized texts, NUL after each; None where one is a lone surrogate.

    NUL composes with no character and is no letter, so that texts are normalized as each by itself.
    """
    joined = "".join(f"{text.strip() if settings.trim else text}\0" for text in texts)
    try:
        return np.frombuffer(normalized(joined, settings).encode("utf-32-le"), np.uint32)
    except UnicodeEncodeError:
        return None
