"""Ours: the run that `glassformer train` iterates over, and the translator that `glassformer translate` loads."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import Any

import torch

from benchmarks.tasks import Rows, Task
from glassformer import Translator
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.loop import Run
from glassformer.training.prepare import Prepared
from glassformer.training.processes import Processes


def start_run(prepared: Prepared, device: str, processes: Processes | None = None, **training: Any) -> Run:
    """A run of these rows, with some settings of training changed. It writes nothing before it is iterated over."""
    settings = prepared.settings
    changed = settings.model_copy(update={"training": settings.training.model_copy(update=training)})
    directory = RunDirectory(Path(tempfile.gettempdir()) / "glassformer-benchmark")
    changed_rows = dataclasses.replace(prepared, settings=changed)
    return Run(changed_rows, directory, torch.device(device), processes=processes or Processes())


class OurTrainer:
    def __init__(self, task: Task, device: str, precision: str = "auto", processes: Processes | None = None) -> None:
        self.run = start_run(task.prepared, device, processes, precision=precision)
        self.model: torch.nn.Module = self.run.model

    def update(self, rows: Rows) -> None:
        self.run.update([rows])


class OurDecoder:
    batch_sizes = (0,)

    def __init__(self, model: Path, device: str, **options: Any) -> None:
        self.translator = Translator.load(model, device=device, **options)

    def translate(self, texts: list[str], num_beams: int, batch_size: int) -> list[str]:  # noqa: ARG002
        return [answer.text for answer in self.translator.translate(texts, num_beams=num_beams)]
