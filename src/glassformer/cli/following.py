"""What `train` and `demo` print during a training."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from typer import Exit

from glassformer.cli.console import Reporter, printable
from glassformer.cli.progress import progress_bar
from glassformer.errors import EXIT_INTERRUPTED, shortened

if TYPE_CHECKING:
    from glassformer.planning.plan import Plan
    from glassformer.training import Event, Run
    from glassformer.training.members import Members


def follow(
    planned: Plan, run: Run, reporter: Reporter, resume_command: str, log: Callable[[Event], None] | None = None
) -> None:
    """Train, print the events and log them; the first Ctrl-C saves and stops."""
    from glassformer.training import events

    rows = _rows(planned)
    progress, finished, metric = progress_bar(reporter), False, ""
    with stop_gently(run.stop, reporter), progress:
        task = progress.add_task("training", total=planned.settings.training.steps)
        for event in run:
            if log is not None:
                log(event)
            progress.update(task, completed=event.step)
            match event:
                case events.Started():
                    resumed = f"; resumed after step {event.step:,}" if event.resumed else ""
                    reporter.print(
                        f"{event.n_parameters:,} parameters on {event.device} in {event.precision}; "
                        f"{event.train_rows:,} rows to train on, {event.valid_rows:,} held out; "
                        f"{event.steps:,} steps, {event.steps_per_epoch:,} per epoch{resumed}"
                    )
                case events.Progress():
                    speed = f"{event.tokens_per_second:,.0f} tokens/s"
                    text = f"loss {event.loss:.3f} · {speed} · learning rate {event.learning_rate:.1e}"
                    progress.update(task, description=text + metric)
                case events.Validated():
                    _print_validated(reporter, event, rows)
                    metric = f" · {event.metric} {event.value:.4f}"
                case events.Skipped():
                    named = ", ".join(repr(shortened(source)) for source in event.sources)
                    text = f"step {event.step:,}: loss or gradient was not finite; the update was skipped"
                    reporter.warn(f"{text} ({event.n_rows:,} rows, the first: {named})")
                case events.Restored():
                    text = f"{event.skipped} updates in a row were not finite; back to step {event.step:,}"
                    reporter.warn(f"{text}, with {event.rate_factor:g} times the learning rate")
                case events.Split():
                    text = f"step {event.step:,}: a batch did not fit into memory; from now on in parts of at most"
                    reporter.warn(f"{text} {event.max_tokens:,} tokens (the same update)")
                case events.Stopped():
                    reporter.print(f"stopped after step {event.step:,}")
                case events.Finished():
                    finished = True
                    progress.stop()
                    _print_done(reporter, event, rows, run.position.best_value)
    if not finished:
        _stopped(reporter, resume_command)


def follow_members(members: Members, reporter: Reporter, resume_command: str) -> None:
    """Train all members, and print the validations of each; the first Ctrl-C saves and stops all."""
    rows = _rows(members.planned)
    with stop_gently(members.stop, reporter):
        for seed, line in members:
            name = f"member {seed}: step {line['step']:>6,}"
            match line["event"]:
                case "validated":
                    reporter.print(f"{name}  {rows} loss {line['loss']:.4f}  {line['metric']} {line['value']:.4f}")
                case "finished":
                    reporter.print(f"{name}  {line['reason']}; {line['metric']} {line['value']:.4f} on {rows} rows")
                case "skipped" | "restored" | "split" as event:
                    reporter.warn(f"{name}  {event}: {members.run(seed).history} has the numbers")
    if members.finished is None:
        _stopped(reporter, resume_command)
    _print_done(reporter, members.finished, rows)


def _rows(planned: Plan) -> str:
    return "held-out" if planned.prepared.valid is not None else "training"


def _stopped(reporter: Reporter, resume_command: str) -> NoReturn:
    reporter.print(f"everything is saved. Resume it with:\n  {resume_command}")
    raise Exit(EXIT_INTERRUPTED)


def _print_done(reporter: Reporter, event: Any, rows: str, best: float | None = None) -> None:
    """Print how a run ended, where its model is, and whether answers get a probability."""
    from glassformer.inference.confidence import MIN_SOURCES

    reporter.success(
        f"done in {event.seconds:,.0f} s ({event.reason}); {event.metric} {event.value:.4f} on {rows} rows; "
        f"weights: {event.chosen}; model: {event.path}"
    )
    if best is not None and event.metric != "loss" and f"{best:.4f}" != f"{event.value:.4f}":
        why = "it translated at most training.validate_rows sources, with training.validate_beams"
        reporter.print(f"the best validation had {event.metric} {best:.4f}: {why}")
    what = "the probability that an answer is right is"
    if event.calibrated:
        reporter.print(f"{what} calibrated on {event.calibrated:,} held-out sources")
    else:
        hint = f"with other rows: glassformer calibrate {event.path.parent} TABLE"
        reporter.print(f"{what} not calibrated: that needs {MIN_SOURCES} held-out sources; {hint}")


def _print_validated(reporter: Reporter, event: Any, rows: str) -> None:
    """Print the result of a validation in one line, and some answers."""
    best = "  (best so far)" if event.best else ""
    metric = f"{event.metric} {event.value:.4f}{best}"
    reporter.print(f"step {event.step:>6,}  {rows} loss {event.loss:.4f}  {metric}")
    for sample in event.samples:
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
