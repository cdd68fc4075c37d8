"""A training: one model, or several of one recipe, each with another random seed, in one model file.

    for event in train("pairs.csv", overrides={"training.members": 5}): ...

RUN/members/SEED is an ordinary run, in a process of its own. As many train at the same time as PyTorch has threads in
this process, which are divided among them; on a GPU they train one after the other. The rows that are held out are
those of the first seed in all of them, so the model of all can be measured and calibrated on them.

A member gets what to train, pickled, on its standard input, and sends its events back on its standard output. It stops
and saves when its input ends, so also when this process was killed.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from glassformer.before.plan import Plan, plan
from glassformer.before.recipes.overrides import merge
from glassformer.before.resume import check_tables, differences, got_and_expected, recipe_of_run
from glassformer.data.given import Given
from glassformer.data.pairs import Pair
from glassformer.devices import find_device
from glassformer.errors import DivergedError, GlassformerError, RunError, UsageError, counted
from glassformer.inference.metrics import group_by_source, quick_metric
from glassformer.inference.translator import Translator
from glassformer.paper.settings import Settings
from glassformer.ship.storage.files import write_text
from glassformer.ship.storage.modelfile import ModelFile, join
from glassformer.ship.storage.records import Metrics
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.card import model_card
from glassformer.training.checkpoints import read_resume
from glassformer.training.events import Event, Finished
from glassformer.training.loop import Run
from glassformer.training.meter import Clock
from glassformer.training.output import recipe_of

PROGRAM = "import sys; sys.path[:] = {path!r}; from glassformer.before.members import train_member; train_member()"


def train(
    pairs: Given,
    settings: Settings | None = None,
    out: str | Path = "run",
    *,
    overrides: Mapping[str, Any] | None = None,
    valid: Given | None = None,
    init: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> Run | Members:
    """Plan a run and return it; iterate over its events, or call `finish()`. See `plan`, which raises the errors.

    `settings` are complete ones, `overrides` settings over what is advised; one of the two at most. With
    `training.members`, which may be advised, several models are trained into one file.
    """
    if settings is not None and overrides:
        raise UsageError("settings are complete already", got="overrides too", hint="give settings or overrides")
    find_device(device)
    chosen = settings if settings is not None else overrides
    planned = plan(pairs, out, overrides=chosen, valid=valid, init=init, resume=resume, overwrite=overwrite)
    return Members(planned, pairs, valid, device) if planned.has_members else planned.run(device)


class Members:
    """The training of several models, as an iterable of events: `event.member` is a seed, None in the last, of all.
    The seconds of that one are those that passed, before a resume as if as many had trained at the same time as now.

    `seeds` are `training.seed` and those that follow, `diverged` has the error of each member that is left out. `pairs`
    and `valid` are what was planned.

    A training is iterated once: a finished one gives no more events.

    Raises UsageError under `torchrun` and for a model to start from that would be replaced, and RunError for members
    that were begun with other tables or settings. The iteration raises the error of a member that did not diverge, when
    the others have saved and stopped, and RunError when none is left.
    """

    def __init__(self, planned: Plan, pairs: Given, valid: Given | None = None, device: str = "auto") -> None:
        if planned.processes.count > 1:
            raise UsageError("members train in processes of their own", got="torchrun", hint="without torchrun")
        self.planned, self.device = planned, device
        self.directory, self.settings = planned.directory, planned.settings
        self.seeds = [self.settings.training.seed + i for i in range(self.settings.training.members)]
        self.diverged: dict[int, DivergedError] = {}
        self._given = {  # a table that is not a file can be read only once
            "pairs": pairs if isinstance(pairs, str | Path) else planned.table,
            "valid": valid if isinstance(valid, str | Path) else planned.valid,
            "test": planned.test,
        }
        self._earlier = 0.0  # seconds of all members until now
        for seed in self.seeds if planned.are_members_resumed else ():
            self._check_begun(seed)
        start = None if planned.start is None or planned.are_members_resumed else planned.start.path
        if start is not None and Path(start).resolve().is_relative_to(self.directory.path.resolve()):
            what, hint = "members cannot start from the model that they replace", "another --out, or --members 1"
            raise UsageError(what, where=str(start), hint=hint)
        self._stopping = self._begun = self._finished = False
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._queue: queue.Queue[tuple[int, object]] = queue.Queue()

    def run(self, seed: int) -> RunDirectory:
        """The run directory of a member."""
        return RunDirectory(self.directory.members / str(seed))

    def stop(self) -> None:
        """Save and stop all members after their current updates."""
        self._stopping = True
        for process in self._processes.values():
            _end_input(process)

    def finish(self) -> Translator:
        """Train to the end and load the model of all members."""
        for _ in self:
            pass
        return Translator.load(self.directory.model, device=self.device)

    def __iter__(self) -> Iterator[Event]:
        directory = self.directory
        if self._finished:
            return
        if self._begun:
            what, hint = "these members were interrupted", "resume them with train(…, resume=True)"
            raise UsageError(what, where=str(directory.path), hint=hint)
        with directory.locked():
            directory.recover()
            if not self.planned.are_members_resumed:
                directory.create(overwrite=self.planned.overwrite)
            self._begun = True
            start = self.planned.start
            write_text(directory.recipe, recipe_of(self.settings, start.path if start else None))
            for seed in self.seeds:
                self.run(seed).path.mkdir(parents=True, exist_ok=True)
            try:
                yield from self._train()
            finally:
                for process in self._processes.values():
                    process.kill()
                    _close(process)
                directory.restore_replaced()
            if not self._stopping:
                event = self._join()
                self._finished = True
                yield event

    # The runs

    def _settings_of(self, seed: int, minutes: float | None) -> Settings:
        """Return the settings of a member, with which it is trained by itself."""
        training = {"seed": seed, "members": 1, "max_minutes": minutes}
        changes = {"training": training, "data": {"split_seed": self.settings.split_seed}}
        return Settings(**merge(self.settings.model_dump(), changes))

    def _check_begun(self, seed: int) -> None:
        """Raise RunError for a member that was begun with other tables or settings."""
        run = self.run(seed)
        if run.resume.exists():
            saved = read_resume(run.resume)
            check_tables(saved, self.planned.table, self.planned.valid, run.resume)
            self._earlier += saved.position.seconds
        if not run.recipe.exists():
            return
        recipe = recipe_of_run(run.recipe, "restore it, or start again: --overwrite")
        changed = differences(recipe, self._settings_of(seed, recipe.training.max_minutes))
        if changed:
            raise RunError(
                "the recipe of the run is not that of its member",
                where=f"{self.directory.recipe} and {run.recipe}",
                hint="restore the one that was changed, or start again: --overwrite",
                **got_and_expected(changed),
            )

    def _train(self) -> Iterator[Event]:
        """Train the members that are not finished; yield their events."""
        waiting = [seed for seed in self.seeds if not self.run(seed).card.exists()]
        n_threads = torch.get_num_threads() if find_device(self.device).type == "cpu" else 1
        at_once = max(1, min(n_threads, len(waiting)))
        minutes = self.settings.training.max_minutes  # shared by all, also by those that have ended
        n_parallel = min(n_threads, len(self.seeds))
        minutes = minutes and minutes / math.ceil(len(self.seeds) / n_parallel)
        self._clock = Clock(self._earlier / n_parallel)
        error: GlassformerError | None = None
        while self._processes or (waiting and not self._stopping):
            while waiting and len(self._processes) < at_once and not self._stopping:
                self._start(waiting.pop(0), n_threads // at_once, minutes)
            seed, found = self._queue.get()
            if isinstance(found, Event):
                yield replace(found, member=seed)
            elif isinstance(found, DivergedError):
                self.diverged[seed] = found
            elif isinstance(found, GlassformerError):
                error = error or found
                self.stop()
            else:  # it has ended
                _close(self._processes.pop(seed))
        if error is not None:
            raise error

    def _start(self, seed: int, n_threads: int, minutes: float | None) -> None:
        """Start the process of a member, and a thread that puts what it sends into the queue."""
        run = self.run(seed)
        resume = run.recipe.exists()
        arguments: dict[str, Any] = {**self._given, "out": run.path, "resume": resume}
        if not resume:
            settings = self._settings_of(seed, minutes)
            arguments |= {"overrides": settings, "init": self.planned.init}
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": str(n_threads)},
            start_new_session=True,  # Ctrl-C reaches this process alone
        )
        self._processes[seed] = process
        task = pickle.dumps((arguments, self.device))
        threading.Thread(target=self._read, args=(seed, process, task), daemon=True).start()
        if self._stopping:  # meanwhile
            self.stop()

    def _read(self, seed: int, process: subprocess.Popen[bytes], task: bytes) -> None:
        """Give a process its task, and put what it sends into the queue, and None at its end."""
        assert process.stdin is not None
        assert process.stdout is not None
        last: object = None
        with contextlib.suppress(OSError, ValueError):  # it is stopping
            process.stdin.write(task)
            process.stdin.flush()
        try:
            while True:
                last = pickle.load(process.stdout)
                self._queue.put((seed, last))
        except Exception:  # the end, or what a process wrote that was killed meanwhile
            if process.wait() and not isinstance(last, GlassformerError):
                what, where = "the process of a member ended before its training", str(self.run(seed).path)
                got = f"exit code {process.returncode}"
                self._queue.put((seed, RunError(what, where=where, got=got, hint="resume it with --resume")))
            self._queue.put((seed, None))

    # The model of all

    def _join(self) -> Finished:
        """Write the model of all members that did not diverge, its card, and what the first run knows of the data."""
        finished = [seed for seed in self.seeds if seed not in self.diverged]
        if not finished:
            raise RunError(
                f"all {len(self.seeds)} members diverged",
                where=str(self.directory.path),
                hint="train again with a smaller training.learning_rate, or with training.clip_norm=1",
            ) from next(iter(self.diverged.values()))
        directory, prepared = self.directory, self.planned.prepared
        ends = [read_resume(self.run(seed).resume) for seed in finished]
        for seed, end in zip(finished, ends, strict=True):  # a file may have changed since the plan
            check_tables(end, self.planned.table, self.planned.valid, self.run(seed).resume)
        files = [ModelFile.load(self.run(seed).path) for seed in finished]
        joined = join(files)
        translator = Translator(joined, device=self.device)
        chosen = f"{counted(len(files), 'member')}, with the {'seed' if len(files) == 1 else 'seeds'} "
        chosen += ", ".join(map(str, finished))
        metrics = _measured(translator, prepared.valid_pairs, files).model_copy(update={"chosen": chosen})
        calibration = prepared.calibrate(joined, self.device)
        prepared.write_ledger(directory.ledger)
        prepared.trained.save(directory.sources)
        if prepared.valid_pairs:
            directory.write_held_out(*prepared.held_out_rows)
        replace(joined, metrics=metrics, calibration=calibration).save(directory.model)
        directory.discard_replaced()
        left_out = "".join(f", but for seed {seed}, which diverged" for seed in self.diverged)
        event = Finished(
            sum(end.position.step for end in ends),
            self._clock.seconds,
            reason=f"all members are trained{left_out}",
            chosen=metrics.chosen or "",
            metric=metrics.metric or "loss",
            value=math.nan if metrics.value is None else metrics.value,
            path=directory.model,
            calibrated=0 if calibration is None else calibration.sources,
        )
        write_text(directory.card, model_card(prepared, event, more="`members` the run of each of them"))
        return event


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


def _end_input(process: subprocess.Popen[bytes]) -> None:
    """End the standard input of a member, which then saves and stops."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # it has ended
        process.stdin.close()


def _close(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of the process of a member, and close its pipes."""
    process.wait()
    _end_input(process)
    assert process.stdout is not None
    process.stdout.close()


def train_member() -> None:
    """Train the member that standard input describes: the program of its process."""
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is not an event

    def send(found: object) -> None:
        with contextlib.suppress(OSError):  # nobody reads it: the input has ended, too
            pickle.dump(found, output)
            output.flush()

    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the other process gets it too, and ends the input
    try:
        arguments, device = pickle.load(sys.stdin.buffer)
    except (EOFError, pickle.UnpicklingError):
        return  # stopped before it began
    try:
        run = plan(**arguments).run(device)

        def stop_at_the_end_of_input() -> None:
            os.read(0, 1)
            run.stop()

        threading.Thread(target=stop_at_the_end_of_input, daemon=True).start()
        for event in run:
            send(event)
    except GlassformerError as error:
        send(error)
