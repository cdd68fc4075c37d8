"""The first string of tokens that a Bloom filter does not have (`text.seen`). Exports have this file too."""

from __future__ import annotations

from collections.abc import Sequence

PROBES, FACTOR = 4, 0x9E3779B1


def first_new(ids: Sequence[int], n: int, bits: bytes) -> Sequence[int] | None:
    """Return the first string of n tokens, or the whole of a shorter text, that the filter does not have."""
    strings = (ids[start : start + n] for start in range(max(1, len(ids) - n + 1)))
    return next((string for string in strings if not _has(bits, string)), None)


def _has(bits: bytes, string: Sequence[int]) -> bool:
    hashed = 0
    for token in string:
        hashed = (hashed ^ (token + 1)) * FACTOR & 0xFFFFFFFF
        hashed ^= hashed >> 15
    for probe in range(PROBES):
        place = (hashed + probe * (hashed >> 17 | 1)) & (8 * len(bits) - 1)
        if not bits[place >> 3] >> (place & 7) & 1:
            return False
    return True
