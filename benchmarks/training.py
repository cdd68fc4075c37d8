"""Steps of training on the same batches for everybody, next to PyTorch's layers and MarianMT."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch

from benchmarks.peers import MarianTrainer, TorchTrainer
from benchmarks.report import options, ratios, rows_of, signature, spread
from benchmarks.tasks import TASKS, Rows, Task
from benchmarks.turns import Absent, Act, Measured, Record, take_turns
from glassformer.runtime.devices import find_device, has_fast_bfloat16
from glassformer.training.update import Updater, initial_model

WARM_UPDATES = 2
UNITS = {"pairs/s": 0, "target tokens/s": 0, "ms a step": 1}
"""What is measured -> the number of decimal places."""


class OurTrainer:
    """The updates of `glassformer train`."""

    def __init__(self, task: Task, precision: str, device: torch.device) -> None:
        settings = task.prepared.settings
        training = settings.training.model_copy(update={"precision": precision})
        settings, prepared = settings.model_copy(update={"training": training}), task.prepared
        self.updater = Updater(initial_model(prepared).to(device), prepared.train, settings, device)

    def update(self, rows: Rows) -> None:
        self.updater.update([rows])


PROGRAMS = {"glassformer": OurTrainer, "nn.Transformer": TorchTrainer, "MarianMT": MarianTrainer}
TRAINERS: dict[str, Callable[[Task, torch.device], Any]] = {
    f"{name}, {precision}": partial(program, precision=precision)
    for name, program in PROGRAMS.items()
    for precision in ("bfloat16", "float32")
}
"""Contender -> what trains it; `update(rows)` is one step of the optimizer on the mean loss of these rows."""


@dataclass(frozen=True)
class Training:
    """Some steps to warm up, then the next `updates` in each turn."""

    task: str
    contender: str
    updates: int
    device: str

    def start(self) -> tuple[dict[str, Any], Act]:
        device = find_device(self.device)
        if self.contender.endswith("bfloat16") and not has_fast_bfloat16(device):
            raise Absent("this processor emulates bfloat16")  # a step takes minutes
        task = TASKS[self.task]()
        trainer, batches = TRAINERS[self.contender](task, device=device), task.batches()

        def act() -> Measured:
            turn = list(islice(batches, self.updates))
            begun = time.perf_counter()
            for rows in turn:
                trainer.update(rows)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            seconds = time.perf_counter() - begun
            n_tokens = sum(map(task.n_target_tokens, turn))
            rates = sum(map(len, turn)) / seconds, n_tokens / seconds, 1000 * seconds / self.updates
            return dict(zip(UNITS, rates, strict=True))

        for rows in islice(batches, WARM_UPDATES):
            trainer.update(rows)
        return {}, act


def table_of(records: dict[str, Record]) -> str:
    """A row for each contender; the first that is present is what the others are compared with."""
    ours = next(record for record in records.values() if not record.absent)
    rows = []
    for name, record in records.items():
        if record.absent:
            rows.append([name, record.absent])
            continue
        times = "1" if record is ours else spread(ratios(ours.of("pairs/s"), record.of("pairs/s")), 2)
        rows.append([name, *(spread(record.of(unit), digits) for unit, digits in UNITS.items()), times])
    return rows_of(["", *UNITS, "ours is … times"], rows)


def main(program: str) -> None:
    parser = options(program, __doc__, rounds=5)
    parser.add_argument("--tasks", default="D,M", help=f"some of {', '.join(TASKS)}")
    parser.add_argument("--updates", type=int, default=6, help="in a turn (default: %(default)s)")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda")
    given = parser.parse_args()
    for task in given.tasks.split(","):
        jobs = {contender: Training(task, contender, given.updates, given.device) for contender in TRAINERS}
        records = take_turns(jobs, given.rounds)
        print(f"\n{task}\n\n{table_of(records)}{signature(given.rounds)}", flush=True)
