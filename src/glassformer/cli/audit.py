"""`glassformer audit`: what is wrong in a table, before a model is trained on it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

from typer import Exit, Option

from glassformer.cli.console import Reporter, print_line, printable
from glassformer.cli.options import ColumnOptions, PairTable
from glassformer.errors import EXIT_FINDINGS, counted, shortened

if TYPE_CHECKING:
    from glassformer.planning.audit.findings import Audit, ExampleRow

STYLES = {"error": "bold red", "warning": "yellow"}
EXAMPLE = 60  # characters of a text in an example


def audit(
    table: PairTable,
    columns: ColumnOptions,
    reporter: Reporter,
    valid: Annotated[str | None, Option(metavar="TABLE", help="The table to validate on.")] = None,
    test: Annotated[str | None, Option(metavar="TABLE", help="The table to test on.")] = None,
    assignments: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="A setting of the training, such as data.drop_duplicates=true (repeatable).",
        ),
    ] = None,
    strict: Annotated[bool, Option("--strict", help="Exit with code 3 if anything was found.")] = False,
) -> None:
    """Examine a table before training: duplicates, contradictions, overlap with --valid and --test, odd characters.

    Each finding has the number of rows, examples with their row numbers, and what to do.
    Nothing is changed. With settings that clean, what is examined is what they would leave to train on.

    Examples:
        glassformer audit pairs.csv
        glassformer audit pairs.csv --test test.csv --strict
    """
    from glassformer.data.cleaning import clean
    from glassformer.planning.advise import advise
    from glassformer.planning.audit import audit
    from glassformer.planning.recipes.overrides import check_settings, merge, parse_assignments
    from glassformer.settings import DataSettings, Settings

    train = columns.read(reporter, table)
    held, tested = (None if path is None else columns.read(reporter, path, like=train) for path in (valid, test))
    given = check_settings(merge(parse_assignments(assignments or []), {"data": columns.data}))
    cleaned = clean(train, DataSettings(**given.get("data", {})))
    if cleaned is not train:
        reporter.print(f"after cleaning: {cleaned.ledger.summary()}")
    settings = Settings(**merge(advise(cleaned.pairs, given, cleaned.inputs).settings, given))
    report = audit(cleaned, held, tested, settings)
    reporter.result(report.to_json(), lambda: _print_audit(report))
    if strict and report.findings:
        raise Exit(EXIT_FINDINGS)


def _print_audit(audit: Audit) -> None:
    for finding in audit.findings:
        print_line(f"{finding.severity}: {finding.kind}", style=STYLES[finding.severity])
        print_line(f"  {finding.table}: {finding.text}")
        for example in finding.examples:
            print_line(f"    {_example_text(example, finding.table)}")
        print_line(f"  to do: {finding.advice}")
        if finding.option is not None:
            print_line(f"  option: {finding.option}")
        print_line()
    counts = Counter(finding.severity for finding in audit.findings)
    counts_text = ", ".join(counted(count, severity) for severity, count in counts.items()) or "nothing was found"
    print_line(f"{counts_text} in {', '.join(f'{table.path} ({table.rows_kept:,} rows)' for table in audit.tables)}")


def _example_text(example: ExampleRow, table: str) -> str:
    """Return a row that was found as one line, without invisible characters; with its file, if not `table`."""
    from glassformer.data.cleaning import CONTROL

    row = f"row {example.row}" if example.table == table else f"row {example.row} of {printable(example.table)}"
    visible = [CONTROL.sub(lambda match: ascii(match[0])[1:-1], text) for text in (example.source, example.target)]
    texts = " → ".join(shortened(text, EXAMPLE) for text in visible if text)
    note = f"({example.note})" if texts and example.note else example.note
    return "  ".join(part for part in (f"{row}:", texts, note) if part)
