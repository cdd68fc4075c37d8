"""`glassformer train`: from a table to a run directory."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from glassformer.cli.console import Reporter, is_first_process, print_line
from glassformer.cli.following import duration, follow, follow_members, next_command
from glassformer.cli.narrate import print_plan, print_report, warn_about_sources, warn_cut_off
from glassformer.cli.options import PairTable, TrainingOptions
from glassformer.runtime.pytorch import check_pytorch

if TYPE_CHECKING:
    from glassformer.planning.plan import Plan


def train(
    table: PairTable,
    out: Annotated[Path, Option("--out", "-o", metavar="RUN", help="The run directory to write.")],
    training: TrainingOptions,
    reporter: Reporter,
    test: Annotated[str | None, Option(metavar="TABLE", help="A table to evaluate on at the end.")] = None,
    resume: Annotated[bool, Option("--resume", help="Resume the run in --out; --set can give it more steps.")] = False,
    overwrite: Annotated[bool, Option("--overwrite", help="Replace the run in --out.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Print the plan and a forecast of time and memory, and stop.")
    ] = False,
    verbose: Annotated[bool, Option("--verbose", help="Print every setting that is chosen, with its reason.")] = False,
    members: Annotated[
        int, Option(min=1, metavar="N", help="Train N models with N random seeds; one model file answers with all.")
    ] = 1,
    tensorboard: Annotated[
        bool, Option("--tensorboard", help="Write event files for TensorBoard into RUN/tensorboard (extra).")
    ] = False,
) -> None:
    """Train a model on a table of pairs.

    Settings that are not given are chosen from the data. RUN/recipe.toml has each with its reason; --verbose prints
    them.

    Examples:
        glassformer train pairs.csv --out run
        glassformer train pairs.csv --out run --source name --target label --set training.max_minutes=30
    """
    check_pytorch("glassformer train")
    from glassformer.glassbox.history import last_sample
    from glassformer.training.logs import TensorBoard
    from glassformer.training.loop import Run
    from glassformer.training.members import Members

    planned = training.plan(table, out, test=test, members=members, resume=resume, overwrite=overwrite)
    print_plan(reporter, planned, planned.directory.ledger, verbose=verbose or dry_run)
    if dry_run:
        _report_forecast(reporter, planned, training.device)
        return
    device, valid = training.device, training.valid
    again = ["glassformer", "train", table, "--out", str(out), "--resume", *(["--tensorboard"] if tensorboard else [])]
    options = {"--valid": valid, "--test": test, "--device": None if device == "auto" else device}
    options["--members"] = str(members) if members > 1 else None
    again += [word for name, value in options.items() if value for word in (name, value)]
    if members > 1:
        several = Members(planned, table, valid, device, resume=resume, tensorboard=tensorboard)
        finished, settings = follow_members(several, reporter, shlex.join(again)), planned.settings
    else:
        log = TensorBoard(out, reporter.warn) if tensorboard and is_first_process() else None
        run = Run(planned, device)
        finished = follow(planned, run, reporter, shlex.join(again), log)
        settings = run.settings  # those of the winner of a race
    if planned.processes.is_first:
        _finish(reporter, planned, device)
        source = None if planned.prepared.source_tokenizer.inputs else last_sample(out)
        reporter.print("next:")
        if members > 1:  # trained again: the settings of members cannot change when they are resumed
            again[again.index("--resume")] = f"--recipe={planned.directory.recipe}"
            again[again.index("--out") + 1] = f"{out}-2"
            finished = replace(finished, step=finished.step // members)
        reporter.command(next_command(finished, settings.training, shlex.join(again), source))


def _report_forecast(reporter: Reporter, planned: Plan, device: str) -> None:
    """Print the time and the memory that the training of one model is expected to need."""
    from glassformer.inference.engines.memory import gigabytes
    from glassformer.training.forecast import forecast

    needs = forecast(planned, device)

    def show() -> None:
        memory = f"{gigabytes(needs.needed_bytes)} of {gigabytes(needs.available_bytes)}"
        print_line(f"memory: about {memory}, next to the table")
        if needs.seconds is None:
            print_line("time: not measured, because the memory does not suffice: a smaller training.batch_tokens")
            return
        print_line(
            f"time: at most {duration(needs.seconds)}: {needs.steps:,} steps of {needs.seconds_per_step:.3g} s "
            f"({needs.tokens_per_second:,.0f} target tokens per second), "
            f"{needs.validations:,} validations of {needs.seconds_per_validation:.3g} s"
        )

    choices = {choice.setting: {"value": choice.value, "reason": choice.reason} for choice in planned.choices}
    reporter.result({"choices": choices, "forecast": asdict(needs)}, show)


def _finish(reporter: Reporter, planned: Plan, device: str) -> None:
    """Score the test table, if there is one, and print the result."""
    from glassformer.evaluation.evaluate import evaluate
    from glassformer.inference.translator import Translator

    out = planned.directory.path
    result: dict[str, Any] = {"run": str(out)}
    if (test := planned.test) is not None:
        translator = Translator.load(out, device=device)
        report = evaluate(translator, test)
        warn_about_sources(reporter, translator, test)
        warn_cut_off(reporter, report.unfinished)
        result["test"] = report.to_json()
        reporter.result(result, lambda: print_report(report, test.path, translator))
    else:
        reporter.result(result, lambda: None)
