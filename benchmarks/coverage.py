"""Sets of answers (`translate --coverage 0.9`): how many hold the right answer, in 20 random splits of a table.

    python -m benchmarks.coverage MODEL TABLE [--sizes 450,1000]

The rows were not trained on. Each split calibrates on N of them and tests on N others; a row is a source.
"""

from __future__ import annotations

import argparse
import math
import statistics

import numpy as np

from glassformer import Translator
from glassformer.data.columns import trained_columns
from glassformer.data.tables import read_table
from glassformer.inference.confidence import all_of_the_beam, distances
from glassformer.inference.metrics import exact_matches, group_by_source
from glassformer.paper.settings import DataSettings

COVERAGE, SPLITS = 0.9, 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("table")
    parser.add_argument("--sizes", default="450,1000")
    given = parser.parse_args()
    translator = Translator.load(given.model, device="cpu")
    columns = trained_columns(translator.inputs, translator.model_file.data.columns)
    items = group_by_source(read_table(given.table, DataSettings(**columns)).pairs)
    search = all_of_the_beam(translator.settings.decoding)
    found = []  # the distance of the right answer of each row
    for item, best in zip(items, translator.translate([item.source for item in items], decoding=search), strict=True):
        answers = (best, *best.alternatives)
        right = np.flatnonzero(exact_matches([one.text for one in answers], [item.references] * len(answers)))
        found.append(distances([one.score for one in answers])[right[0]] if len(right) else math.inf)
    print(f"{len(items):,} sources, the right answer is in the beam of {np.isfinite(found).mean():.1%}")
    print("| rows on either side | mean | lowest to highest | splits of 88 to 92 % |\n|---:|---:|---|---:|")
    for n in map(int, given.sizes.split(",")):
        held = []
        for seed in range(SPLITS):
            rows = np.array(found)[np.random.default_rng(seed).permutation(len(found))]
            limit = np.sort(rows[:n])[math.ceil((n + 1) * COVERAGE) - 1]
            held.append(100 * float((rows[n : 2 * n] <= limit).mean()))
        near = sum(88 <= share <= 92 for share in held)
        print(f"| {n:,} | {statistics.fmean(held):.1f} % | {min(held):.1f} to {max(held):.1f} % | {near} of {SPLITS} |")


if __name__ == "__main__":
    main()
