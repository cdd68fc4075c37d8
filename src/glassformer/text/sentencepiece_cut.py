"""The segmentation of SentencePiece (Kudo and Richardson 2018). It needs Python's standard library alone.

    normalize   rules (longest match first), white space folded to one "▁", a "▁" before the text
    unigram     the most probable segmentation, by Viterbi's algorithm
    bpe         the best merge first, the leftmost of equals

The pieces are those of the library for every text, to the last tie: sums of scores are rounded to float32 where the
library does. Tests compare them on many texts. Exports copy this file next to their runner.
"""

from __future__ import annotations

import base64
import heapq
import re
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple, final

SPACE = "▁"
LANGUAGE_CODE = re.compile(r">>.*?<<", re.DOTALL)
_UNKNOWN_PENALTY = 10.0  # an unknown character is that much less probable than any piece
_USER_DEFINED_PENALTY = 0.1
_SMALLEST = 2.0**-126  # the smallest float32, from which the library searches for the highest score


class RulesError(ValueError):
    """Rules of normalization that are not valid: what is wrong, and what was found."""

    def __init__(self, what: str, got: str | None = None) -> None:
        self.what, self.got = what, got
        super().__init__(what if got is None else f"{what}: {got}")


class Cut(NamedTuple):
    """A piece, and the start and end in the text of what it was made of."""

    piece: str
    start: int
    end: int


class _Normalized(NamedTuple):
    """A normalized text, and for each of its characters, and its end, where it comes from in the text."""

    text: str
    origins: list[int]


