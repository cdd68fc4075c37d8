"""Splits that cannot leak: rows of one source are never on two sides, and what is on both is counted.

    hold_out(pairs, 0.1, 1000, seed)     the rows to train on, and those to validate on
    TrainedSources                       the sources that a model was trained on, as hashes: 8 bytes for each

A source is compared in NFC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from glassformer.data.tables import Pair

Hashes = NDArray[np.uint64]


def text_hash(text: str) -> int:
    """Return a hash of 64 bits of a text in NFC: the same on every machine and in every version."""
    text = text if text.isascii() else normalize("NFC", text)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hold_out(pairs: Sequence[Pair], fraction: float, max_rows: int, seed: int) -> tuple[list[int], list[int]]:
    """Return the indices of the pairs to train on, and of those to validate on.

    All rows of one source (in NFC) are on the same side, so that no validation source was trained on. Random sources
    are held out as long as their rows fit into `fraction` of all rows (at most `max_rows`, at least one). If none fits,
    the source with the fewest rows is held out. With a single source, or a fraction of 0, no row is held out.
    """
    indices_of: dict[str, list[int]] = {}
    for index, pair in enumerate(pairs):
        indices_of.setdefault(normalize("NFC", pair.source), []).append(index)
    groups = list(indices_of.values())
    if fraction == 0 or len(groups) < 2:
        return list(range(len(pairs))), []
    limit = min(max_rows, max(1, round(fraction * len(pairs))), len(pairs) - 1)
    held: set[int] = set()
    for group in np.random.default_rng(seed).permutation(len(groups)):
        if len(held) + len(groups[group]) <= limit:
            held.update(groups[group])
    smallest = min(groups, key=len)
    held = held or set(smallest)
    return [index for index in range(len(pairs)) if index not in held], sorted(held)
