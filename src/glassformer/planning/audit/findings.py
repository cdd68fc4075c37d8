"""The records of an audit: typed, frozen, and as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassformer.data.tables import Table
from glassformer.errors import counted, shortened
from glassformer.text.inputs import cells_of, readable

Side = Literal["source", "target"]

ERRORS = frozenset({"pair overlap", "wrong decoding"})
SIDES: tuple[Side, Side] = ("source", "target")
N_EXAMPLES = 3
_SINGULAR = {"have": "has", "are": "is", "repeat": "repeats"}
_QUOTED = 120  # characters of a text in an example


@dataclass(frozen=True)
class ExampleRow:
    """One row that a finding is about: its number as in the ledger, its texts (shortened), and what is wrong with it.

    `source` and `target` are empty for a row that was not kept.
    """

    table: str
    row: int
    source: str
    target: str
    note: str = ""

    @classmethod
    def of(cls, table: Table, index: int, note: str) -> ExampleRow:
        """Return the example of kept pair `index` (from 0) of a table."""
        pair = table.pairs[index]
        source, target = (shortened(text, _QUOTED) for text in (readable(pair.source, table.inputs), pair.target))
        return cls(table.file(index), table.rows[index], source, target, note)


@dataclass(frozen=True)
class Finding:
    """One finding: `count` of `total` rows of the table at path `table`.

    `text` says what was found, `advice` what to do. `option` is the option that does it, or None where only an edit of
    the table helps.
    """

    kind: str
    table: str
    side: Side | None
    count: int
    total: int
    text: str
    advice: str
    option: str | None
    examples: tuple[ExampleRow, ...]

    @property
    def severity(self) -> str:
        """An error makes a training or its scores worthless."""
        return "error" if self.kind in ERRORS else "warning"


@dataclass(frozen=True)
class TableSummary:
    """One of the tables: its role, how it was read, and how many rows were kept. `left_out` counts rows by reason."""

    role: str
    path: str
    format: str
    columns: tuple[str, str]
    rows_read: int
    rows_kept: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class Audit:
    """The audit of the tables of a training. `findings` begin with the errors."""

    tables: tuple[TableSummary, ...]
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON values; `format` changes with their meaning."""
        findings = [{"severity": finding.severity, **asdict(finding)} for finding in self.findings]
        tables = [asdict(table) for table in self.tables]
        return {"format": "glassformer-audit/1", "tables": tables, "findings": findings}


def about_rows(
    kind: str,
    table: Table,
    side: Side | None,
    rows: Sequence[int],
    text: str,
    advice: str,
    option: str | None = None,
    note: Callable[[int], str] = lambda _: "",
    count: int | None = None,
) -> Iterator[Finding]:
    """Yield a finding about kept pairs, by index; the first ones are examples. Yield nothing about no pairs.

    `text` follows their number, or `count`, and begins with a verb in the plural. `note(i)` is what is wrong with
    pair i.
    """
    if rows:
        n_rows, total = count or len(rows), len(table.pairs)
        examples = tuple(ExampleRow.of(table, row, note(row)) for row in rows[:N_EXAMPLES])
        yield Finding(kind, table.path, side, n_rows, total, rows_that(n_rows, total, text), advice, option, examples)


def rows_that(count: int, total: int, text: str) -> str:
    """Return a number of rows with their fraction, and a text that begins with a verb, in its form for that number."""
    verb, _, predicate = text.partition(" ")
    percent = "less than 0.05" if 0 < count / total < 0.0005 else f"{100 * count / total:.1f}"
    form = _SINGULAR[verb] if count == 1 else verb
    return f"{count:,} of {counted(total, 'row')} ({percent} %) {form} {predicate}"


def texts_of_side(table: Table, side: Side, *, features: bool = True) -> list[str]:
    """Return the texts of a side. Those of a source with several inputs are joined, with the features or without."""
    if side == "target" or not table.inputs:
        return [getattr(pair, side) for pair in table.pairs]
    n_cells = sum(features or cell.kind == "text" for cell in table.inputs)
    return [" ".join(cells_of(pair.source)[:n_cells]) for pair in table.pairs]
