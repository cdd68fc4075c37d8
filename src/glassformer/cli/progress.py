"""How far a verb is: a bar on a terminal, or a line a minute in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from glassformer.cli.console import Reporter

if TYPE_CHECKING:
    from rich.progress import Progress

LOG_SECONDS = 60.0
"""Seconds between two lines of progress in a log."""


def progress_bar(reporter: Reporter) -> Progress:
    """Return a progress bar with the time that is left."""
    from rich import progress

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TextColumn("left"),
        progress.TimeRemainingColumn(),
        console=reporter.console,
        transient=True,
    )


def line_of_text(reporter: Reporter) -> Progress:
    """Return a progress bar that is one line: the description of its task, cut at the end of the terminal."""
    from rich import progress
    from rich.table import Column

    column = progress.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    return progress.Progress(column, console=reporter.console, transient=True, disable=not reporter.console.is_terminal)


@contextmanager
def show_progress(
    reporter: Reporter, total: int | None, done: int, *, to_terminal: bool
) -> Iterator[Callable[[int], None] | None]:
    """Yield what to call with the number of rows that were answered: a bar on a terminal, a line a minute in a log.

    `to_terminal`: the answers are printed on the terminal, and are the progress.
    """
    before, started, printed = done, time.monotonic(), time.monotonic()

    def log(count: int) -> None:
        nonlocal done, printed
        done, now = done + count, time.monotonic()
        if now - printed >= LOG_SECONDS:
            printed = now
            reporter.print(progress_line(done, before, total, now - started))

    if not sys.stderr.isatty():
        yield log
    elif to_terminal or reporter.console.quiet:
        yield None
    else:
        with progress_bar(reporter) as bar:
            task = bar.add_task("translating", total=total, completed=done)
            yield lambda count: bar.advance(task, count)


def progress_line(done: int, before: int, total: int | None, seconds: float) -> str:
    """Return a line of progress: `before` of the `done` rows were done `seconds` ago."""
    speed = (done - before) / seconds
    text = f"{done:,} rows" if total is None else f"{done:,} of {total:,} rows"
    text += f", {speed:,.1f} rows/s"
    return text if total is None or not speed else f"{text}, {(total - done) / speed / 60:,.0f} min left"
