"""Memory and time of a table that is larger than memory: reading, tokenizing and 100 steps.

Each table is generated (two words on either side, about 40 bytes a row, every 50th row with quotes). Memory is the
largest sum of the anonymous memory of the process and its children, looked at ten times a second. The model is small
and the same for each table, so that the rows are what differs. CPU seconds are those of all processes: on a busy
machine they say more than wall seconds.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import resource
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.report import options, rows_of, signature

SHAPE = {"d_model": 64, "d_ff": 128, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2}
STEPS = 100
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il", "on", "é")]
BLOCK = 100_000


def generate(path: Path, n_rows: int) -> None:
    """Write a table of `n_rows` pairs; a shorter table is the beginning of a longer one."""
    generator = np.random.default_rng(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("source,target\n")
        for start in range(0, n_rows, BLOCK):
            rows = np.array(SYLLABLES)[generator.integers(0, len(SYLLABLES), (BLOCK, 8))][: n_rows - start].tolist()
            for row, (a, b, c, d, e, f, g, h) in enumerate(rows):
                source = f"{a}{b}{c} {d}{e}{f}{g}"
                file.write(
                    f'"{source}, ""{h}""",{g}{f}{e}{d} {c}{b}{a}\n'
                    if row % 50 == 0
                    else f"{source},{g}{f}{e}{d} {c}{b}{a}{h}\n"
                )


def train(connection: Connection, path: str, out: str, kind: str) -> None:
    """Plan and run a training, and send what it took: the program of the process that is measured."""
    from glassformer.planning.plan import plan
    from glassformer.training.loop import Run

    settings: dict[str, Any] = {f"model.{name}": value for name, value in SHAPE.items()}
    settings |= {"training.steps": STEPS, "training.batch_tokens": 512, "training.validate_every": STEPS}
    settings |= {f"tokens.{side}.kind": kind for side in ("source", "target")}
    if kind == "subwords":
        settings |= {f"tokens.{side}.vocabulary_size": 8000 for side in ("source", "target")}
    before = _cpu_seconds(), time.perf_counter()
    planned = plan(path, out, overrides=settings | {"data.max_valid_rows": 100, "training.metric": "loss"})
    ready = _cpu_seconds(), time.perf_counter()
    for _ in Run(planned, "cpu"):
        pass
    done = time.perf_counter()
    connection.send({"wall": ready[1] - before[1], "cpu": ready[0] - before[0], "steps": done - ready[1]})


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def anonymous(process: psutil.Process) -> int:
    """The memory of a process and its children that is not that of files, in bytes."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            memory = each.memory_info()
            total += memory.rss - memory.shared
    return total


def measure(path: Path, out: Path, kind: str) -> dict[str, Any]:
    """Train in a process of its own."""
    context = multiprocessing.get_context("spawn")
    connection, theirs = context.Pipe()
    process = context.Process(target=train, args=(theirs, str(path), str(out), kind))
    process.start()
    theirs.close()  # so that the end of the process is seen
    largest = 0
    while not connection.poll(0.1):
        largest = max(largest, anonymous(psutil.Process(process.pid)))
    figures: dict[str, Any] = connection.recv()
    process.join()
    return figures | {"memory": largest, "load": os.getloadavg()[0]}


COLUMNS = ("rows", "MB", "start, s", "rows/s", "CPU µs a row", f"{STEPS} steps, s", "memory, MB", "load")


def main(program: str) -> None:
    parser = options(program, __doc__)
    parser.add_argument("--rows", default="1000000,3000000,10000000")
    parser.add_argument("--kind", default="characters")
    given = parser.parse_args()
    rows = []
    for n_rows in map(int, given.rows.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            generate(path, n_rows)
            found = measure(path, Path(folder) / "run", given.kind)
            cells = (
                *(f"{n_rows:,}", f"{path.stat().st_size / 1e6:.0f}", f"{found['wall']:.1f}"),
                *(f"{n_rows / found['wall']:,.0f}", f"{1e6 * found['cpu'] / n_rows:.1f}", f"{found['steps']:.0f}"),
                *(f"{found['memory'] / 1e6:.0f}", f"{found['load']:.1f}"),
            )
            rows.append(cells)
    print(rows_of(COLUMNS, rows), signature(1), sep="")
