"""Hallucinated rows: more rows to train on, with invented stems (Anastasopoulos and Neubig 2019).

    walk PST -> walked        becomes        rokt PST -> rokted

What source and target have in common is the stem, as in inflection. Its characters are replaced by others of the table,
alike on both sides; the rest of the row stays. So a model learns to copy any stem, and to change it by its features.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from unicodedata import category

from glassformer.data.pairs import Pair
from glassformer.text.inputs import UNIT_SEPARATOR

MIN_STEM = 3  # characters in a row that source and target have in common
_TRIES = 10  # for each row that is asked for


def stems(pair: Pair) -> list[tuple[int, int, int]]:
    """Return the strings that the first text of a source and its target share: starts in both, and the length."""
    text = pair.source.partition(UNIT_SEPARATOR)[0]
    blocks = SequenceMatcher(None, text, pair.target, autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks if block.size >= MIN_STEM]


def hallucinate(pairs: Sequence[Pair], n_rows: int, seed: int, without: Collection[str] = ()) -> list[Pair]:
    """Invent `n_rows` rows from rows with a stem, each drawn at random; fewer where there are no others.

    A character is replaced by one of its kind (letters by letters, marks by marks; spaces stay), drawn as often as it
    occurs in the sources, from those that occur in targets too. No source is one of `without`.
    """
    drawn = random.Random(seed)
    in_targets = set[str]().union(*(pair.target for pair in pairs))
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for pair in pairs:
        for character in pair.source.partition(UNIT_SEPARATOR)[0]:
            if character in in_targets:
                kinds[category(character)[0]][character] += 1
    others = {kind: (list(counts), list(counts.values())) for kind, counts in kinds.items()}
    usable = [(pair, found) for pair in pairs if (found := stems(pair))]
    taken, invented = set(without), list[Pair]()
    for _ in range(_TRIES * n_rows if usable else 0):
        if len(invented) == n_rows:
            break
        pair, found = drawn.choice(usable)
        text, mark, rest = pair.source.partition(UNIT_SEPARATOR)
        source, target = list(text), list(pair.target)
        for at_source, at_target, length in found:
            for i in range(length):
                new = drawn.choices(*others[category(text[at_source + i])[0]])[0]
                source[at_source + i] = target[at_target + i] = new
        one = Pair("".join(source) + mark + rest, "".join(target))
        if one.source not in taken:
            taken.add(one.source)
            invented.append(one)
    return invented