@final
class Cutter:
    """Cuts texts. The parameters are the fields of `SentencePieceModel`. Raises RulesError."""

    def __init__(
        self,
        *,
        algorithm: str,
        pieces: list[str],
        scores: list[float],
        user_defined: list[int],
        unused: list[int],
        rules: str,
        dummy_prefix: bool,
        fold_spaces: bool,
        escape_spaces: bool,
    ) -> None:
        self._dummy_prefix, self._fold_spaces = dummy_prefix, fold_spaces
        self._space = SPACE if escape_spaces else " "
        self._user_defined = {pieces[index] for index in user_defined}
        self._unused = {pieces[index] for index in unused}
        self._scores = dict(zip(pieces, map(_float32, scores), strict=True))
        special = self._user_defined | self._unused
        ordinary = [score for piece, score in self._scores.items() if piece not in special]
        self._unknown_score = _float32(min(ordinary, default=0.0) - _UNKNOWN_PENALTY)
        self._highest = max(_SMALLEST, *ordinary)
        self._trie = _trie(self._scores.keys() - self._unused)
        self._frozen = _trie(self._user_defined)
        self._rules = Rules.read(rules)
        self._segment: Callable[[str], list[tuple[str, bool]]] = {"unigram": self._unigram, "bpe": self._bpe}[algorithm]

    def cut(self, text: str) -> list[Cut]:
        """Return the pieces of a text and where they come from. Unknown characters next to each other are one piece."""
        cuts = []
        start = 0
        if code := LANGUAGE_CODE.match(text):
            start = code.end()
            cuts.append(Cut(code[0], 0, start))
        normalized, origins = self._normalize(text[start:])
        end, before_unknown = 0, False
        for piece, known in self._segment(normalized):
            begin, end = end, end + len(piece)
            if before_unknown and not known:
                previous = cuts.pop()
                cuts.append(Cut(previous.piece + piece, previous.start, start + origins[end]))
            else:
                cuts.append(Cut(piece, start + origins[begin], start + origins[end]))
            before_unknown = not known
        return cuts

    def _normalize(self, text: str) -> _Normalized:
        """Apply the rules and fold white space."""
        position = 0
        parts = list(self._normalized_parts(text))
        if self._fold_spaces:
            while position < len(parts) and parts[position][0] == " ":
                position += 1
        if position == len(parts):
            return _Normalized("", [len(text)])
        space = self._space
        characters, origins = ([space], [parts[position][1]]) if self._dummy_prefix else ([], [])
        after_space = self._fold_spaces
        for part, origin in parts[position:]:
            kept = part.lstrip(" ") if after_space else part
            if kept:
                characters += kept.replace(" ", space)
                origins += [origin] * len(kept)
                after_space = kept.endswith(" ")
            after_space &= self._fold_spaces
        end = len(text)
        while self._fold_spaces and characters and characters[-1] == space:
            characters.pop()
            end = origins.pop()
        return _Normalized("".join(characters), [*origins, end])

    def _normalized_parts(self, text: str) -> Iterable[tuple[str, int]]:
        """Yield the normalized form of each part of the text that a rule, or none, is for, and its start."""
        position = 0
        while position < len(text):
            if frozen := _longest_match(self._frozen, text, position):
                yield frozen, position
                position += len(frozen)
                continue
            replacement, length = self._rules.match(text, position) if self._rules else (text[position], 1)
            yield replacement, position
            position += length

    def _unigram(self, text: str) -> list[tuple[str, bool]]:
        """The most probable segmentation: pieces, and whether each is known.

        Of equals the one that was found first is kept. Sums are rounded to float32 where the library stores them.
        """
        n = len(text)
        best: list[tuple[float, int, bool] | None] = [None] * (n + 1)  # score, start and whether known, by end
        best[0] = (0.0, 0, True)
        trie, user_defined = self._trie, self._user_defined
        for start in range(n):
            so_far = best[start][0]  # type: ignore[index]  # every position is reached, if only as unknown
            has_single = False
            for end in range(start + 1, n + 1):
                piece = text[start:end]
                is_piece = trie.get(piece)
                if is_piece is None:
                    break
                if not is_piece:
                    continue
                has_single |= end == start + 1
                if piece in user_defined:
                    total = len(piece.encode()) * self._highest - _USER_DEFINED_PENALTY + so_far
                else:
                    total = _float32(self._scores[piece] + so_far)
                target = best[end]
                if target is None or total > target[0]:
                    best[end] = (_float32(total), start, True)
            if not has_single:
                total, target = _float32(self._unknown_score + so_far), best[start + 1]
                if target is None or total > target[0]:
                    best[start + 1] = (total, start, False)
        pieces = []
        end = n
        while end > 0:
            _, start, known = best[end]  # type: ignore[misc]
            pieces.append((text[start:end], known))
            end = start
        return pieces[::-1]

    def _bpe(self, text: str) -> list[tuple[str, bool]]:
        """Merge the pair of the highest score, the leftmost of equals, until no pair is a piece."""
        symbols, frozen = self._symbols(text)
        before, after = list(range(-1, len(symbols) - 1)), [*range(1, len(symbols)), -1]
        merged: dict[str, tuple[str, str]] = {}
        queue: list[tuple[float, int, int, int]] = []  # minus the score, left, right, length of the merged piece

        def consider(left: int, right: int) -> None:
            if left < 0 or right < 0 or frozen[left] or frozen[right]:
                return
            piece = symbols[left] + symbols[right]
            if piece in self._scores:
                heapq.heappush(queue, (-self._scores[piece], left, right, len(piece)))
                if piece in self._unused:
                    merged[piece] = symbols[left], symbols[right]

        for left in range(len(symbols) - 1):
            consider(left, left + 1)
        while queue:
            _, left, right, length = heapq.heappop(queue)
            if not symbols[left] or not symbols[right] or len(symbols[left]) + len(symbols[right]) != length:
                continue  # one of the two was merged with another
            symbols[left] += symbols[right]
            symbols[right] = ""
            after[left] = after[right]
            if after[right] >= 0:
                before[after[right]] = left
            consider(before[left], left)
            consider(left, after[left])
        return [(piece, piece in self._scores) for symbol in symbols if symbol for piece in _unmerged(symbol, merged)]

    def _symbols(self, text: str) -> tuple[list[str], list[bool]]:
        """The characters of a text, and user-defined pieces, which are never merged."""
        symbols, frozen, position = [], [], 0
        while position < len(text):
            piece = _longest_match(self._frozen, text, position)
            symbols.append(piece or text[position])
            frozen.append(bool(piece))
            position += len(symbols[-1])
        return symbols, frozen


