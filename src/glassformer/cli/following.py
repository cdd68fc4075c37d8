"""What `train` and `demo` print during a training, and at its end."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from typer import Exit

from glassformer.cli.console import Reporter, printable
from glassformer.cli.narrate import measured_text
from glassformer.cli.progress import line_of_text
from glassformer.errors import EXIT_INTERRUPTED, counted, shortened

if TYPE_CHECKING:
    from glassformer.planning.plan import Plan
    from glassformer.settings import TrainingSettings
    from glassformer.training import Event, Run
    from glassformer.training.events import Finished, Progress, Validated
    from glassformer.training.members import Members

WIDE = 100  # columns of a terminal from which the line of progress has all
SHOWN_SAMPLES = 3


def follow(
    planned: Plan, run: Run, reporter: Reporter, resume_command: str, log: Callable[[Event], None] | None = None
) -> Finished:
    """Train, print the events and log them, and return the end; the first Ctrl-C saves and stops."""
    from glassformer.training import events

    rows, training = _rows(planned), planned.settings.training
    answers: dict[str, str] = {}  # source -> the answer that was printed
    line, finished, metric, begun, last_step = line_of_text(reporter), None, "", (0, 0.0), training.steps
    saved, is_forecast = "everything is saved", False
    with stop_gently(run.stop, reporter), line:
        task = line.add_task("")
        for event in run:
            if log is not None:
                log(event)
            match event:
                case events.Racing():
                    text = f"race · {clock(event.seconds)} · {event.name}: step {event.step:,}/{event.steps:,}"
                    line.update(task, description=text)
                case events.Raced():
                    reporter.print(str(event))
                case events.Started():
                    begun, last_step = (event.step, event.seconds), event.steps
                    resumed = f", resumed after step {event.step:,}" if event.resumed else ""
                    where = f"{planned.directory.recipe} has the reason of each setting"
                    reporter.print(f"Training on {event.device} in {event.precision}{resumed}; {where}.")
                case events.Progress():
                    text = progress_text(event, begun, last_step, training)
                    if not is_forecast:
                        left, is_forecast = time_left(event, begun, last_step, training), True
                        reporter.print(f"This takes {left} here; Ctrl-C saves and stops.")
                    if reporter.console.width >= WIDE:
                        speed = f"{event.tokens_per_second:,.0f} tokens/s"
                        text += f"{metric} · {speed} · learning rate {event.learning_rate:.1e}"
                    line.update(task, description=text)
                case events.Decaying():
                    last_step = event.last_step
                    text = f"the learning rate falls to 0 by step {last_step:,}, the last one ({event.reason})"
                    reporter.print(f"step {event.step:,} · {text}")
                case events.Validated():
                    _print_validated(reporter, event, rows, answers)
                    metric = f" · {measured_text(event.metric, event.value)}"
                case events.Skipped():
                    sources = ", ".join(repr(shortened(source)) for source in event.sources)
                    text = f"step {event.step:,}: loss or gradient was not finite; the update was skipped"
                    reporter.warn(f"{text} ({event.n_rows:,} rows, the first: {sources})")
                case events.Restored():
                    begun = event.step, event.seconds
                    text = f"{event.skipped} updates in a row were not finite; back to step {event.step:,}"
                    reporter.warn(f"{text}, with {event.rate_factor:g} times the learning rate")
                case events.Split():
                    text = f"step {event.step:,}: a batch did not fit into memory; from now on in parts of at most"
                    reporter.warn(f"{text} {event.max_tokens:,} tokens (the same update)")
                case events.Stopped():
                    reporter.print(f"stopped after step {event.step:,}")
                    saved = saved if event.path.exists() else "the race begins again"
                case events.Finished():
                    finished = event
    if finished is None:
        _stopped(reporter, resume_command, saved)
    _print_done(reporter, finished, rows)
    return finished


def follow_members(members: Members, reporter: Reporter, resume_command: str) -> Finished:
    """Train all members, print the validations of each, return the end; the first Ctrl-C saves and stops all."""
    rows = _rows(members.planned)
    with stop_gently(members.stop, reporter):
        for seed, line in members:
            name = f"member {seed}: step {line['step']:>6,}"
            match line["event"]:
                case "validated":
                    metric = measured_text(line["metric"], line["value"])
                    reporter.print(f"{name} · {rows} loss {line['loss']:.3f} · {metric}")
                case "finished":
                    metric = measured_text(line["metric"], line["value"])
                    reporter.print(f"{name} · {line['reason']}; {metric} on {rows} rows")
                case "skipped" | "restored" | "split" as event:
                    reporter.warn(f"{name} · {event}: {members.run(seed).history} has the numbers")
    if members.finished is None:
        _stopped(reporter, resume_command)
    _print_done(reporter, members.finished, rows)
    return members.finished


def progress_text(event: Progress, begun: tuple[int, float], last_step: int, training: TrainingSettings) -> str:
    """Return where a training is, in less than 80 columns; `begun` are step and seconds when it began or continued."""
    step, left = f"step {event.step:,}/{last_step:,}", time_left(event, begun, last_step, training)
    return " · ".join((step, clock(event.seconds), *([f"{left} left"] if left else []), f"loss {event.loss:.2f}"))


def time_left(event: Progress, begun: tuple[int, float], last_step: int, training: TrainingSettings) -> str:
    """Return how long a training will take from now on, as text; "" where nothing was done since it began."""
    n_steps, seconds = event.step - begun[0], event.seconds - begun[1]
    if n_steps <= 0:
        return ""
    left = (last_step - event.step) * seconds / n_steps
    limit = math.inf if training.max_minutes is None else 60 * training.max_minutes - event.seconds
    can_end_sooner = training.patience > 0 and last_step == training.steps
    return f"{'at most ' * can_end_sooner}{duration(max(0.0, min(left, limit)))}"


def next_command(finished: Finished, training: TrainingSettings, train_command: str, source: str | None) -> str:
    """Return what to do after a training: train on, where it was still improving, or else translate."""
    run = shlex.quote(str(finished.path.parent))
    if not finished.is_improving:
        return f"glassformer translate {run} {'INPUT' if source is None else shlex.quote(source)}"
    if finished.step < training.steps:
        minutes = training.max_minutes or finished.seconds / 60
        minutes = math.ceil(1.1 * minutes * training.steps / max(1, finished.step))
        return f"{train_command} --set training.max_minutes={minutes}"
    return f"{train_command} --set training.steps={2 * training.steps}"


def clock(seconds: float) -> str:
    """Return a time as text: 3:30, or 2:05:00."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def duration(seconds: float) -> str:
    """Return a time as text, in its unit."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}" if unit == "min" else f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _rows(planned: Plan) -> str:
    return "held-out" if planned.prepared.valid is not None else "training"


def _stopped(reporter: Reporter, resume_command: str, saved: str = "everything is saved") -> NoReturn:
    reporter.print(f"{saved}. Resume it with:")
    reporter.command(resume_command)
    raise Exit(EXIT_INTERRUPTED)


def _print_done(reporter: Reporter, event: Finished, rows: str) -> None:
    """Print how good the model is, why the training ended, and what the run has."""
    from glassformer.inference.confidence import MIN_SOURCES

    metric = measured_text(event.metric, event.value)
    if event.metric == "exact_match" and event.answers:
        right, percent = round(event.value * event.answers), f"{100 * event.value:.3g} %"
        verdict = f"{right:,} of {counted(event.answers, f'{rows} answer')} are right ({percent})"
    else:
        verdict = f"{metric} on {f'{event.answers:,} {rows} answers' if event.answers else f'{rows} rows'}"
    reporter.print(verdict, style="bold green")
    text = f"{event.reason} after {clock(event.seconds)}"
    if event.is_improving:
        fell = "" if event.loss_fell is None else f": the loss fell by {100 * event.loss_fell:.0f} % in the last half"
        text += f", still improving{fell}"
    reporter.print(text)
    model = f"model: {event.path}, weights: {event.chosen}"
    if event.calibrated:
        confidence = f"confidence is calibrated on {event.calibrated:,} held-out sources"
    else:
        calibrate = f"glassformer calibrate {event.path.parent} TABLE"
        confidence = f"no confidence: that needs {MIN_SOURCES} held-out sources ({calibrate})"
    reporter.print(f"{model}; {confidence}", style="dim")


def _print_validated(reporter: Reporter, event: Validated, rows: str, answers: dict[str, str]) -> None:
    """Print the result of a validation in one line, and the samples whose answers have changed, wrong ones first."""
    best = " · best so far" if event.best else ""
    metric = measured_text(event.metric, event.value)
    reporter.print(f"step {event.step:,} · {rows} loss {event.loss:.3f} · {metric}{best}")
    samples = {sample.source: sample for sample in (*event.wrong, *event.samples)}.values()
    changed = [sample for sample in samples if answers.get(sample.source) != sample.answer]
    for sample in sorted(changed, key=lambda sample: sample.is_right)[:SHOWN_SAMPLES]:
        answers[sample.source] = sample.answer
        source, target, answer = (printable(shortened(text)) for text in sample)
        mark, expected = ("✓", "") if sample.is_right else ("✗", f" (target: {target})")
        reporter.print(f"  {mark} {source} → {answer}{expected}")


@contextlib.contextmanager
def stop_gently(stop: Callable[[], None], reporter: Reporter) -> Iterator[None]:
    """The first SIGINT or SIGTERM calls `stop`, which saves and stops a run; the second one interrupts it at once."""

    def on_signal(_number: int, _frame: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, before[number])
        reporter.print("stopping after this step; press Ctrl-C again to stop at once")
        stop()

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
