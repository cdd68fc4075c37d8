"""How our own cost grows: a training step against length, batch, width and depth; a whole table against its rows."""

from __future__ import annotations

import csv
import dataclasses
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.jobs import timed
from benchmarks.ours import start_run
from benchmarks.tasks import SHAPE_D, Task, settings_of, task_d
from benchmarks.turns import Act, Measured
from glassformer.data.corpus import Corpus, Sequences
from glassformer.data.datasets import dates
from glassformer.data.tables import read_table
from glassformer.paper.settings import DataSettings
from glassformer.training.prepare import prepare

BATCH_TOKENS = 4_096

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)
PAPER_SITES = {"attention_dropout": 0.0, "feed_forward_dropout": 0.0}
POINTS: dict[str, dict[int, dict[str, Any]]] = {
    "length": {length: {"length": length} for length in LENGTHS},
    "length, dropout as in the paper": {length: {"length": length} | PAPER_SITES for length in LENGTHS},
    "batch": {pairs: {"length": 16, "pairs": pairs} for pairs in (1, 4, 16, 64, 256)},
    "width": {width: {"length": 16, "d_model": width, "d_ff": 4 * width} for width in (64, 128, 256, 512)},
    "depth": {depth: {"length": 16, "n_encoder_layers": depth, "n_decoder_layers": depth} for depth in (1, 2, 4, 8)},
}
"""Curve -> where it is measured -> what differs there from task D with `BATCH_TOKENS` tokens a side."""

ROWS = (1_000, 10_000, 100_000)


@dataclass(frozen=True)
class StepCurve:
    """A step of training at each point of a curve."""

    name: str
    device: str

    def start(self) -> tuple[dict[str, Any], Act]:
        base = task_d()
        steps: dict[str, Callable[[], object]] = {}
        facts: dict[str, Any] = {}
        for value, change in POINTS[self.name].items():
            task = reshape(base, **change)
            rows = np.arange(len(task.corpus))
            run = start_run(task.prepared, self.device)
            steps[str(value)] = lambda run=run, rows=rows: run.update([rows])  # type: ignore[misc]
            facts[str(value)] = {"flops": task.flops(rows), "tokens": task.n_target_tokens(rows)}
        for step in steps.values():
            step()

        def act(_round: int) -> Measured:
            return {value: timed(self.device, step) for value, step in steps.items()}

        return facts, act


def reshape(base: Task, length: int, pairs: int | None = None, **shape: Any) -> Task:
    """The task with one batch of drawn pairs, all of so many tokens a side, and another shape of model."""
    n_pairs = pairs or max(1, BATCH_TOKENS // length)
    chance = np.random.default_rng(1)
    sides = [chance.integers(4, base.vocabulary_size, (n_pairs, framed)).tolist() for framed in (length, length + 1)]
    settings = settings_of("characters", SHAPE_D | shape, base.model.dropout)
    corpus = Corpus(*map(Sequences.pack, sides))
    return dataclasses.replace(base, prepared=dataclasses.replace(base.prepared, settings=settings, train=corpus))


@dataclass(frozen=True)
class RowsCurve:
    """Preparing a CSV table of so many dates, and one epoch over it, with a model so small that the data counts."""

    device: str

    def start(self) -> tuple[dict[str, Any], Act]:
        shape = {"d_model": 64, "d_ff": 128, "n_heads": 4, "n_encoder_layers": 1, "n_decoder_layers": 1}
        settings = settings_of("characters", shape, 0.1, batch_tokens=BATCH_TOKENS)

        def act(_round: int) -> Measured:
            return {name: seconds for n_rows in ROWS for name, seconds in through(n_rows)}

        def through(n_rows: int) -> Iterator[tuple[str, float]]:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "dates.csv"
                with path.open("w", encoding="utf-8", newline="") as stream:
                    csv.writer(stream).writerows([("source", "target"), *dates(n_rows, seed=1)])
                begun = time.perf_counter()
                prepared = prepare(read_table(path, DataSettings()), settings)
                yield f"{n_rows} preparation", time.perf_counter() - begun
            run = start_run(prepared, self.device)
            batches = Task("rows", prepared, None).epoch(0)
            yield f"{n_rows} epoch", timed(self.device, lambda: [run.update([rows]) for rows in batches])

        return {}, act
