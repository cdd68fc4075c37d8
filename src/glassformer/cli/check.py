"""`glassformer check`: a self-test of the training that would follow."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from glassformer.cli.console import Reporter, print_json, print_line
from glassformer.cli.narrate import example_text, print_plan, summary
from glassformer.cli.options import PairTable, Training
from glassformer.errors import EXIT_FINDINGS
from glassformer.paper.pytorch import check_pytorch

if TYPE_CHECKING:
    from glassformer.before.checks import Check


def check(table: PairTable, training: Training, reporter: Reporter) -> None:
    """Test a training before a long run: masks, gradients, tokens, memory, speed, expected time.

    Takes the options of train and writes nothing. Exits with code 3 if a check fails.
    """
    check_pytorch("glassformer check")
    from glassformer.before.selftest import check

    unused = Path(tempfile.gettempdir()) / f"glassformer-check-{secrets.token_hex(8)}"  # the run that nobody iterates
    planned = training.plan(table, unused)
    print_plan(reporter, planned)

    def on_check(found: Check) -> None:
        if not reporter.as_json:
            _print_check(found, table)

    tested = check(planned, training.device, on_check=on_check)
    print_json(tested.to_json()) if reporter.as_json else reporter.print(summary(tested))
    if not tested.passed:
        raise typer.Exit(EXIT_FINDINGS)


def _print_check(check: Check, table: str) -> None:
    """Print one check of the table at a path on standard output; what to do only where something was found."""
    mark, style = ("ok", "green") if check.passed else ("failed", "bold red")
    print_line(f"{check.name}: {check.text}", mark=f"{mark:<7}", style=style)
    for example in check.examples:
        print_line(f"         {example_text(example, table)}")
    if check.advice and (check.examples or not check.passed):
        print_line(f"         to do: {check.advice}")
