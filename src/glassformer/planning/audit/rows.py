"""Findings about rows: left out, repeated, contradictory, copied, in two tables, or read otherwise than meant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from glassformer.data.cleaning import Groups
from glassformer.data.ledger import CLEANED, Fault
from glassformer.data.tables import Pair, Table
from glassformer.errors import counted, shortened
from glassformer.planning.advise import PROSE_WORDS
from glassformer.planning.audit.findings import (
    N_EXAMPLES,
    ExampleRow,
    Finding,
    Side,
    about_rows,
    rows_that,
    texts_of_side,
)
from glassformer.text.inputs import Source, cells_of
from glassformer.text.normalization import nfc, nfc_source

COPIES_IN_PROSE = 0.01  # maximum fraction of rows with an equal target in prose that is not translated
MIN_NUMBERS = 5  # minimum of the rows whose numbers are no coincidence
_WHOLE_NUMBER = re.compile(r"\s*[+-]?\d{1,18}\s*")
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')  # a cell in the quotes of CSV
_AROUND = " \t\r\n\ufeff"  # what is left out when a cell is compared with a name: white space, byte order marks


def mean_words(texts: Sequence[str]) -> float:
    """Return the mean number of words of the first 10,000 texts."""
    sampled = texts[:10_000]
    return sum(len(text.split()) for text in sampled) / max(1, len(sampled))


def find_left_out(table: Table) -> Iterator[Finding]:
    """Yield a finding for rows in the ledger, except rows that an option dropped."""
    entries = [entry for entry in table.ledger.entries if entry.reason not in CLEANED]
    if not entries:
        return
    count, total = len(entries), table.ledger.read
    reasons = Counter(str(entry.reason) for entry in entries)
    counts_of_reasons = ", ".join(f"{number:,} × {reason}" for reason, number in reasons.items())
    text = rows_that(count, total, f"are left out: {counts_of_reasons}")
    advice = "correct these rows in the table; training leaves them out and lists each in ledger.jsonl of the run"
    first = entries[:N_EXAMPLES]
    examples = (ExampleRow(entry.file, entry.row, "", "", str(Fault(entry.reason, entry.detail))) for entry in first)
    yield Finding("rows left out", table.path, None, count, total, text, advice, None, tuple(examples))


def find_contradictions(table: Table, groups: Groups) -> Iterator[Finding]:
    """Yield a finding for rows whose source has several targets. `groups` are made of the pairs of the table."""
    sources = counted(groups.n_contradictory_sources, "source")
    other_rows = dict(groups.first_contradictions(N_EXAMPLES))

    def note(index: int) -> str:
        other = other_rows[index]
        return f"{table.row_name(other)} has another target: {shortened(table.pairs[other].target)!r}"

    best = f"exact match cannot exceed {100 * groups.best_exact_match:.2f} %"
    text = f"have a source with several targets ({sources}); with one right answer a row, {best}"
    advice = (
        "if all targets are right, nothing: evaluate accepts any of them (--no-group scores every row by itself); "
        "if some are wrong, correct the table, or train on the most frequent target of each source only"
    )
    if table.unread:
        names = ", ".join(map(shortened, table.unread[:N_EXAMPLES]))
        advice = f"if a column that is not read decides ({names}), read it: --feature NAME; {advice}"
    option, rows, count = "--set data.drop_contradictions=true", list(other_rows), groups.n_contradictions
    return about_rows("contradictions", table, None, rows, text, advice, option, note, count)


def find_duplicates(table: Table, groups: Groups) -> Iterator[Finding]:
    """Yield a finding for pairs that repeat an earlier one. `groups` are made of the pairs of the table."""

    def note(index: int) -> str:
        return f"the same as {table.row_name(groups.first_equal(index))}"

    rows = np.flatnonzero(groups.is_repetition).tolist()
    text = "repeat an earlier row, source and target"
    advice = "training counts a repeated row as often as it occurs; drop repeated rows unless their frequency matters"
    return about_rows("duplicates", table, None, rows, text, advice, "--set data.drop_duplicates=true", note)


def find_copies(table: Table) -> Iterator[Finding]:
    """Yield a finding for rows of prose whose target equals the source: they may not be translated."""
    sources = texts_of_side(table, "source", features=False)
    rows = [row for row, pair in enumerate(table.pairs) if sources[row] == pair.target]
    is_suspect = mean_words(sources) >= PROSE_WORDS and COPIES_IN_PROSE < len(rows) / len(sources) < 0.5
    text = "have a target that equals the source"
    advice = "in a translation these are often rows that were not translated: remove them from the table"
    return about_rows("copies", table, None, rows if is_suspect else (), text, advice)


def find_overlap(other: Table, held: Table, purpose: str, known_purpose: str = "train") -> Iterator[Finding]:
    """Yield findings for pairs and sources, in NFC, of a held-out table that another one has.

    `purpose` is what the held-out table is for ("validate", "test"), `known_purpose` what the other table is for.
    """
    pairs, held_pairs = ([Pair(nfc_source(x), nfc(y)) for x, y in table.pairs] for table in (other, held))
    sources = {pair.source for pair in held_pairs}
    first: dict[Source | Pair, int] = {}  # the first row of the other table with a pair or a source
    for row, pair in enumerate(pairs):
        if pair.source in sources:
            first.setdefault(pair.source, row)
            first.setdefault(pair, row)
    same_pair = [row for row, pair in enumerate(held_pairs) if pair in first]
    same_source = [row for row, pair in enumerate(held_pairs) if pair not in first and pair.source in first]
    advice = (
        f"remove these rows from the table to {purpose} on, or from the one to {known_purpose} on; "
        "glassformer split writes parts without a shared source, and without --valid training holds out such rows"
    )

    def note(row: int) -> str:
        pair = held_pairs[row]
        index, what = (first[pair], "the same") if pair in first else (first[pair.source], "this source")
        return f"row {other.rows[index]} of {other.file(index)} has {what}"

    text = f"are in the table to {known_purpose} on as well, source and target"
    memorized = f"a score counts answers that were memorized: {advice}"
    yield from about_rows("pair overlap", held, None, same_pair, text, memorized, note=note)
    text = f"have a source that the table to {known_purpose} on has with another target"
    by_nature = f"{advice}; nothing, if sources repeat by nature"
    yield from about_rows("source overlap", held, "source", same_source, text, by_nature, note=note)


# Read otherwise than meant: row numbers, headers or quotes as text


def has_row_numbers(table: Table, side: Side) -> bool:
    """Return whether each text of a side is a number, one more than in the row before, in each file.

    It may also grow by as much as the row number does, so that rows left out, and samples, change nothing.
    """
    if len(table.pairs) < MIN_NUMBERS:
        return False
    numbers, rows = list[int](), table.rows
    for text in texts_of_side(table, side, features=False):
        if not _WHOLE_NUMBER.fullmatch(text):
            return False
        numbers.append(int(text))
    neighbors = (pair for _, indices in table.by_file() for pair in pairwise(indices))
    return all(numbers[after] - numbers[before] in (1, rows[after] - rows[before]) for before, after in neighbors)


def find_row_numbers(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for a side that is probably an index, such as the one that pandas writes."""
    rows = range(len(table.pairs) if has_row_numbers(table, side) else 0)
    columns = "probably an index: choose the columns with --source and --target"
    text = f"have a {side} that is one more than in the row before, {columns}"
    advice = "choose other columns; if the numbers are meant, as in 7 → seven, nothing"
    return about_rows("row numbers", table, side, rows, text, advice)


