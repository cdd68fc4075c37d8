"""`glassformer runs`: the runs of a directory in a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import Reporter, print_table

if TYPE_CHECKING:
    from glassformer.before.runs import RunSummary

Runs = Annotated[Path, typer.Argument(metavar="DIR", help="A directory that contains run directories.")]

COLUMNS = ("run", "state", "best", "size", "rows", "steps", "minutes", "tokens/s")


def runs(folder: Runs, reporter: Reporter) -> None:
    """Compare runs: the best first, with the settings that differ between them."""
    from glassformer.before.runs import compare_runs

    compared = compare_runs(folder)
    reporter.result(compared.to_json(), lambda: _print_runs(f"runs in {folder}", compared.runs))
    for name, reason in compared.left_out.items():
        reporter.warn(f"{name} is left out: {reason}")


def _print_runs(title: str, runs: Sequence[RunSummary]) -> None:
    if runs:
        print_table(title, COLUMNS, [_row(run) for run in runs])
    if any(run.settings for run in runs):
        print_table("settings that differ", ("run", ""), [(run.name, _settings(run)) for run in runs])


def _row(run: RunSummary) -> tuple[Any, ...]:
    state = run.state if run.state == "finished" else f"{run.state} at {run.step:,}"
    step = "" if run.best_step is None else f" at {run.best_step:,}"
    best = "" if run.value is None else f"{run.metric} {run.value:.4f}{step}"
    minutes = "" if run.minutes is None else f"{run.minutes:.1f}"
    speed = "" if run.tokens_per_second is None else f"{run.tokens_per_second:,.0f}"
    return (run.name, state, best, run.n_parameters, run.train_rows, run.steps, minutes, speed)


def _settings(run: RunSummary) -> str:
    return ", ".join(f"{name}={'unset' if value is None else value}" for name, value in run.settings.items())
