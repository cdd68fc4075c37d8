"""Text for the terminal about a translation job: what it reads, how far it is, and what was notable."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from glassformer.cli.console import Reporter
from glassformer.cli.narrate import print_reading_of, progress_bar, warn_cut_off, warn_unknown_tokens, warn_unlike

if TYPE_CHECKING:
    from glassformer.data.rows import OpenRows
    from glassformer.inference.jobs.inputs import Input
    from glassformer.inference.jobs.progress import Progress

LOG_SECONDS = 60.0
"""Seconds between two lines of progress in a log."""


def print_input(reporter: Reporter, given: Input, opened: OpenRows, ledger: Path | None) -> None:
    """Print how a table was read, or is being read if its rows arrive; `ledger` is the file for rows not kept."""
    if given.column is None:
        return
    n_texts, taken = len(given.texts), opened.taken
    text = f"column: {' + '.join(taken[:n_texts]).removeprefix('column ')}"
    if given.keep:
        text += f" · kept: {', '.join(taken[n_texts:][: len(given.keep)])}"
    if given.prefix_column is not None:
        text += f" · prefix: {taken[-1]}"
    print_reading_of(reporter, opened, text, ledger, arrives=given.arrives)
    if n_empty := len(opened.ledger.entries):
        rows = "1 row has no cell and gets" if n_empty == 1 else f"{n_empty:,} rows have no cell and get"
        reporter.warn(f"{rows} an empty line")


@contextmanager
def show_progress(
    reporter: Reporter, total: int | None, done: int, *, to_terminal: bool
) -> Iterator[Callable[[int], None] | None]:
    """Yield what to call with the number of rows that were answered: a bar on a terminal, a line a minute in a log.

    `to_terminal`: the answers are printed on the terminal, and are the progress.
    """
    if not reporter.console.is_terminal:
        yield _Log(reporter, total, done).add
    elif to_terminal or reporter.console.quiet:
        yield None
    else:
        with progress_bar(reporter) as bar:
            task = bar.add_task("translating", total=total, completed=done)
            yield lambda count: bar.advance(task, count)


class _Log:
    """Prints a line of progress each LOG_SECONDS."""

    def __init__(self, reporter: Reporter, total: int | None, done: int) -> None:
        self._reporter, self._total, self._done, self._before = reporter, total, done, done
        self._started = self._printed = time.monotonic()

    def add(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._printed >= LOG_SECONDS:
            self._printed = now
            self._reporter.print(progress_line(self._done, self._before, self._total, now - self._started))


def progress_line(done: int, before: int, total: int | None, seconds: float) -> str:
    """Return a line of progress: `before` of the `done` rows were done `seconds` ago."""
    speed = (done - before) / seconds
    text = f"{done:,} rows" if total is None else f"{done:,} of {total:,} rows"
    text += f", {speed:,.1f} rows/s"
    return text if total is None or not speed else f"{text}, {(total - done) / speed / 60:,.0f} min left"


def warn_about(reporter: Reporter, progress: Progress) -> None:
    """Warn about unknown tokens, texts unlike the training, answers that were cut off, rows that were left empty."""
    warn_unknown_tokens(reporter, progress.unknown, progress.unknown_rows)
    warn_unlike(reporter, progress.unlike.count, progress.unlike.named)
    warn_cut_off(reporter, progress.unfinished.count, progress.unfinished.named)
    left_out = progress.left_out
    if left_out.count:
        rows = "1 row was" if left_out.count == 1 else f"{left_out.count:,} rows were"
        reporter.warn(f"{rows} left empty: {left_out}; --long stop makes this an error")
