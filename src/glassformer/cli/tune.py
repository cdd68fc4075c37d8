"""`glassformer tune`: better settings for a table, in a number of minutes."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from glassformer.cli.console import Reporter, print_table
from glassformer.cli.following import stop_gently
from glassformer.cli.narrate import print_plan
from glassformer.cli.options import PairTable, Training
from glassformer.cli.progress import progress_bar
from glassformer.errors import EXIT_INTERRUPTED
from glassformer.paper.pytorch import check_pytorch

if TYPE_CHECKING:
    from rich.progress import TaskID

    from glassformer.before.tune import Tried, Tuning


def tune(
    table: PairTable,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The directory to write; what was begun there is continued.")
    ],
    minutes: Annotated[
        float, typer.Option("--minutes", min=0, help="The time for all trials, earlier calls included.")
    ],
    training: Training,
    reporter: Reporter,
) -> None:
    """Tune learning rate, dropout, width and batch size on held-out rows, with Optuna (extra).

    Each trial is a training; the first has the settings that train chooses. The best recipe is OUT/best.toml. Settings
    that are given are not tuned.
    """
    check_pytorch("glassformer tune")
    from glassformer.before.tune import BEST, Tuning

    options: dict[str, Any] = {"valid": training.valid, "init": training.init, "device": training.device}
    tuning = Tuning(table, out, minutes=minutes, overrides=training.overrides(), **options)
    print_plan(reporter, tuning.advised)
    if tuning.seconds:
        reporter.print(f"{out} has {tuning.seconds / 60:.1f} minutes of trials, which are continued")
    with stop_gently(tuning.stop, reporter):
        _follow(tuning, reporter)
    best = tuning.best
    if best is None:
        raise typer.Exit(EXIT_INTERRUPTED)
    trials = [asdict(trial) for trial in tuning.trials]
    result = {"best": best.number, "recipe": str(out / BEST), "trials": trials}
    reporter.result(result, lambda: _print_trials(tuning))
    model = tuning.run_directory(best.number).path
    reporter.success(f"the best is trial {best.number}; its model: {model}; its recipe: {out / BEST}")


def _follow(tuning: Tuning, reporter: Reporter) -> None:
    """Run the trials, with a bar for each, and print each when it is over."""
    tasks: dict[int, TaskID] = {}
    steps = tuning.advised.settings.training.steps

    def print_last() -> None:
        if tasks:
            trial = tuning.trials[max(tasks)]
            reporter.print(f"  {trial.state}: {tuning.metric} {_value(tuning, trial)} in {trial.minutes:.1f} minutes")

    with progress_bar(reporter) as progress:
        for number, event in tuning:
            if number not in tasks:
                print_last()
                reporter.print(f"trial {number}: {_settings(tuning.trials[number])}")
                tasks[number] = progress.add_task(f"trial {number}", total=steps)
            progress.update(tasks[number], completed=event.step)
    print_last()


def _print_trials(tuning: Tuning) -> None:
    rows = [
        (trial.number, trial.state, _value(tuning, trial), f"{trial.minutes:.1f}", _settings(trial), trial.error)
        for trial in tuning.trials
    ]
    print_table("trials", ("trial", "", f"{tuning.metric} (held-out rows)", "minutes", "settings", ""), rows)


def _value(tuning: Tuning, trial: Tried) -> str:
    best = " (best)" if trial == tuning.best else ""
    return "unknown" if trial.value is None else f"{trial.value:.4f}{best}"


def _settings(trial: Tried) -> str:
    return ", ".join(f"{name}={value:.4g}" for name, value in trial.settings.items())