def find_headers(table: Table) -> Iterator[Finding]:
    """Yield a finding for rows that repeat the header, as in a file that was joined from several files."""
    text = "repeat the header: source and target are the names of their columns"
    advice = "remove these rows; several files with a header each are read as one table from a folder or a pattern"
    return about_rows("repeated headers", table, None, header_rows(table), text, advice)


def header_rows(table: Table) -> list[int]:
    """Return the indices of the pairs whose cells are the names of their columns, without case and white space."""
    if table.columns is None or table.taken is None:
        return []
    *sources, target = (_folded(column.name or "") for column in table.taken.all)
    return [
        index
        for index, pair in enumerate(table.pairs)
        if _folded(pair.target) == target and [*map(_folded, cells_of(pair.source))] == sources
    ]


def _folded(text: str) -> str:
    return text.strip(_AROUND).casefold()


def find_quoted(table: Table, side: Side) -> Iterator[Finding]:
    """Yield a finding for cells of TSV in the quotes of CSV: with doubled quotes inside, or all cells of a side."""
    texts = [getattr(pair, side) for pair in table.pairs] if table.format == "TSV" else []
    quoted = [[cell for cell in cells_of(text) if _QUOTED.fullmatch(cell)] for text in texts]
    rows: Sequence[int] = [row for row, cells in enumerate(quoted) if any('""' in cell[1:-1] for cell in cells)]
    if all(len(cells) == len(cells_of(text)) for cells, text in zip(quoted, texts, strict=True)):
        rows = range(len(texts))
    text = f"have a {side} in double quotes as in CSV; in TSV a quote is text, and the model learns it"
    return about_rows("quoted cells", table, side, rows, text, "save the table as TSV without quotes, or as CSV")
