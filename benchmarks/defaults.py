"""Zero configuration on many tables: exact match on test rows in %, its standard error, steps and seconds.

A table is a kind of `benchmarks/tables.py` and its number of rows (`products:3000`; KEPT_ASIDE chose no rule), or one
of `--data` (`inflection/mlt`, `g2p/fre`): NAME_train.tsv, NAME_dev.tsv and NAME_test.tsv, without a header. It is
trained by the default command for each seed, and with `--alone` by each candidate of its race with the settings that
the race would have given it; the winner is what the default became, and is not trained again. A test row is scored by
itself. A run that is complete is kept, so that the command can be repeated after a stop.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.report import options, rows_of, signature
from benchmarks.tables import MAKERS, table
from glassformer import Translator
from glassformer.evaluation.evaluate import evaluate
from glassformer.planning.plan import plan
from glassformer.training.train import train

OUT = Path(__file__).parent / ".cache" / "defaults"
N_VALID = N_TEST = 500
NO_HEADER = {"data.header": "no"}
COLUMNS = {"inflection": NO_HEADER | {"data.source": 0, "data.target": 1, "data.features": ("2",)}, "g2p": NO_HEADER}


class Score(NamedTuple):
    """Exact match on the test rows in %, the number of rows, steps and seconds of the training."""

    right: float
    rows: int
    steps: int
    seconds: float

    def __str__(self) -> str:
        error = 100 * math.sqrt(max(self.right / 100 * (1 - self.right / 100), 1 / self.rows) / self.rows)
        return f"{self.right:.1f} ± {error:.1f} ({self.steps:,}; {self.seconds:.0f} s)"


def files(name: str, data: Path | None, out: Path) -> tuple[list[Path], dict[str, Any]]:
    """Return the rows to train on, held-out rows and test rows of a table, and how their columns are read."""
    folder, _, language = name.partition("/")
    if language:
        if data is None:
            raise SystemExit(f"{name}: where is it? --data DIRECTORY")
        return [data / folder / f"{language}_{part}.tsv" for part in ("train", "dev", "test")], COLUMNS[folder]
    kind, _, n_rows = name.partition(":")
    rows = table(kind, int(n_rows) + N_VALID + N_TEST)
    parts = {"train": rows[: int(n_rows)], "dev": rows[int(n_rows) : -N_TEST], "test": rows[-N_TEST:]}
    out.mkdir(parents=True, exist_ok=True)
    for part, pairs in parts.items():
        (out / f"{part}.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return [out / f"{part}.tsv" for part in parts], NO_HEADER


def measure(out: Path, given: list[Path], **chosen: Any) -> Score:
    """Train, unless that is done, and score the test rows."""
    kept = out.with_suffix(".json")
    if not kept.exists():
        begun = time.monotonic()
        run = train(given[0], out=out, valid=given[1], overwrite=True, **chosen)
        report = evaluate(run.finish(), given[2], group=False)  # type: ignore[union-attr]
        measured = report.metrics["exact_match"]
        score = Score(100 * measured.value, report.rows_scored, run.position.step, time.monotonic() - begun)
        kept.write_text(json.dumps(score), encoding="utf-8")
    return Score(*json.loads(kept.read_text(encoding="utf-8")))


def compare(name: str, data: Path | None, out: Path, seed: int, *, alone: bool) -> tuple[Score, list[str]]:
    """Return the score of the default, and a cell for each candidate alone."""
    given, columns = files(name, data, out)
    overrides = columns | {"training.seed": seed}
    default, cells = measure(out / f"default-{seed}", given, overrides=overrides), []
    if alone:
        became = Translator.load(out / f"default-{seed}").model_file.settings
        for candidate, planned in plan(given[0], out / "plan", valid=given[1], overrides=overrides).candidates:
            folder, settings = out / f"{candidate}-{seed}".replace(" ", "-"), planned.settings
            score = "the winner" if settings == became else measure(folder, given, settings=settings)
            cells.append(f"{candidate}: {score}")
    return default, cells


def main(program: str) -> None:
    parser = options(program, __doc__)
    parser.add_argument("tables", nargs="*", default=[f"{kind}:1000" for kind in MAKERS])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    rows, scores = [], []
    for seed in given.seeds:
        for name in given.tables:
            out = given.out / name.replace("/", "-").replace(":", "-")
            default, cells = compare(name, given.data, out, seed, alone=given.alone)
            rows.append([f"{name}, seed {seed}", str(default), *cells])
            scores.append(default.right)
            print(" | ".join(rows[-1]), flush=True)
    rows.append(["mean", f"{statistics.mean(scores):.2f}"])
    print(rows_of(["table", "default (steps; seconds)", "candidates alone", ""], rows), signature(1), sep="")
