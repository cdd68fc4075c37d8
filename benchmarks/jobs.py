"""What is measured: steps of training, matrix products alone, answers in bulk, and one answer at a time."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks.contenders import DECODERS, TRAINERS, Decoder, precision_of, refuse_emulation
from benchmarks.tasks import TASKS, Rows, describe, split_dates
from benchmarks.turns import Act, Measured

WARM_UPDATES, UPDATES_A_TURN = 2, 6
SEARCHES = {"greedy": 1, "beam": 5}
FEWEST_TEXTS, TURN_SECONDS = 128, (0.7, 4.0)
SINGLES_A_TURN = 10
PRODUCT_SIZE = {"cpu": 2048, "cuda": 8192}


def timed(device: str, work: Callable[[], object]) -> float:
    """Seconds of `work`, all that it asked of the device included."""
    _synchronize(device)
    begun = time.perf_counter()
    work()
    _synchronize(device)
    return time.perf_counter() - begun


def _synchronize(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


@dataclass(frozen=True)
class Training:
    """Steps on the same batches for everybody: some to warm up, then the next few in each turn."""

    task: str
    contender: str
    device: str

    def start(self) -> tuple[dict[str, Any], Act]:
        refuse_emulation(self.contender, self.device)
        task = TASKS[self.task]()
        trainer = TRAINERS[self.contender](task, self.device)
        batches = task.batches()

        def step(rows: list[Rows]) -> None:
            for each in rows:
                trainer.update(each)

        def act(_round: int) -> Measured:
            turn = list(islice(batches, UPDATES_A_TURN))
            measured = {
                "seconds": timed(self.device, lambda: step(turn)),
                "pairs": float(sum(map(len, turn))),
                "tokens": float(sum(map(task.n_target_tokens, turn))),
                "flops": sum(map(task.flops, turn)),
                "updates": float(len(turn)),
            }
            if self.device != "cpu":
                measured["device_mb"] = torch.cuda.max_memory_allocated() / 1e6
            return measured

        step(list(islice(batches, WARM_UPDATES)))
        trained = (each for each in trainer.model.parameters() if each.requires_grad)
        facts = {
            "parameters": sum(each.numel() for each in trained),
            "precision": precision_of(self.contender, self.device),
            "task": describe(task),
        }
        return facts, act


@dataclass(frozen=True)
class MatrixProduct:
    """Products of large square matrices: what the processor can do at best."""

    precision: str
    device: str

    def start(self) -> tuple[dict[str, Any], Act]:
        refuse_emulation(self.precision, self.device)
        size, kind = PRODUCT_SIZE[self.device], getattr(torch, self.precision)
        a, b = torch.randn(2, size, size, device=self.device, dtype=kind)
        out = torch.empty_like(a)

        def multiply() -> None:
            for _ in range(10):
                torch.mm(a, b, out=out)

        def act(_round: int) -> Measured:
            return {"seconds": timed(self.device, multiply), "flops": 10 * 2.0 * size**3}

        multiply()
        return {"size": size}, act


@dataclass(frozen=True)
class Decoding:
    """Held-out dates with one trained model: greedy and beam 5, in bulk and one by one.

    All texts are translated once, to see that the answers are right; a turn then takes as many as fit into seconds.
    """

    model: Path
    contender: str
    device: str
    n_texts: int

    def start(self) -> tuple[dict[str, Any], Act]:
        refuse_emulation(self.contender, self.device)
        pairs = split_dates()[1][: self.n_texts]
        texts, right = [source for source, _ in pairs], [target for _, target in pairs]
        decoder = DECODERS[self.contender](self.model, self.device)
        facts: dict[str, Any] = {}
        plans: dict[str, tuple[int, list[str]]] = {}
        for name, num_beams in SEARCHES.items():
            size, seconds = self._best_batch_size(decoder, texts[:512], num_beams)
            answers = decoder.translate(texts, num_beams, size)
            facts[f"{name}_exact_match"] = sum(map(str.__eq__, answers, right)) / len(right)
            facts[f"{name}_batch_size"] = size
            plans[name] = size, self._texts_of_a_turn(texts, seconds)

        def act(number: int) -> Measured:
            measured: Measured = {}
            singles = [texts[(number * SINGLES_A_TURN + i) % len(texts)] for i in range(SINGLES_A_TURN)]
            for name, (size, turn) in plans.items():
                num_beams = SEARCHES[name]
                bulk = timed(self.device, lambda: decoder.translate(turn, num_beams, size))  # noqa: B023
                measured[f"{name}_per_second"] = len(turn) / bulk
                alone = [timed(self.device, lambda: decoder.translate([one], num_beams, size)) for one in singles]  # noqa: B023
                measured[f"{name}_milliseconds"] = 1000 * statistics.median(alone)
            return measured

        return facts, act

    def _best_batch_size(self, decoder: Decoder, texts: list[str], num_beams: int) -> tuple[int, float]:
        """Of those that the decoder offers, and the seconds that a text takes with it."""
        decoder.translate(texts[:8], num_beams, decoder.batch_sizes[0])
        taken = {}
        for size in decoder.batch_sizes:
            some = texts[: max(size or len(texts), FEWEST_TEXTS)]
            tries = [timed(self.device, lambda: decoder.translate(some, num_beams, size)) for _ in range(2)]  # noqa: B023
            taken[size] = min(tries) / len(some)
        best = min(taken, key=taken.__getitem__)
        return best, taken[best]

    def _texts_of_a_turn(self, texts: list[str], seconds: float) -> list[str]:
        """Enough to measure, but no more than there is time for."""
        shortest, longest = TURN_SECONDS
        if seconds * len(texts) < shortest:
            return texts * math.ceil(shortest / (seconds * len(texts)))
        return texts[: max(FEWEST_TEXTS, int(longest / seconds))]
