"""Parts of a batch on cores of their own (training.batch_parts), against threads that share every matrix product.

    python -m benchmarks.parts [--tasks D,M] [--precisions bfloat16,float32] [--rounds N]

Both train the same model on the same batches, in turns; a ratio above 1 says how many times faster parts are.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from itertools import islice

import torch

from benchmarks.ours import start_run
from benchmarks.report import rows_of
from benchmarks.tasks import TASKS

BATCHES = 4


def measure(task_name: str, precision: str, rounds: int) -> list[str]:
    """A row of the table: milliseconds of an update with one part and with one for each core, and their ratio."""
    task, cores = TASKS[task_name](), torch.get_num_threads()
    batches = list(islice(task.batches(), BATCHES))
    runs = {parts: start_run(task.prepared, "cpu", precision=precision, batch_parts=parts) for parts in (1, cores)}
    seconds: dict[int, list[float]] = {parts: [] for parts in runs}
    for number in range(1 + rounds):  # the first prepares the matrix products
        for parts, run in runs.items():
            begun = time.perf_counter()
            for rows in batches:
                run.update([rows])
            if number:
                seconds[parts].append((time.perf_counter() - begun) / BATCHES)
    ratios = [one / own for one, own in zip(seconds[1], seconds[cores], strict=True)]
    medians = [f"{1000 * statistics.median(each):.0f}" for each in seconds.values()]
    return [task_name, precision, *medians, f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parts", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", default="D,M")
    parser.add_argument("--precisions", default="bfloat16,float32")
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args()
    cores = torch.get_num_threads()
    found = [
        measure(task, precision, given.rounds)
        for task in given.tasks.split(",")
        for precision in given.precisions.split(",")
    ]
    print(rows_of(["task", "precision", "one part, ms", f"{cores} parts, ms", "times as fast"], found), end="")
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
