"""Memory and time of a table that is larger than memory: reading, tokenizing and 100 steps.

    python -m benchmarks.large [--rows 1000000,3000000,10000000] [--kind characters]

Each table is generated (two words on either side, about 40 bytes a row, every 50th row with quotes). Memory is the
largest sum of the anonymous memory of the process and its children (`Anonymous` in /proc/PID/smaps_rollup), looked at
ten times a second. The model is small and the same for each table, so that the rows are what differs. CPU seconds are
those of all processes: on a busy machine they say more than wall seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

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


def train(path: str, out: str, kind: str) -> None:
    """Plan and run a training, and print what it took: the program of the process that is measured."""
    from glassformer.before.plan import plan

    settings: dict[str, Any] = {f"model.{name}": value for name, value in SHAPE.items()}
    settings |= {"training.steps": STEPS, "training.batch_tokens": 512, "training.validate_every": STEPS}
    settings |= {f"tokens.{side}.kind": kind for side in ("source", "target")}
    if kind == "subwords":
        settings |= {f"tokens.{side}.vocabulary_size": 8000 for side in ("source", "target")}
    before = _cpu_seconds(), time.perf_counter()
    planned = plan(path, out, overrides=settings | {"data.max_valid_rows": 100, "training.metric": "loss"})
    ready = _cpu_seconds(), time.perf_counter()
    for _ in planned.run("cpu"):
        pass
    done = time.perf_counter()
    rows = planned.table.ledger.read
    figures = {"rows": rows, "wall": ready[1] - before[1], "cpu": ready[0] - before[0], "steps": done - ready[1]}
    print(json.dumps(figures))


def _cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


class Memory(threading.Thread):
    """The largest anonymous memory of a process and its children, in bytes."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.largest, self.ended = pid, 0, threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.1):
            self.largest = max(self.largest, sum(map(anonymous, [self.pid, *children(self.pid)])))


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, path.read_text().split())
    return found


def anonymous(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return 1024 * int(line.split()[1])
    return 0


def measure(path: Path, out: Path, kind: str) -> dict[str, Any]:
    """Train in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.large", "--train", str(path), "--out", str(out), "--kind", kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    memory = Memory(process.pid)
    memory.start()
    output, _ = process.communicate()
    memory.ended.set()
    if process.returncode:
        raise SystemExit(f"the training failed with exit code {process.returncode}")
    return json.loads(output.splitlines()[-1]) | {"memory": memory.largest, "load": os.getloadavg()[0]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1000000,3000000,10000000")
    parser.add_argument("--kind", default="characters")
    parser.add_argument("--train")
    parser.add_argument("--out")
    given = parser.parse_args()
    if given.train:
        train(given.train, given.out, given.kind)
        return
    print("| rows | MB | start, s | rows/s | CPU µs a row | 100 steps, s | memory, MB | load |")
    print("|---|---|---|---|---|---|---|---|")
    measured = []
    for n_rows in map(int, given.rows.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"
            generate(path, n_rows)
            first = measure(path, Path(folder) / "run", given.kind)
            cells = (
                *(f"{n_rows:,}", f"{path.stat().st_size / 1e6:.0f}", f"{first['wall']:.1f}"),
                *(f"{n_rows / first['wall']:,.0f}", f"{1e6 * first['cpu'] / n_rows:.1f}", f"{first['steps']:.0f}"),
                *(f"{first['memory'] / 1e6:.0f}", f"{first['load']:.1f}"),
            )
        measured.append((n_rows, first["memory"]))
        print(f"| {' | '.join(cells)} |", flush=True)
    if len(measured) > 1:
        (few, less), (many, more) = measured[0], measured[-1]
        print(f"\n{(more - less) / (many - few):.1f} bytes of anonymous memory for each further row")


if __name__ == "__main__":
    main()
