"""Who takes part, by the name that stands in the tables. The first of each is what the others are compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import torch
from torch import nn

from benchmarks.direct import DirectDecoder
from benchmarks.marian import MarianDecoder, MarianTrainer
from benchmarks.ours import OurDecoder, OurTrainer
from benchmarks.tasks import Rows, Task
from benchmarks.torch_layers import TorchLayersDecoder, TorchLayersTrainer
from benchmarks.turns import Absent
from glassformer.devices import has_fast_bfloat16, resolve_precision


class Trainer(Protocol):
    @property
    def model(self) -> nn.Module:
        """What is trained."""

    def update(self, rows: Rows) -> None:
        """One step of the optimizer on the mean loss of these rows of the task."""


class Decoder(Protocol):
    @property
    def batch_sizes(self) -> Sequence[int]:
        """Those to try; the fastest is used. 0: it plans its batches itself."""

    def translate(self, texts: list[str], num_beams: int, batch_size: int) -> list[str]:
        """The best answer for each text, in order."""


OURS = "glassformer"

TRAINERS: dict[str, Callable[[Task, str], Trainer]] = {
    OURS: OurTrainer,
    "glassformer, float32": partial(OurTrainer, precision="float32"),
    "nn.Transformer, float32": partial(TorchLayersTrainer, precision="float32"),
    "nn.Transformer, bfloat16": partial(TorchLayersTrainer, precision="bfloat16"),
    "MarianMT, float32": partial(MarianTrainer, precision="float32"),
    "MarianMT, bfloat16": partial(MarianTrainer, precision="bfloat16"),
}

DECODERS: dict[str, Callable[[Path, str], Decoder]] = {
    OURS: OurDecoder,
    "glassformer, bfloat16": partial(OurDecoder, precision="bfloat16"),
    "CTranslate2, float32": partial(DirectDecoder, precision="float32"),
    "CTranslate2, int8": partial(DirectDecoder, precision="int8"),
    "MarianMT, float32": partial(MarianDecoder, precision="float32"),
    "MarianMT, bfloat16": partial(MarianDecoder, precision="bfloat16"),
    "nn.Transformer, float32": TorchLayersDecoder,
}

PEAKS = {f"matrix products, {precision}": precision for precision in ("float32", "bfloat16")}
"""What a share is a share of."""


def precision_of(contender: str, device: str) -> str:
    """In which a trainer multiplies matrices: as its name says, or else as ours chooses by itself."""
    return resolve_precision(torch.device(device), contender.partition(", ")[2] or "auto")


def refuse_emulation(contender: str, device: str) -> None:
    """Raise Absent for a contender in bfloat16 where the processor emulates it: a step takes minutes."""
    if contender.endswith("bfloat16") and not has_fast_bfloat16(torch.device(device)):
        raise Absent("this processor emulates bfloat16")
