"""What `train` and `demo` print while one model, or several members, are trained."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.console import Reporter, printable
from glassformer.cli.progress import progress_bar
from glassformer.errors import EXIT_INTERRUPTED, shortened

if TYPE_CHECKING:
    from rich.progress import TaskID

    from glassformer.before.members import Members
    from glassformer.before.plan import Plan
    from glassformer.training import Run
    from glassformer.training.logs import TensorBoard


def follow(
    planned: Plan,
    training: Run | Members,
    reporter: Reporter,
    resume_command: str,
    logs: Mapping[int | None, TensorBoard] | None = None,
) -> None:
    """Train, print the events and log them, each with the log of its member; the first Ctrl-C saves and stops all."""
    from glassformer.training import events

    several = planned.has_members
    rows = "held-out" if planned.prepared.valid is not None else "training"
    progress, finished = progress_bar(reporter), False
    tasks: dict[int | None, TaskID] = {}
    metrics: dict[int | None, str] = {}
    with _naming_left_out(training, reporter), stop_gently(training.stop, reporter), progress:
        for event in training:
            seed, name = event.member, "" if event.member is None else f"member {event.member}: "
            if logs:
                logs[seed](event)
            if seed not in tasks and (seed is not None or not several):
                tasks[seed] = progress.add_task(name or "training", total=planned.settings.training.steps)
            if seed in tasks:
                progress.update(tasks[seed], completed=event.step)
            match event:
                case events.Started():
                    reporter.print(name + _started(event))
                case events.Progress():
                    speed = f"{event.tokens_per_second:,.0f} tokens/s"
                    text = f"{name}loss {event.loss:.3f} · {speed} · learning rate {event.learning_rate:.1e}"
                    progress.update(tasks[seed], description=text + metrics.get(seed, ""))
                case events.Validated():
                    _print_validated(reporter, event, name, rows)
                    metrics[seed] = f" · {event.metric} {event.value:.4f}"
                case events.Skipped() | events.Restored() | events.Split():
                    reporter.warn(name + _unusual(event))
                case events.Stopped():
                    reporter.print(f"{name}stopped after step {event.step:,}")
                case events.Finished() if seed is not None:
                    reporter.print(name + _done(event, rows))
                case events.Finished():
                    finished = True
                    progress.stop()
                    reporter.success(_done(event, rows))
                    if jump := _jump(training, event):
                        reporter.print(jump)
                    reporter.print(_calibrated(event))
    if not finished:
        reporter.print(f"everything is saved. Resume it with:\n  {resume_command}")
        raise typer.Exit(EXIT_INTERRUPTED)


@contextlib.contextmanager
def _naming_left_out(training: Run | Members, reporter: Reporter) -> Iterator[None]:
    """Warn at the end of each member that diverged, whose model is left out."""
    try:
        yield
    finally:
        for seed, error in getattr(training, "diverged", {}).items():
            reporter.warn(f"member {seed} is left out: {error.what}")


def _jump(run: Any, finished: Any) -> str:
    """Return why the metric of the model is not that of the best validation; "" if it is, and for several members."""
    if not hasattr(run, "position"):
        return ""
    best, settings = run.position.best_value, run.settings
    if best is None or finished.metric == "loss" or f"{best:.4f}" == f"{finished.value:.4f}":
        return ""
    n_all = len(run.validator.items)
    searches = [
        "greedy search" if n_beams == 1 else f"a beam of {n_beams}"
        for n_beams in (settings.training.validate_beams, settings.decoding.num_beams)
    ]
    return (
        f"the best validation had {finished.metric} {best:.4f}: it translated "
        f"{min(settings.training.validate_rows, n_all):,} of the {n_all:,} held-out sources, with {searches[0]}; "
        f"the model was measured on all of them, with {searches[1]}"
    )


def _done(event: Any, rows: str) -> str:
    """Return how a run ended, and where its model is."""
    return (
        f"done in {event.seconds:,.0f} s ({event.reason}); {event.metric} {event.value:.4f} on {rows} rows; "
        f"weights: {event.chosen}; model: {event.path}"
    )


def _calibrated(event: Any) -> str:
    """Return whether answers get a probability."""
    from glassformer.inference.confidence import MIN_SOURCES

    if event.calibrated:
        return f"the probability that an answer is right is calibrated on {event.calibrated:,} held-out sources"
    return (
        f"the probability that an answer is right is not calibrated: that needs {MIN_SOURCES} held-out sources; "
        f"with other rows: glassformer calibrate {event.path.parent} TABLE"
    )


def _started(event: Any) -> str:
    """Return what is trained, and where."""
    resumed = f"; resumed after step {event.step:,}" if event.resumed else ""
    return (
        f"{event.n_parameters:,} parameters on {event.device} in {event.precision}; "
        f"{event.train_rows:,} rows to train on, {event.valid_rows:,} held out; "
        f"{event.steps:,} steps, {event.steps_per_epoch:,} per epoch{resumed}"
    )


def _unusual(event: Any) -> str:
    """Return what happened, and what the run does about it."""
    from glassformer.training import events

    match event:
        case events.Skipped():
            named = ", ".join(repr(shortened(source)) for source in event.sources)
            return (
                f"step {event.step:,}: loss or gradient was not finite; the update was skipped "
                f"({event.n_rows:,} rows, the first: {named})"
            )
        case events.Restored():
            return (
                f"{event.skipped} updates in a row were not finite; back to step {event.step:,}, "
                f"with {event.rate_factor:g} times the learning rate"
            )
    return (
        f"step {event.step:,}: a batch did not fit into memory; from now on in parts of at most "
        f"{event.max_tokens:,} tokens (the same update)"
    )


def _print_validated(reporter: Reporter, event: Any, name: str, rows: str) -> None:
    """Print the result of a validation in one line, and of a single model some answers."""
    best = "  (best so far)" if event.best else ""
    metric = f"{event.metric} {event.value:.4f}{best}"
    reporter.print(f"{name}step {event.step:>6,}  {rows} loss {event.loss:.4f}  {metric}")
    for sample in () if name else event.samples:
        source, gold, answer = (printable(shortened(text)) for text in sample)
        mark, expected = ("✓", "") if sample.is_right else ("✗", f"   (gold: {gold})")
        reporter.print(f"    {mark} {source} → {answer}{expected}")


@contextlib.contextmanager
def stop_gently(stop: Callable[[], None], reporter: Reporter) -> Iterator[None]:
    """The first SIGINT or SIGTERM calls `stop`, which saves and stops a run; the second one interrupts it at once."""

    def on_signal(_number: int, _frame: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, before[number])
        reporter.print("stopping after this step, then saving; press Ctrl-C again to stop at once")
        stop()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
