"""Suspect rows: of the dates, 5 % of the targets are spoiled, and the first suspects should be these.

The table is trained by the default command (minutes); a trained one is used again.
"""

from __future__ import annotations

import random

from benchmarks.report import options
from benchmarks.tasks import split_dates
from benchmarks.trained import CACHE, trained
from glassformer import Translator
from glassformer.data.pairs import Pair
from glassformer.evaluation.suspects import suspects

PART = 0.05


def spoil(target: str, others: list[str], generator: random.Random) -> str:
    """Return another target: one of another row, or this one with a wrong digit or two letters exchanged."""
    kind, found = generator.randrange(3), target
    while found == target:
        letters, i = list(target), generator.randrange(len(target) - 1)
        if kind == 0:
            found = generator.choice(others)
        elif kind == 1 and letters[i].isdigit():
            found = "".join([*letters[:i], generator.choice("0123456789"), *letters[i + 1 :]])
        elif kind == 2:
            letters[i : i + 2] = reversed(letters[i : i + 2])
            found = "".join(letters)
    return found


def main(program: str) -> None:
    options(program, __doc__).parse_args()
    pairs, generator = split_dates()[0], random.Random(1)
    spoiled = set(generator.sample(range(len(pairs)), round(PART * len(pairs))))
    targets = [target for _, target in pairs]
    rows = [Pair(s, spoil(t, targets, generator) if i in spoiled else t) for i, (s, t) in enumerate(pairs)]
    out = trained(CACHE / "dates-spoiled", ((row.source, row.target) for row in rows))
    found = [one.index in spoiled for one in suspects(Translator.load(out), rows)]
    print(f"{len(rows):,} rows, {len(spoiled):,} of them spoiled; {len(found):,} suspects")
    for first in (100, len(spoiled)):
        n = sum(found[:first])
        print(f"of the first {min(first, len(found)):,} suspects, {n:,} are spoiled ({100 * n / first:.1f} %)")
