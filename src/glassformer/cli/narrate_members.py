"""What `glassformer train` prints while several members are trained: a line for each of their validations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import typer

from glassformer.cli.console import Reporter
from glassformer.cli.narrate import calibrated, done, rows_measured, started, stop_gently, unusual, validated
from glassformer.cli.progress import progress_bar
from glassformer.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from rich.progress import TaskID

    from glassformer.before.members import Members
    from glassformer.training.events import Event
    from glassformer.training.logs import Log


def follow_members(
    members: Members, reporter: Reporter, resume_command: str, logs: Mapping[int, Sequence[Log]]
) -> None:
    """Train the members, print their events and log them; the first Ctrl-C saves and stops all of them."""
    progress, rows = progress_bar(reporter), rows_measured(members.planned.prepared)
    tasks: dict[int, TaskID] = {}
    try:
        with stop_gently(members.stop, reporter), progress:
            for event in members:
                seed = event.member
                if seed is None:
                    progress.stop()
                    _print_left_out(members, reporter)
                    reporter.success(done(event, rows))
                    reporter.print(calibrated(event))
                    return
                for log in logs[seed]:
                    log(event)
                if seed not in tasks:
                    tasks[seed] = progress.add_task(f"member {seed}", total=members.settings.training.steps)
                progress.update(tasks[seed], completed=event.step)
                _print(event, f"member {seed}: ", rows, reporter)
    except BaseException:
        _print_left_out(members, reporter)
        raise
    reporter.print(f"stopped; everything is saved. Resume it with:\n  {resume_command}")
    raise typer.Exit(EXIT_INTERRUPTED)


def _print(event: Event, name: str, rows: str, reporter: Reporter) -> None:
    from glassformer.training import events

    match event:
        case events.Started():
            reporter.print(name + started(event))
        case events.Validated():
            reporter.print(name + validated(event, rows))
        case events.Skipped() | events.Restored() | events.Spiked() | events.Split():
            reporter.warn(name + unusual(event))
        case events.Stopped():
            reporter.print(f"{name}stopped after step {event.step:,}")
        case events.Finished():
            reporter.print(name + done(event, rows))


def _print_left_out(members: Members, reporter: Reporter) -> None:
    for seed, error in members.diverged.items():
        reporter.warn(f"member {seed} is left out: {error.what}")
