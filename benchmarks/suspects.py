"""Suspect rows: of the dates, 5 % of the targets are spoiled, and the first suspects should be these.

    python -m benchmarks.suspects [RUN]

RUN is where the table is written and trained by the default command (minutes); a trained one is used again.
"""

from __future__ import annotations

import csv
import random
import subprocess
import sys
from pathlib import Path

from benchmarks.tasks import split_dates
from benchmarks.trained import CACHE
from glassformer import Translator
from glassformer.data.pairs import Pair
from glassformer.inference.suspects import suspects

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


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else CACHE / "dates-spoiled"
    pairs, generator = split_dates()[0], random.Random(1)
    spoiled = set(generator.sample(range(len(pairs)), round(PART * len(pairs))))
    targets = [target for _, target in pairs]
    rows = [Pair(s, spoil(t, targets, generator) if i in spoiled else t) for i, (s, t) in enumerate(pairs)]
    if not (out / "README.md").exists():  # the last thing that a run writes
        table = out.with_suffix(".csv")
        table.parent.mkdir(parents=True, exist_ok=True)
        with table.open("w", encoding="utf-8", newline="") as stream:
            csv.writer(stream).writerows([("source", "target"), *rows])
        command = (sys.executable, "-m", "glassformer", "train", table, "--out", out, "--overwrite")
        subprocess.run(list(map(str, command)), check=True, stdout=sys.stderr)
    found = [one.index in spoiled for one in suspects(Translator.load(out), rows)]
    print(f"{len(rows):,} rows, {len(spoiled):,} of them spoiled; {len(found):,} suspects")
    for first in (100, len(spoiled)):
        n = sum(found[:first])
        print(f"of the first {min(first, len(found)):,} suspects, {n:,} are spoiled ({100 * n / first:.1f} %)")


if __name__ == "__main__":
    main()