@final
class Rules:
    """Rules of normalization, text -> replacement, as the library compiles them; the longest text that matches counts.

    They are the size of a trie in bytes, the trie, and the replacements in UTF-8, each of which ends with a zero byte.
    The trie is a double array (Darts-clone) over the bytes of the texts: the children of a node begin at the exclusive
    or of its index and its offset; that of a byte is at the exclusive or of this and the byte, and has the byte as its
    label. Every index is checked before it is used.
    """

    def __init__(self, compiled: bytes) -> None:
        """Raises RulesError for what is not valid."""
        size = int.from_bytes(compiled[:4], "little")
        if size % 4 or not 4 <= size < len(compiled) - 4 or compiled[-1]:
            raise RulesError("the rules of the SentencePiece model are not valid", f"{len(compiled)} bytes")
        self._units = struct.unpack(f"<{size // 4}I", compiled[4 : 4 + size])
        self._replacements: dict[int, str] = {}
        start = 0
        for replacement in compiled[4 + size : -1].split(b"\0"):
            try:
                self._replacements[start] = replacement.decode()
            except UnicodeDecodeError:
                raise RulesError("a rule of the SentencePiece model is not UTF-8", repr(replacement[:40])) from None
            start += len(replacement) + 1
        self._unchanged: set[str] = set()  # characters that no rule begins with

    @classmethod
    def read(cls, encoded: str) -> Rules | None:
        """Return the rules of a text in base64; None for the empty one. Raises RulesError for what is not valid."""
        if not encoded:
            return None
        try:
            compiled = base64.b64decode(encoded, validate=True)
        except ValueError as error:
            raise RulesError("the rules of the SentencePiece model are not base64", str(error)) from None
        return cls(compiled)

    def match(self, text: str, start: int) -> tuple[str, int]:
        """Return the replacement of what the text has at `start`, and its length; without a rule one character."""
        character = text[start]
        if character in self._unchanged:
            return character, 1
        units = self._units
        found, length, index = character, 1, self._first_child(0)
        for end in range(start, len(text)):
            for byte in text[end].encode():
                index ^= byte
                if not 0 <= index < len(units) or units[index] & 0x800000FF != byte:
                    if end == start:
                        self._unchanged.add(character)
                    return found, length
                has_value = units[index] >> 8 & 1
                index = self._first_child(index)
            if has_value and 0 <= index < len(units):
                replacement = self._replacements.get(units[index] & 0x7FFFFFFF)
                if replacement is None:
                    raise RulesError("a rule of the SentencePiece model has no replacement")
                found, length = replacement, end + 1 - start
        return found, length

    def _first_child(self, index: int) -> int:
        unit: int = self._units[index]
        return index ^ unit >> 10 << ((unit & 512) >> 6)


def _unmerged(piece: str, merged: dict[str, tuple[str, str]]) -> list[str]:
    """A piece, or where it is unused, the pieces that it was merged from."""
    if piece not in merged:
        return [piece]
    left, right = merged[piece]
    return [*_unmerged(left, merged), *_unmerged(right, merged)]


def _trie(words: Iterable[str]) -> dict[str, bool]:
    """Return every beginning of the words: True for a whole word."""
    words = list(words)
    trie = {word[:end]: False for word in words for end in range(1, len(word))}
    return trie | dict.fromkeys(words, True)


def _longest_match(trie: dict[str, bool], text: str, start: int) -> str:
    """Return the longest word of the trie that the text has at `start`, or ""."""
    found = ""
    for end in range(start + 1, len(text) + 1 if trie else 0):
        is_word = trie.get(text[start:end])
        if is_word is None:
            break
        if is_word:
            found = text[start:end]
    return found


def _float32(number: float) -> float:
    return _SINGLE.unpack(_SINGLE.pack(number))[0]  # type: ignore[no-any-return]


_SINGLE = struct.Struct("<f")
