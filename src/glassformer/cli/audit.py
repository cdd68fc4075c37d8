"""`glassformer audit`: what is suspicious in a table, before a model is trained on it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.text import Text

from glassformer.cli.console import Reporter, check_output, html_page, plain_table, printable, standard_output
from glassformer.cli.narrate import example_text
from glassformer.cli.options import Columns, PairTable
from glassformer.errors import EXIT_FINDINGS

if TYPE_CHECKING:
    from glassformer.before.audit import Audit, Finding, Lengths, Severity
    from glassformer.data.tables import Table
    from glassformer.paper.settings import Settings

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "dim"}
BAR = 30  # characters of the longest bar


def audit(
    table: PairTable,
    columns: Columns,
    reporter: Reporter,
    valid: Annotated[str | None, typer.Option("--valid", metavar="TABLE", help="The table to validate on.")] = None,
    test: Annotated[str | None, typer.Option("--test", metavar="TABLE", help="The table to test on.")] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the training, such as data.drop_duplicates=true (repeatable)."),
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the audit as one page that works offline.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace --html.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with code 3 if there is an error or a warning.")
    ] = False,
) -> None:
    """Examine a table before training: duplicates, contradictions, overlap with --valid and --test, odd characters.

    Each finding has a severity, the number of rows, examples with their row numbers, and what to do.
    Nothing is changed. With settings that clean, what is examined is what they would leave to train on.
    """
    from glassformer.before.audit import audit

    check_output(html, "--html", overwrite=overwrite)
    train = columns.read(reporter, table)
    others = [columns.read(reporter, path, like=train) for path in (valid, test) if path is not None]
    held = others.pop(0) if valid is not None else None
    train, settings = _cleaned(reporter, train, columns, assignments)
    found = audit(train, held, others[0] if others else None, settings)
    if html is not None:
        from glassformer.ship.storage.files import write_text

        write_text(html, audit_page(found))
        reporter.print(f"wrote {html}")
    reporter.result(found.to_json(), lambda: _print_audit(found))
    if strict and not found.is_clean:
        raise typer.Exit(EXIT_FINDINGS)


def _cleaned(
    reporter: Reporter, table: Table, columns: Columns, assignments: list[str] | None
) -> tuple[Table, Settings]:
    """The table that training would clean, and the settings of that training: advised, with `--set` over them."""
    from glassformer.before.advise import advise
    from glassformer.before.recipes.overrides import check_settings, merge, parse_assignments
    from glassformer.data.cleaning import clean
    from glassformer.paper.settings import DataSettings, Settings

    given = check_settings(merge(parse_assignments(assignments or []), {"data": columns.data}))
    cleaned = clean(table, DataSettings(**given.get("data", {})))
    if cleaned is not table:
        reporter.print(f"after cleaning: {cleaned.ledger.summary()}")
    return cleaned, Settings(**merge(advise(cleaned.pairs, given, cleaned.inputs).settings, given))


def _print_audit(audit: Audit) -> None:
    console = standard_output()
    for part in _parts(audit):
        console.print(part, soft_wrap=isinstance(part, Text))


def audit_page(audit: Audit) -> str:
    """Return an audit as one HTML page without scripts, which needs no network: what is printed, and the tables."""
    tables = [
        (table.role, table.path, " → ".join(table.columns), f"{table.rows_read:,}", f"{table.rows_kept:,}")
        for table in audit.tables
    ]
    settings = [(name, str(value)) for name, value in audit.recipe.items()]
    columns = ("", "table", "columns", "rows read", "rows kept")
    last = plain_table("settings of the tokens", ("setting", "value"), settings)
    return html_page("Audit of a table", [plain_table("tables", columns, tables), *_parts(audit), last])


def _parts(audit: Audit) -> Iterator[Group | Text]:
    """Yield the tables and lines of an audit: lengths, findings, and a summary."""
    from glassformer.before.audit.findings import severities_text

    columns = ("", "mean", "min", "5 %", "50 %", "95 %", "99 %", "max", "limit")
    yield plain_table("lengths of the table to train on", columns, [_length_row(lengths) for lengths in audit.lengths])
    for lengths in audit.lengths:
        if lengths.limit is None:
            yield plain_table(f"characters of a {lengths.side}", ("", "rows", ""), list(_bars(lengths)))
    for finding in audit.findings:
        yield Text()
        yield Text(f"{finding.severity}: {finding.kind}", style=STYLES[finding.severity])
        yield from (Text(printable(line)) for line in _lines(finding))
    yield from (Text(printable(f"note: {note}")) for note in audit.notes)
    tables = ", ".join(f"{table.path} ({table.rows_kept:,} rows)" for table in audit.tables)
    yield Text()
    yield Text(printable(f"{severities_text(audit)} in {tables}"))


def _length_row(lengths: Lengths) -> tuple[str, ...]:
    named = lengths.unit if lengths.limit is None else f"tokens ({lengths.unit})"
    limit = "" if lengths.limit is None else f"{lengths.limit:,}"
    percentiles = (f"{value:,}" for value in lengths.percentiles.values())
    return (f"{lengths.side}, {named}", f"{lengths.mean:.1f}", *percentiles, limit)


def _bars(lengths: Lengths) -> Iterator[tuple[str, str, str]]:
    longest = max(rows for _, _, rows in lengths.histogram)
    for first, last, rows in lengths.histogram:
        bar = "█" * round(BAR * rows / longest) or ("▏" if rows else "")
        yield f"{first:,}" if first == last else f"{first:,} to {last:,}", f"{rows:,}", bar


def _lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.table}: {finding.text}"
    for example in finding.examples:
        yield f"    {example_text(example, finding.table)}"
    yield from textwrap.wrap(f"to do: {finding.advice}", 118, initial_indent="  ", subsequent_indent="  ")
    if finding.option is not None:
        yield f"  option: {finding.option}"
