"""Text for the terminal: the self-test of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from glassformer.cli.console import Reporter, is_first_process, printable
from glassformer.cli.narrate_audit import example_text

if TYPE_CHECKING:
    from glassformer.before.checks import Check
    from glassformer.before.plan import Plan
    from glassformer.before.selftest import SelfTest


def print_tested(reporter: Reporter, planned: Plan) -> None:
    """Print which tables are tested, and the notices about them."""
    for table in (planned.table, planned.valid):
        if table is not None:
            taken = " → ".join(table.taken)
            reporter.print(f"read {table.path} ({table.format}), {taken}: {table.ledger.summary()}")
    for notice in planned.notices:
        is_fact = notice.kind in ("first row", "large table")
        reporter.print(notice.text) if is_fact else reporter.warn(notice.text)


def print_check(check: Check, table: str) -> None:
    """Print one check of the table at a path on standard output; what to do only where something was found."""
    console = Console(highlight=False, emoji=False, quiet=not is_first_process())
    mark, style = ("ok", "green") if check.passed else ("failed", "bold red")
    console.print(Text.assemble((f"{mark:<7}", style), printable(f"{check.name}: {check.text}")), soft_wrap=True)
    for example in check.examples:
        console.print(Text(printable(f"         {example_text(example, table)}")), soft_wrap=True)
    if check.advice and (check.examples or not check.passed):
        console.print(Text(printable(f"         to do: {check.advice}")), soft_wrap=True)


def summary(tested: SelfTest) -> str:
    """Return the number of checks that failed as one line."""
    if tested.passed:
        return f"all {len(tested.checks)} checks passed"
    return f"{len(tested.failed)} of {len(tested.checks)} checks failed: {', '.join(one.name for one in tested.failed)}"


def report_before_training(reporter: Reporter, tested: SelfTest | None) -> None:
    """Print the self-test of a long run in one line, and a warning for each check that failed."""
    if tested is None:
        return
    figures = {one.name: one.text for one in tested.checks}
    known = "; ".join(figures[name] for name in ("time", "speed", "memory") if name in figures)
    reporter.print(f"self-test: {summary(tested)}; {known}")
    for one in tested.failed:
        reporter.warn(f"{one.name}: {one.text}. To do: {one.advice}")
