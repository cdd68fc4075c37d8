"""The training of several models of one recipe, each with another random seed, in one model file.

Each member is the command `glassformer train` in a process and a folder of its own, RUN/members/SEED. As many train at
the same time as PyTorch has threads in this process, which are divided among them; on a GPU they train one after the
other. The rows that are held out are those of the first seed in all of them, so the model of all can be measured and
calibrated on them.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from glassformer.data.given import Given
from glassformer.data.pairs import Pair
from glassformer.errors import RunError, UsageError
from glassformer.evaluation.metrics import group_by_source, quick_metric
from glassformer.inference.translator import Translator
from glassformer.planning.plan import Plan
from glassformer.planning.recipes.overrides import merge
from glassformer.planning.resume import check_tables, recipe_of
from glassformer.runtime.devices import find_device
from glassformer.settings import Settings
from glassformer.storage.checkpoints import is_before_first, read_resume
from glassformer.storage.files import write_text
from glassformer.storage.modelfile import ModelFile, join
from glassformer.storage.records import Metrics
from glassformer.storage.rundirectory import RunDirectory
from glassformer.training.events import Finished
from glassformer.training.history import loss_fell
from glassformer.training.output import Output, calibrate_held_out

COMMAND = """
import os, threading
threading.Thread(target=lambda: os.read(0, 1) or os._exit(1), daemon=True).start()
from glassformer.__main__ import main
main()
"""
"""The command `glassformer`, which ends with the process that started it: then its standard input ends."""

POLL_SECONDS = 0.1


class Members:
    """The training of several models: iterate over the seed of a member and a line of its `history.jsonl`.

    `seeds` are `training.seed` and those that follow; `finished` is the end of all, when the iteration has ended and
    was not stopped. `pairs` and `valid` are what was planned.

    Raises UsageError under `torchrun`, and for tables that are not files. The iteration raises RunError when a member
    has ended before it had a model; its process has printed why.
    """

    def __init__(
        self,
        planned: Plan,
        pairs: Given,
        valid: Given | None = None,
        device: str = "auto",
        *,
        resume: bool = False,
        tensorboard: bool = False,
    ) -> None:
        if planned.processes.count > 1:
            raise UsageError("members train in processes of their own", got="torchrun", hint="without torchrun")
        if not all(isinstance(table, str | Path | None) for table in (pairs, valid)):
            raise UsageError("each member reads its tables itself", got="a table that is not a file", hint="save it")
        self.planned, self.device, self._resume = planned, device, resume
        init = None if planned.start is None else planned.start.path
        self._output = Output(planned.directory, planned.prepared, init, planned.reasons, writes=True)
        self.seeds = [planned.settings.training.seed + i for i in range(planned.members)]
        self.finished: Finished | None = None
        self._words = ["train", str(pairs), "--resume", "--device", device, "--quiet"]
        self._words += [] if valid is None else ["--valid", str(valid)]
        self._words += ["--tensorboard"] if tensorboard else []
        self._stopping = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._n_read: dict[int, int] = {}  # bytes of each history

    def run(self, seed: int) -> RunDirectory:
        """The run directory of a member."""
        return RunDirectory(self.planned.directory.members / str(seed))

    def stop(self) -> None:
        """Save and stop all members after their current updates."""
        self._stopping = True
        for process in [*self._processes.values()]:
            process.terminate()  # a training saves and stops

    def finish(self) -> Translator:
        """Train to the end and load the model of all members."""
        for _ in self:
            pass
        return Translator.load(self.planned.directory.model, device=self.device)

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any]]]:
        with self._output.held():
            began = time.monotonic()
            self._output.open(resumed=self._resume, overwrite=self.planned.overwrite)
            try:
                yield from self._train()
            finally:
                for process in self._processes.values():
                    process.kill()
                    process.communicate()
            if not self._stopping:
                self.finished = self._join(time.monotonic() - began)

    def _train(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Train the members that are not finished; yield the new lines of their histories."""
        waiting = [seed for seed in self.seeds if not self.run(seed).card.exists()]
        n_threads = torch.get_num_threads() if find_device(self.device).type == "cpu" else 1
        at_once = max(1, min(n_threads, len(waiting)))
        while self._processes or (waiting and not self._stopping):
            while waiting and len(self._processes) < at_once and not self._stopping:
                self._start(waiting.pop(0), n_threads // at_once)
            time.sleep(POLL_SECONDS)
            for seed, process in [*self._processes.items()]:
                has_ended = process.poll() is not None
                yield from ((seed, line) for line in self._new_lines(seed))
                if has_ended:
                    process.communicate()
                    del self._processes[seed]
        failed = [seed for seed in self.seeds if not self.run(seed).card.exists()]
        if failed and not self._stopping:
            members = f"{'member' if len(failed) == 1 else 'members'} {', '.join(map(str, failed))}"
            hint = "the error is printed above; resume the others with --resume, or train again with --overwrite"
            where = str(self.planned.directory.members)
            raise RunError(f"{members} ended before the model", where=where, hint=hint)

    def _start(self, seed: int, n_threads: int) -> None:
        """Start the process of a member. A new one is a run that is resumed before its first step."""
        run, settings = self.run(seed), self.planned.settings
        if is_before_first(run):
            shutil.rmtree(run.path)
        if not run.recipe.exists():
            changes = {"training": {"seed": seed}, "data": {"split_seed": settings.split_seed}}
            member_settings = Settings(**merge(settings.model_dump(), changes))
            run.path.mkdir(parents=True, exist_ok=True)
            write_text(run.recipe, recipe_of(member_settings, self._output.init, self._output.reasons))
        self._n_read[seed] = run.history.read_bytes().rfind(b"\n") + 1 if run.history.exists() else 0
        self._processes[seed] = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *self._words, "--out", str(run.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": str(n_threads)},
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
        if self._stopping:  # meanwhile
            self.stop()

    def _new_lines(self, seed: int) -> Iterator[dict[str, Any]]:
        history = self.run(seed).history
        if history.exists():
            with history.open("rb") as file:
                file.seek(self._n_read[seed])
                complete, newline, _ = file.read().rpartition(b"\n")
            self._n_read[seed] += len(complete + newline)
            yield from map(json.loads, complete.splitlines())

    # The model of all

    def _join(self, seconds: float) -> Finished:
        """Write the model of all members, its card, and what the plan knows of the data."""
        directory, prepared = self.planned.directory, self.planned.prepared
        ends = [read_resume(self.run(seed).resume) for seed in self.seeds]
        for seed, end in zip(self.seeds, ends, strict=True):  # a file may have changed since the plan
            check_tables(end, self.planned.table, self.planned.valid, self.run(seed).resume)
        files = [ModelFile.load(self.run(seed).path) for seed in self.seeds]
        joined = join(files)
        translator = Translator(joined, device=self.device)
        chosen = f"{len(files)} members, with the seeds {', '.join(map(str, self.seeds))}"
        metrics = _measured(translator, prepared.valid_pairs, files).model_copy(update={"chosen": chosen})
        calibration = calibrate_held_out(prepared, joined, self.device)
        histories = [(self.run(seed).history, end.position) for seed, end in zip(self.seeds, ends, strict=True)]
        falls = [fall for history, end in histories if (fall := loss_fell(history, end)) is not None]
        self._output.data()
        replace(joined, metrics=metrics, calibration=calibration).save(directory.model)
        directory.discard_replaced()
        finished = Finished(
            sum(end.position.step for end in ends),
            seconds,
            reason="all members are trained",
            chosen=chosen,
            metric=metrics.metric or "loss",
            value=math.nan if metrics.value is None else metrics.value,
            path=directory.model,
            calibrated=0 if calibration is None else calibration.sources,
            answers=metrics.n_sources or 0,
            loss_fell=fmean(falls) if falls else None,
        )
        self._output.card(finished)
        return finished


def _measured(translator: Translator, pairs: Sequence[Pair], files: Sequence[ModelFile]) -> Metrics:
    """Measure a model on held-out rows, as a training does at its end: by its metric, with its own search.

    Without held-out rows it is the mean of its members, on training rows.
    """
    settings = translator.settings
    if not pairs:
        values = [file.metrics.value for file in files if file.metrics.value is not None]
        return files[0].metrics.model_copy(update={"value": fmean(values) if values else None, "step": None})
    if settings.training.metric == "loss":
        scores = [score for pair in translator.score(pairs) for score in pair.token_scores]
        return Metrics(metric="loss", value=-sum(scores) / len(scores), rows="validation")
    items = group_by_source(pairs)
    answers = [answer.text for answer in translator.translate([item.source for item in items])]
    references = [item.references for item in items]
    value = quick_metric(settings.training.metric, answers, references, translator.target_tokenizer.split)
    return Metrics(metric=settings.training.metric, value=value, n_sources=len(items), rows="validation")
