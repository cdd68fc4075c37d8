"""Zero configuration against what it chooses from: exact match on test rows of made tables, with seconds.

Each table is trained by the default command, and by each candidate of its race alone, with the settings that the race
would have given it. `--kinds` are those of `benchmarks/tables.py`; those of KEPT_ASIDE chose no rule. A standard error
is that of the default on its test rows.
"""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import options, rows_of, signature
from benchmarks.tables import MAKERS, table
from glassformer.data.pairs import Pair
from glassformer.evaluation.metrics import exact_matches
from glassformer.planning.plan import plan
from glassformer.training.loop import Run
from glassformer.training.train import train

OUT = Path(__file__).parent / ".cache" / "defaults"
N_VALID = N_TEST = 500


def measure(run: Run, test: Sequence[Pair]) -> tuple[float, float]:
    """Train, and return the fraction of test answers that are right, and the seconds of the training."""
    begun = time.monotonic()
    translator = run.finish()
    seconds = time.monotonic() - begun
    answers = [answer.text for answer in translator.translate([source for source, _ in test])]
    return float(exact_matches(answers, [target for _, target in test]).mean()), seconds


def compare(kind: str, n_rows: int, out: Path) -> list[str]:
    """Return a row: the default, its standard error, and the best of its candidates alone."""
    rows = table(kind, n_rows + N_VALID + N_TEST)
    pairs, valid, test = rows[:n_rows], rows[n_rows : n_rows + N_VALID], rows[-N_TEST:]
    shutil.rmtree(out, ignore_errors=True)
    right, seconds = measure(train(pairs, out=out / "default", valid=valid), test)
    error = math.sqrt(max(right * (1 - right), 1 / N_TEST) / N_TEST)
    cells = [f"{kind}, {n_rows:,}", f"{100 * right:.1f} ± {100 * error:.1f}", f"{seconds:.0f}"]
    for candidate, planned in plan(pairs, out / "plan", valid=valid).candidates:
        alone, seconds = measure(train(pairs, planned.settings, out / str(candidate), valid=valid), test)
        cells.append(f"{candidate}: {100 * alone:.1f} ({seconds:.0f} s)")
    return cells


def main(program: str) -> None:
    parser = options(program, __doc__)
    parser.add_argument("--kinds", default=",".join(MAKERS))
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    columns = ["table", "default, %", "s", "candidates alone", ""]
    rows = []
    for kind in given.kinds.split(","):
        rows.append(compare(kind, given.rows, given.out / kind))
        print(" | ".join(rows[-1]), flush=True)
    print(rows_of(columns, rows), signature(1), sep="")
