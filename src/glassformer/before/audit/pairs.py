"""Findings about the rows of one table: left out, repeated, contradictory, copied, with few different targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from unicodedata import normalize

from glassformer.before.audit.findings import N_EXAMPLES, Example, Finding, examples, rows_text, rows_that
from glassformer.data.ledger import CLEANED, LedgerEntry
from glassformer.data.tables import Pair, Table
from glassformer.errors import shortened
from glassformer.text.inputs import split

PROSE_WORDS = 3  # minimum of the mean number of words in prose
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


@dataclass(frozen=True)
class Contradictions:
    """Rows whose source has several targets. `answers` is the number of right answers when each source has one."""

    rows: int
    sources: int
    answers: int
    first: tuple[tuple[int, int], ...]

    def best_exact_match(self, total: int) -> float:
        """Return the best exact match, one right answer a row."""
        return self.answers / max(1, total)


def repeated(pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    """Return (index, index of its first occurrence) of each pair that repeats an earlier one."""
    if len(set(pairs)) == len(pairs):
        return []
    first: dict[Pair, int] = {}
    return [(index, at) for index, pair in enumerate(pairs) if (at := first.setdefault(pair, index)) != index]


def contradictions(pairs: Sequence[Pair]) -> Contradictions:
    """Count the sources with several targets; `first` has two contradictory rows of the first of them."""
    target_of: dict[str, str] = {}
    several: dict[str, None] = {}
    for source, target in pairs:
        if target_of.setdefault(source, target) != target:
            several[source] = None
    if not several:
        return Contradictions(0, 0, len(pairs), ())
    targets_of: dict[str, Counter[str]] = {source: Counter() for source in several}
    rows: dict[str, list[int]] = {}
    for index, (source, target) in enumerate(pairs):
        if source in targets_of:
            if source in rows or len(rows) < N_EXAMPLES:
                rows.setdefault(source, []).append(index)
            targets_of[source][target] += 1
    n_rows = sum(counts.total() for counts in targets_of.values())
    n_right = sum(max(counts.values()) for counts in targets_of.values())
    shown = ((at[0], next(index for index in at if pairs[index].target != pairs[at[0]].target)) for at in rows.values())
    return Contradictions(n_rows, len(several), len(pairs) - n_rows + n_right, tuple(shown))


def find_left_out(table: Table) -> Iterator[Finding]:
    """Yield a finding for rows in the ledger, other than those that an option dropped."""
    entries = [entry for entry in table.ledger.entries if entry.reason not in CLEANED]
    if entries:
        reasons = Counter(str(entry.reason) for entry in entries)
        named = ", ".join(f"{count:,} × {reason}" for reason, count in reasons.items())
        shown = (Example(entry.file, entry.row, "", "", _reason(entry)) for entry in entries[:N_EXAMPLES])
        yield Finding(
            "rows left out",
            "warning",
            table.path,
            None,
            len(entries),
            table.ledger.read,
            f"{rows_that('cannot', len(entries), table.ledger.read)} be used: {named}",
            "correct these rows in the table; training leaves them out and lists each in ledger.jsonl of the run",
            None,
            tuple(shown),
        )


def _reason(entry: LedgerEntry) -> str:
    return f"{entry.reason} ({entry.detail})" if entry.detail else str(entry.reason)


def find_duplicates(rows: Rows) -> Iterator[Finding]:
    """Yield a finding for pairs that repeat an earlier one."""
    found = repeated(rows.pairs)
    if found:
        table = rows.table
        notes = [f"the same as {table.row_name(first)}" for _, first in found[:N_EXAMPLES]]
        yield Finding(
            "duplicates",
            "warning",
            table.path,
            None,
            len(found),
            len(rows.pairs),
            f"{rows_that('repeat', len(found), len(rows.pairs))} an earlier row, source and target",
            "training counts a repeated row as often as it occurs; drop repeated rows unless their frequency matters",
            "--drop-duplicates",
            examples(table, [index for index, _ in found], notes),
        )


def find_contradictions(rows: Rows, found: Contradictions) -> Iterator[Finding]:
    """Yield a finding for rows whose source has several targets."""
    if found.rows:
        table, total = rows.table, len(rows.pairs)
        notes = [f"{table.row_name(other)} has another target: {_quote(table, other)}" for _, other in found.first]
        best = found.best_exact_match(total)
        number = "1 source" if found.sources == 1 else f"{found.sources:,} sources"
        yield Finding(
            "contradictions",
            "warning",
            table.path,
            None,
            found.rows,
            total,
            f"{rows_that('have', found.rows, total)} a source with several targets ({number}); with "
            f"one right answer a row, exact match cannot exceed {100 * best:.2f} %",
            "if all targets are right, nothing: evaluate accepts any of them (--no-group scores every row by itself); "
            "if some are wrong, correct the table, or train on the most frequent target of each source only",
            "--drop-contradictions",
            examples(table, [index for index, _ in found.first], notes),
        )


def _quote(table: Table, index: int) -> str:
    return repr(Example.of(table, index).target)


def find_copies(rows: Rows) -> Iterator[Finding]:
    """Yield a finding for rows whose target equals the source; in prose these may be rows without a translation."""
    found = [index for index, (source, target) in enumerate(rows.pairs) if source == target]
    if found:
        total = len(rows.pairs)
        is_suspect = rows.words_a_source >= PROSE_WORDS and COPIES_IN_PROSE < len(found) / total < 0.5
        yield Finding(
            "copies",
            "warning" if is_suspect else "info",
            rows.table.path,
            None,
            len(found),
            total,
            f"{rows_that('have', len(found), total)} a target that equals the source",
            "in a translation these are often rows that were not translated: remove them from the table; in other "
            "tasks, such as inflection, an unchanged text may be right",
            None,
            examples(rows.table, found),
        )


def find_few_targets(rows: Rows) -> Iterator[Finding]:
    """Yield a finding when a few targets answer all rows, as in a classification."""
    counts = Counter(pair.target for pair in rows.pairs)
    total = len(rows.pairs)
    if len(counts) <= FEW_TARGETS and total >= ROWS_A_TARGET * len(counts):
        target, most = counts.most_common(1)[0]
        quoted = repr(shortened(target, 60))
        first: dict[str, int] = {}
        for index, pair in enumerate(rows.pairs):
            if len(first) == N_EXAMPLES:
                break
            first.setdefault(pair.target, index)
        number = "1 target" if len(counts) == 1 else f"{len(counts):,} different targets"
        yield Finding(
            "few targets",
            "warning",
            rows.table.path,
            "target",
            len(counts),
            total,
            f"{rows_text(total)} have only {number}; the most frequent one, {quoted}, "
            f"is right in {100 * most / total:.1f} % of them",
            "this is a classification: compare the exact match with that of the most frequent target, and consider a "
            "classifier instead",
            None,
            examples(rows.table, list(first.values()), [f"{counts[text]:,} rows" for text in first]),
        )
