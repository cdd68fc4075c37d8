"""Inflection by zero configuration: five languages of SIGMORPHON 2020 (task 0), some seeds, and a table of them.

DATA has LANGUAGE_train.tsv, LANGUAGE_dev.tsv and LANGUAGE_test.tsv: lemma, form and tags without a header. Each run is
the default command with `--feature` on the tags; further options, such as `--members 2`, are those of `train`. A run
that is complete is kept, so that the command can be repeated after a stop; its test rows are scored one by one
(`--no-group`), as the shared task does.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import options, rows_of, signature

LANGUAGES = ("mlt", "orm", "syc", "kan", "tel")
OUT = Path(__file__).parent / ".cache" / "inflection"
COLUMNS = ("--source", "0", "--target", "1", "--feature", "2", "--no-header")


class Score(NamedTuple):
    """Exact match on the test rows, of one run, in %, and the minutes that the command took."""

    exact_match: float
    minutes: float


def train(data: Path, language: str, seed: int, out: Path, further: Sequence[str] = ()) -> Score:
    """Train one language by zero configuration, unless that is done, and score its test rows."""
    table, valid, test = (str(data / f"{language}_{part}.tsv") for part in ("train", "dev", "test"))
    run = out / f"{language}-{seed}"
    scores = run.with_suffix(".json")
    if not scores.exists():
        out.mkdir(parents=True, exist_ok=True)
        fresh = ("--valid", valid, "--test", test, "--seed", str(seed), "--out", str(run), "--overwrite")
        begun = time.monotonic()
        with run.with_suffix(".log").open("w", encoding="utf-8") as log:
            _glassformer("train", table, *COLUMNS, *fresh, *further, stdout=log, stderr=log)
        minutes = (time.monotonic() - begun) / 60
        report = json.loads(_glassformer("evaluate", str(run), test, "--no-group", "--json", stdout=subprocess.PIPE))
        scores.write_text(json.dumps(report | {"minutes": minutes}), encoding="utf-8")
    report = json.loads(scores.read_text(encoding="utf-8"))
    return Score(100 * report["metrics"]["exact_match"]["value"], report["minutes"])


def _glassformer(*words: str, **streams: object) -> str:
    command = [sys.executable, "-m", "glassformer", *words]
    return subprocess.run(command, check=True, text=True, **streams).stdout  # type: ignore[call-overload,no-any-return]


def table_of(scores: Mapping[tuple[str, int], Score], languages: Sequence[str], seeds: Sequence[int]) -> str:
    """A row for each seed and one for their mean; the last column is the mean of the languages."""
    rows = [[scores[language, seed].exact_match for language in languages] for seed in seeds]
    rows = [[*row, statistics.mean(row)] for row in rows]
    rows.append([statistics.mean(column) for column in zip(*rows, strict=True)])
    names = [*(f"seed {seed}" for seed in seeds), "mean of the seeds"]
    lines = [[name, *(f"{value:.2f}" for value in row)] for name, row in zip(names, rows, strict=True)]
    minutes = [[scores[language, seed].minutes for seed in seeds] for language in languages]
    lines.append(["minutes of training", *(f"{min(each):.1f} to {max(each):.1f}" for each in minutes), ""])
    return rows_of(["exact match on test rows, %", *languages, "mean"], lines)


def main(program: str) -> None:
    parser = options(program, __doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--languages", default=",".join(LANGUAGES))
    parser.add_argument("--seeds", default="1,2,11,12,21,22")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--at-once", type=int, default=1, help="runs at the same time; set OMP_NUM_THREADS=1 for two")
    given, further = parser.parse_known_args()
    languages, seeds = given.languages.split(","), [int(seed) for seed in given.seeds.split(",")]
    runs = [(language, seed) for seed, language in product(seeds, languages)]
    with ThreadPoolExecutor(given.at_once) as pool:
        scores = dict(zip(runs, pool.map(lambda run: train(given.data, *run, given.out, further), runs), strict=True))
    print(table_of(scores, languages, seeds), signature(len(seeds)), sep="")
