"""How much of what a batch holds is padding, as zero configuration plans the batches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from benchmarks.tasks import TASKS, Task
from glassformer.before.advise import advise
from glassformer.data.tables import read_table
from glassformer.fast.packing import TokenLayout
from glassformer.paper.settings import DataSettings, Settings
from glassformer.training.prepare import prepare


def padding_shares() -> dict[str, Any]:
    """For tasks D and M and the Multi30k captions: rows, batches, and the share of padding.

    `layers` is the share in what all layers compute; `source` and `target` are those that attention alone sees.
    """
    shares = {f"task {name}": measure(TASKS[name]()) for name in ("D", "M")}
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("GLASSFORMER_DATA", beside)) / "multi30k" / "tok"
    name = "Multi30k, tokenized"
    if not folder.is_dir():
        return shares | {name: {"absent": "its files are not here; $GLASSFORMER_DATA can say where they are"}}
    table = read_table(",".join(str(folder / f"train.lc.norm.tok.{side}") for side in ("en", "de")), DataSettings())
    prepared = prepare(table, Settings(**advise(table.pairs).settings))
    return shares | {name: measure(Task(name, prepared, None))}


def measure(task: Task) -> dict[str, Any]:
    batches = task.epoch(0)
    shares = {
        side: 1
        - sum(lengths[rows].sum() for rows in batches) / sum(lengths[rows].max() * len(rows) for rows in batches)
        for side, lengths in (("source", task.corpus.source.lengths), ("target", task.corpus.target.lengths))
    }
    sides = task.corpus.source.lengths, task.corpus.target.lengths - 1  # the decoder is not fed <eos>
    layouts = [TokenLayout.of(torch.from_numpy(lengths[rows])) for rows in batches for lengths in sides]
    layers = {"layers": 1 - sum(each.n_tokens for each in layouts) / sum(len(each.positions) for each in layouts)}
    sizes = {"rows": len(task.corpus), "batches": len(batches)}
    return sizes | layers | {side: float(share) for side, share in shares.items()}
