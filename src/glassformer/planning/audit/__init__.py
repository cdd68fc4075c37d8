"""What is wrong with a table of pairs, before a model is trained on it: only what its owner would mend.

    report = audit(read_table("pairs.csv", DataSettings()))     report.findings, .to_json()

Reads texts only and changes nothing; no row is dropped here. `quick_audit` has the few checks before each training.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import islice

from glassformer.data.cleaning import Groups
from glassformer.data.corpus import spread
from glassformer.data.tables import Table
from glassformer.planning.advise import advise
from glassformer.planning.audit.characters import find_control, find_ends, find_look_alikes, find_misdecoded
from glassformer.planning.audit.findings import SIDES, Audit, Finding, TableSummary
from glassformer.planning.audit.lengths import find_in_tokens, find_length_ratio, learn_tokenizers
from glassformer.planning.audit.rows import (
    find_contradictions,
    find_copies,
    find_duplicates,
    find_headers,
    find_left_out,
    find_overlap,
    find_quoted,
    find_row_numbers,
)
from glassformer.settings import Settings

MAX_LINES = 3
MAX_ROWS = 100_000  # of a table that the quick audit examines; a sample of a larger one


def audit(
    table: Table, valid: Table | None = None, test: Table | None = None, settings: Settings | None = None
) -> Audit:
    """Audit the table to train on, and the tables to validate and test on. Changes nothing.

    `settings` are for the training that would follow; without them, `advise` chooses them. Time and memory
    are linear in the rows. Raises the errors of learning tokens: TextError, SettingsError, MissingExtraError.
    """
    if settings is None:
        settings = Settings(**advise(table.pairs, None, table.inputs).settings)
    roles = {"train": table, "valid": valid, "test": test}
    tables = {role: read for role, read in roles.items() if read is not None}
    findings = [*_find_in_tables(table, list(tables.values()), settings, has_valid=valid is not None)]
    for held, purpose in ((valid, "validate"), (test, "test")):
        if held is not None:
            findings += find_overlap(table, held, purpose)
    if valid is not None and test is not None:
        findings += find_overlap(valid, test, "test", "validate")
    summaries = tuple(_summary(role, read) for role, read in tables.items())
    return Audit(summaries, tuple(sorted(findings, key=lambda finding: finding.severity)))


def _find_in_tables(train: Table, tables: Sequence[Table], settings: Settings, *, has_valid: bool) -> Iterator[Finding]:
    """Yield the findings about single tables; `train` is the one to train on."""
    groups = Groups(train.pairs)
    yield from find_duplicates(train, groups)
    yield from find_contradictions(train, groups)
    yield from find_copies(train)
    yield from find_length_ratio(train)
    limits = settings.max_source_tokens, settings.max_target_tokens
    sides = list(zip(SIDES, learn_tokenizers(train, settings, has_valid=has_valid), limits, strict=True))
    for table in tables:
        yield from find_left_out(table)
        yield from find_headers(table)
        for side, tokenizer, limit in sides:
            yield from find_row_numbers(table, side)
            yield from find_quoted(table, side)
            yield from find_control(table, side, trained=table is train)
            yield from find_misdecoded(table, side)
            yield from find_ends(table, side, tokenizer.settings)
            yield from find_look_alikes(table, side, tokenizer.settings)
            yield from find_in_tokens(table, side, tokenizer, limit)


def _summary(role: str, table: Table) -> TableSummary:
    counts = table.ledger.counts()
    n_read, n_kept = counts.pop("read"), counts.pop("kept")
    return TableSummary(role, table.path, table.format, table.labels, n_read, n_kept, counts)


# Before each training


def quick_audit(table: Table, held_out: Sequence[Table] = ()) -> list[str]:
    """Return at most MAX_LINES lines about a table to train on, the worst first; none if nothing was found."""
    n_rows = len(table.pairs)
    if n_rows > MAX_ROWS:
        indices = spread(n_rows, MAX_ROWS).tolist()
        table = table.chosen(indices, [table.pairs[i] for i in indices])
    shown = [
        finding.text if finding.table == table.path else f"{finding.table}: {finding.text}"
        for finding in islice(_quick(table, held_out), MAX_LINES)
    ]
    if shown and n_rows > MAX_ROWS:
        shown[-1] += f" (of a sample of {MAX_ROWS:,} of the {n_rows:,} rows)"
    if shown and table.format != "python":
        shown[-1] += f" (examples: glassformer audit {shlex.quote(table.path)})"
    return shown


def _quick(table: Table, held_out: Sequence[Table]) -> Iterator[Finding]:
    for side in SIDES:
        yield from find_row_numbers(table, side)
    for held in held_out:
        yield from (finding for finding in find_overlap(table, held, "test") if finding.kind == "pair overlap")
    for side in SIDES:
        yield from find_misdecoded(table, side)
    yield from find_headers(table)
    groups = Groups(table.pairs)
    yield from find_contradictions(table, groups)
    yield from find_duplicates(table, groups)
    for side in SIDES:
        yield from find_control(table, side, trained=True)
