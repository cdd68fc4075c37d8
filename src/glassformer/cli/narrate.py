"""The sentences for the terminal: what was read of a table, what a run will do and does, how good a model is."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from glassformer.cli.console import Voice, print_table, printable
from glassformer.errors import EXIT_INTERRUPTED, shortened

if TYPE_CHECKING:
    from glassformer.data.tables import Column, Table
    from glassformer.evaluation import Report
    from glassformer.training import Plan, Run

ON_THEIR_OWN_SCALE = ("bleu", "chrf")


def say_table(voice: Voice, table: Table, ledger: Path | None) -> None:
    """How a table of pairs was read, what was left out and why. `ledger` is the file that will list those rows."""
    _say_reading(voice, table, f"source: {table.taken[0]} · target: {table.taken[1]}", ledger)


def say_column(voice: Voice, column: Column, ledger: Path | None) -> None:
    """How a column of a table was read, what was left out and why; `ledger` as for `say_table`."""
    _say_reading(voice, column, f"column: {column.taken.removeprefix('column ')}", ledger)
    if n_empty := len(column.ledger.entries):
        rows = "1 row has no cell and gets" if n_empty == 1 else f"{n_empty:,} rows have no cell and get"
        voice.warn(f"{rows} an empty line")


def _say_reading(voice: Voice, table: Table | Column, taken: str, ledger: Path | None) -> None:
    from glassformer.data.tables import first_row_note

    header = "with a header" if table.header else "without a header"
    if table.format in ("JSON Lines", "Parquet", "parallel text"):
        header = "named columns" if table.header else "line by line"
    voice.say(f"read {printable(table.path)} ({table.format}, {header}): {table.ledger.summary()}")
    voice.say(printable(taken))
    if note := first_row_note(table):
        voice.say(printable(note))
    if table.ledger.entries and ledger is not None:
        voice.say(f"each row that is not kept will be listed in {ledger}")
    elif table.ledger.entries:
        voice.say("list each row that was not kept with --ledger FILE")


def say_plan(voice: Voice, planned: Plan) -> None:
    """What was read for a run, what was chosen and why, and what should be known before it begins."""
    for table in (planned.table, planned.valid, planned.test):
        if table is not None:
            say_table(voice, table, planned.directory.ledger)
    if planned.init is not None:
        voice.say(f"tokens and shape of the model are those of {planned.init}")
    if planned.choices:
        rows = [(choice.setting, f"{choice.value}", choice.reason) for choice in planned.choices]
        voice.table("chosen from the data (change any with --set)", ("setting", "value", "because"), rows)
    for notice in planned.notices:
        if notice.kind != "first row":  # said with the table
            voice.warn(notice.text)


def follow(run: Run, voice: Voice, resume_command: str) -> None:
    """Go through the events of a run and show them; the first Ctrl-C saves and ends it."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from glassformer.training import events

    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=voice.console,
        transient=True,
    )
    rows = "held-out" if run.prepared.valid is not None else "training"
    metric = ""
    with _stop_gently(run, voice), progress:
        task = progress.add_task("training", total=run.settings.training.steps, completed=run.position.step)
        for event in run:
            progress.update(task, completed=event.step)
            match event:
                case events.Started():
                    voice.say(_started(event))
                case events.Progress():
                    speed = f"{event.tokens_per_second:,.0f} tokens/s"
                    text = f"loss {event.loss:.3f} · {speed} · rate {event.learning_rate:.1e}{metric}"
                    progress.update(task, description=text)
                case events.Validated():
                    voice.say(_validated(event, rows))
                    metric = f" · {event.metric} {event.value:.4f}"
                    for sample in event.samples:
                        source, gold, answer = (printable(shortened(text)) for text in sample)
                        mark, told = ("✓", "") if sample.is_right else ("✗", f"   (gold: {gold})")
                        voice.say(f"    {mark} {source} → {answer}{told}")
                case events.Stopped():
                    progress.stop()
                    voice.say(f"stopped after step {event.step}; everything is saved. Go on with:\n  {resume_command}")
                    raise typer.Exit(EXIT_INTERRUPTED)
                case events.Finished():
                    progress.stop()
                    voice.done(
                        f"done in {event.seconds:,.0f} s ({event.reason}); {event.metric} {event.value:.4f} "
                        f"on {rows} rows with {event.chosen} weights: {event.path}"
                    )


def _started(event: Any) -> str:
    going_on = f"; going on after step {event.step:,}" if event.resumed else ""
    return (
        f"{event.n_parameters:,} parameters on {event.device} in {event.precision}; "
        f"{event.train_rows:,} rows to train on, {event.valid_rows:,} held out; "
        f"{event.steps:,} steps, {event.steps_per_epoch:,} an epoch; "
        f"{event.padding_share:.1%} padding in attention{going_on}"
    )


def _validated(event: Any, rows: str) -> str:
    best = "  (best so far)" if event.best else ""
    return f"step {event.step:>6,}  {rows} loss {event.loss:.4f}  {event.metric} {event.value:.4f}{best}"


@contextlib.contextmanager
def _stop_gently(run: Run, voice: Voice) -> Iterator[None]:
    """The first SIGINT or SIGTERM asks the run to save and stop; the second one interrupts at once."""

    def ask(_number: int, _frame: object) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, before[each])
        voice.say("stopping after this step, then saving; once more to stop at once")
        run.stop()

    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    for each in before:
        signal.signal(each, ask)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def say_report(report: Report, table: str) -> None:
    """The report as a table for people, and the worst answers."""
    if report.items < report.rows_scored:
        sys.stdout.write(
            f"{report.rows_scored:,} rows, {report.items:,} sources, {report.items_with_several_references:,} of them "
            "with several targets (evaluate --no-group scores every row by itself)\n"
        )
    rows = []
    for name, measure in report.metrics.items():
        interval = f"{_number(name, measure.low)} – {_number(name, measure.high)}"
        unit = "" if name in ON_THEIR_OWN_SCALE else " %"
        rows.append((name, _number(name, measure.value) + unit, interval, measure.signature or ""))
    title = f"{report.rows_scored:,} of {report.rows_read:,} rows of {table} in {report.seconds:.1f} s"
    print_table(title, ("metric", "value", "95 % interval", ""), rows)
    if report.examples:
        columns: tuple[str, ...] = ("source", "gold", "answer", "edits")
        if report.items_with_several_references:
            columns = ("source", "nearest gold", "answer", "edits", "targets")
        worst = [
            (each.source, each.gold, each.answer, str(each.edits), str(each.n_references))
            for each in report.examples[:5]
        ]
        print_table("the worst answers", columns, [cells[: len(columns)] for cells in worst])


def say_change(voice: Voice, reports: Sequence[tuple[str, Report]]) -> None:
    """The metrics of some reports on the same rows, side by side."""
    first = reports[0][1]
    rows = [(name, *(_number(name, report.metrics[name].value) for _, report in reports)) for name in first.metrics]
    voice.table(f"the first {first.rows_scored:,} rows", ("metric", *(name for name, _ in reports)), rows)


def _number(metric: str, value: float) -> str:
    """A figure for people; shares become percentages."""
    return f"{value if metric in ON_THEIR_OWN_SCALE else 100 * value:.2f}"
