"""What we do alone and next to one busy program: milliseconds of updates, a translation, an evaluation, an explanation.

    python -m benchmarks.busy [--rounds N]

In turns. On two cores, two programs that share them fairly leave us two thirds of the speed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import cycle, islice
from pathlib import Path

import torch

from benchmarks.report import rows_of
from benchmarks.tasks import split_dates
from benchmarks.trained import default_dates
from glassformer.before.plan import plan
from glassformer.data.batches import batches_of_epoch
from glassformer.glassbox.trace import explain
from glassformer.inference.evaluation import evaluate
from glassformer.inference.translator import Translator

UPDATES, TEXTS = 12, 200
WARM_UP = 3


@contextmanager
def busy_program() -> Iterator[None]:
    """Another program, which only counts."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        try:
            yield
        finally:
            other.kill()


def works(out: Path) -> dict[str, Callable[[], object]]:
    """What is measured, by the name of its verb."""
    pairs, test = split_dates()
    run = plan(pairs, out / "run").run("cpu")
    batches = cycle(batches_of_epoch(run.prepared.train, run.settings.training, 0))
    translator, texts = Translator.load(default_dates(), device="cpu"), [source for source, _ in test[:TEXTS]]
    return {
        f"train: {UPDATES} updates of dates": lambda: [run.update([each]) for each in islice(batches, UPDATES)],
        f"translate: {TEXTS} dates": lambda: translator.translate(texts),
        "serve: one date": lambda: translator.translate(texts[:1]),
        f"evaluate: {TEXTS} dates": lambda: evaluate(translator, test[:TEXTS]),
        "explain: one date": lambda: explain(translator, texts[0]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.busy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for name, work in works(Path(folder)).items():
            for _ in range(WARM_UP):
                work()
            seconds: dict[bool, list[float]] = {False: [], True: []}
            for number in range(2 * rounds):
                is_busy = number % 2 == 1
                with busy_program() if is_busy else nullcontext():
                    begun = time.perf_counter()
                    work()
                    seconds[is_busy].append(time.perf_counter() - begun)
            alone, busy = (1000 * statistics.median(each) for each in seconds.values())
            found.append([name, f"{alone:,.0f}", f"{busy:,.0f}", f"{alone / busy:.2f}"])
    print(rows_of(["what", "alone, ms", "next to a busy program, ms", "fraction of the speed"], found), end="")
    print(f"{torch.get_num_threads()} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
