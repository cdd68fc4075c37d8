"""Findings about the rows of one table: left out, repeated, contradictory, copied, with few different targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from unicodedata import normalize

import numpy as np

from glassformer.before.advise import PROSE_WORDS
from glassformer.before.audit.findings import N_EXAMPLES, Example, Finding, about_rows, rows_that
from glassformer.data.cleaning import Groups
from glassformer.data.ledger import CLEANED, Fault
from glassformer.data.tables import Pair, Table
from glassformer.errors import counted, shortened
from glassformer.text.inputs import split

COPIES_IN_PROSE = 0.01  # maximum fraction of rows with an equal target in prose that is not translated
FEW_TARGETS, ROWS_A_TARGET = 200, 20  # maximum number of different targets, and minimum of rows for each


@dataclass(frozen=True)
class Rows:
    """A table with its pairs in NFC, the form in which texts are compared."""

    table: Table

    @cached_property
    def pairs(self) -> list[Pair]:
        """The pairs in NFC."""
        return [_composed(pair) for pair in self.table.pairs]

    @cached_property
    def sources(self) -> list[str]:
        """The sources in NFC."""
        return [pair.source for pair in self.pairs]

    @cached_property
    def words_a_source(self) -> float:
        """The mean number of words of the first 10,000 sources."""
        return mean_words(self.sources)


def mean_words(texts: Sequence[str]) -> float:
    """Return the mean number of words of the first 10,000 texts."""
    sampled = texts[:10_000]
    return sum(len(text.split()) for text in sampled) / max(1, len(sampled))


def only_texts(table: Table) -> Table:
    """Return a table of sources with several inputs with their texts alone; any other table is returned unchanged."""
    return _joined(table, len([one for one in table.inputs if one.kind == "text"]))


def all_cells(table: Table) -> Table:
    """Return a table of sources with several inputs with their cells, features included, as one text."""
    return _joined(table, len(table.inputs))


def _joined(table: Table, n_cells: int) -> Table:
    if not table.inputs:
        return table
    pairs = [Pair(" ".join(split(source)[:n_cells]), target) for source, target in table.pairs]
    return replace(table, pairs=pairs, inputs=())


def _composed(pair: Pair) -> Pair:
    source, target = normalize("NFC", pair.source), normalize("NFC", pair.target)
    return pair if source is pair.source and target is pair.target else Pair(source, target)


def find_left_out(table: Table) -> Iterator[Finding]:
    """Yield a finding for rows in the ledger, other than those that an option dropped."""
    entries = [entry for entry in table.ledger.entries if entry.reason not in CLEANED]
    if not entries:
        return
    reasons = Counter(str(entry.reason) for entry in entries)
    named = ", ".join(f"{count:,} × {reason}" for reason, count in reasons.items())
    yield Finding(
        "rows left out",
        "warning",
        table.path,
        None,
        len(entries),
        table.ledger.read,
        rows_that(f"cannot be used: {named}", len(entries), table.ledger.read),
        "correct these rows in the table; training leaves them out and lists each in ledger.jsonl of the run",
        None,
        tuple(
            Example(entry.file, entry.row, "", "", str(Fault(entry.reason, entry.detail)))
            for entry in entries[:N_EXAMPLES]
        ),
    )


def find_duplicates(table: Table, groups: Groups) -> Iterator[Finding]:
    """Yield a finding for pairs that repeat an earlier one."""
    return about_rows(
        "duplicates",
        "warning",
        table,
        None,
        np.flatnonzero(groups.is_repetition).tolist(),
        "repeat an earlier row, source and target",
        "training counts a repeated row as often as it occurs; drop repeated rows unless their frequency matters",
        "--set data.drop_duplicates=true",
        lambda index: f"the same as {table.row_name(groups.first_equal(index))}",
    )


def find_contradictions(table: Table, groups: Groups) -> Iterator[Finding]:
    """Yield a finding for rows whose source has several targets."""
    if not groups.n_contradictions:
        return
    sources = counted(groups.n_contradictory_sources, "source")
    firsts = groups.first_contradictions(N_EXAMPLES)
    notes = (f"{table.row_name(other)} has another target: {Example.of(table, other).target!r}" for _, other in firsts)
    yield Finding(
        "contradictions",
        "warning",
        table.path,
        None,
        groups.n_contradictions,
        len(table.pairs),
        rows_that(f"have a source with several targets ({sources})", groups.n_contradictions, len(table.pairs))
        + f"; with one right answer a row, exact match cannot exceed {100 * groups.best_exact_match:.2f} %",
        "if all targets are right, nothing: evaluate accepts any of them (--no-group scores every row by itself); "
        "if some are wrong, correct the table, or train on the most frequent target of each source only",
        "--set data.drop_contradictions=true",
        tuple(Example.of(table, index, note) for (index, _), note in zip(firsts, notes, strict=True)),
    )


def find_copies(rows: Rows) -> Iterator[Finding]:
    """Yield a finding for rows whose target equals the source; in prose these may be rows without a translation."""
    found = [index for index, (source, target) in enumerate(rows.pairs) if source == target]
    is_suspect = rows.words_a_source >= PROSE_WORDS and COPIES_IN_PROSE < len(found) / len(rows.pairs) < 0.5
    return about_rows(
        "copies",
        "warning" if is_suspect else "info",
        rows.table,
        None,
        found,
        "have a target that equals the source",
        "in a translation these are often rows that were not translated: remove them from the table; in other "
        "tasks, such as inflection, an unchanged text may be right",
    )


def find_few_targets(rows: Rows) -> Iterator[Finding]:
    """Yield a finding when a few targets answer all rows, as in a classification."""
    counts = Counter(pair.target for pair in rows.pairs)
    total = len(rows.pairs)
    if len(counts) > FEW_TARGETS or total < ROWS_A_TARGET * len(counts):
        return
    target, most = counts.most_common(1)[0]
    first: dict[str, int] = {}
    for index, pair in enumerate(rows.pairs):
        first.setdefault(pair.target, index)
    shown = list(first.items())[:N_EXAMPLES]
    yield Finding(
        "few targets",
        "warning",
        rows.table.path,
        "target",
        len(counts),
        total,
        f"{counted(total, 'row')} have only {counted(len(counts), 'target', 'different targets')}; "
        f"the most frequent one, {shortened(target, 60)!r}, is right in {100 * most / total:.1f} % of them",
        "this is a classification: compare the exact match with that of the most frequent target, and consider a "
        "classifier instead",
        None,
        tuple(Example.of(rows.table, index, f"{counts[text]:,} rows") for text, index in shown),
    )
