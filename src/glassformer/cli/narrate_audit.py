"""Text for the terminal, and the same as a page: the audit of a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from glassformer.cli.console import plain_table, printable
from glassformer.errors import shortened

if TYPE_CHECKING:
    from glassformer.before.audit import Audit, Example, Finding, Lengths, Severity

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "dim"}
BAR = 30  # characters of the longest bar
QUOTED = 60  # characters of a text


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Audit of a table</title>
<style>{stylesheet} pre {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: 18px; }}</style></head>
<body><pre>{code}</pre></body></html>
"""


def print_audit(audit: Audit) -> None:
    """Print an audit on standard output: lengths, findings, and a summary."""
    _print(Console(highlight=False, emoji=False), audit)


def audit_page(audit: Audit) -> str:
    """Return an audit as one HTML page without scripts, which needs no network: what is printed, and the tables."""
    console = Console(highlight=False, emoji=False, record=True, file=StringIO(), width=118)
    tables = [
        (table.role, table.path, " → ".join(table.columns), f"{table.rows_read:,}", f"{table.rows_kept:,}")
        for table in audit.tables
    ]
    console.print(plain_table("tables", ("", "table", "columns", "rows read", "rows kept"), tables))
    _print(console, audit)
    settings = [(name, str(value)) for name, value in audit.recipe.items()]
    console.print(plain_table("settings of the tokens", ("setting", "value"), settings))
    return console.export_html(code_format=PAGE)


def _print(console: Console, audit: Audit) -> None:
    rows = [_length_row(lengths) for lengths in audit.lengths]
    columns = ("", "mean", "min", "5 %", "50 %", "95 %", "99 %", "max", "limit")
    console.print(plain_table("lengths of the table to train on", columns, rows))
    for lengths in audit.lengths:
        if lengths.limit is None:
            console.print(plain_table(f"characters of a {lengths.side}", ("", "rows", ""), list(_bars(lengths))))
    for finding in audit.findings:
        console.print()
        console.print(Text(f"{finding.severity}: {finding.kind}", style=STYLES[finding.severity]), soft_wrap=True)
        for line in _lines(finding):
            console.print(Text(printable(line)), soft_wrap=True)
    for note in audit.notes:
        console.print(Text(printable(f"note: {note}")), soft_wrap=True)
    console.print()
    console.print(Text(summary(audit)), soft_wrap=True)


def summary(audit: Audit) -> str:
    """Return the number of findings of each severity as one line."""
    from glassformer.before.audit.findings import severities_text

    tables = ", ".join(f"{printable(table.path)} ({table.rows_kept:,} rows)" for table in audit.tables)
    return f"{severities_text(audit)} in {tables}"


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


def example_text(example: Example, table: str) -> str:
    """Return an example as one line, without line breaks or invisible characters; its file, if not `table`."""
    from glassformer.before.audit.characters import visible

    row = f"row {example.row}" if example.table == table else f"row {example.row} of {printable(example.table)}"
    texts = " → ".join(shortened(visible(text), QUOTED) for text in (example.source, example.target) if text)
    note = f"({example.note})" if texts and example.note else example.note
    return "  ".join(part for part in (f"{row}:", texts, note) if part)
