"""The records of an audit: typed, frozen, and as JSON values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassformer.data.tables import Table
from glassformer.errors import counted, shortened
from glassformer.ship.storage.files import shown
from glassformer.text.inputs import readable

Role = Literal["train", "valid", "test"]
Severity = Literal["error", "warning", "info"]
Side = Literal["source", "target"]
Kind = Literal[
    "pair overlap",
    "shifted lines",
    "row numbers",
    "wrong decoding",
    "source overlap",
    "near overlap",
    "contradictions",
    "duplicates",
    "repeated headers",
    "quoted cells",
    "rows left out",
    "too long",
    "length ratio",
    "few targets",
    "copies",
    "control characters",
    "mixed scripts",
    "mixed Unicode forms",
    "white space at the ends",
    "look-alike characters",
    "other digits",
    "token loss",
    "rare characters",
]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
SIDES: tuple[Side, Side] = ("source", "target")
N_EXAMPLES = 3
_SINGULAR = {"have": "has", "are": "is", "repeat": "repeats", "cannot": "cannot"}
_QUOTED = 120  # characters of a text in an example


@dataclass(frozen=True)
class Example:
    """One row that a finding is about: its number as in the ledger, its texts (shortened), and what is wrong with it.

    `source` and `target` are empty for a row that was not kept.
    """

    table: str
    row: int
    source: str
    target: str
    note: str = ""

    @classmethod
    def of(cls, table: Table, index: int, note: str = "") -> Example:
        """Return the example of kept pair `index` (from 0) of a table."""
        pair = table.pairs[index]
        source, target = (shortened(text, _QUOTED) for text in (readable(pair.source, table.inputs), pair.target))
        return cls(table.file(index), table.rows[index], source, target, note)


@dataclass(frozen=True)
class Finding:
    """One finding: `count` of `total` rows of the table at path `table`.

    For "rare characters" both are numbers of different characters, for "few targets" `count` is that of targets.

    `text` says what was found, `advice` what to do. `option` is the option or command that does it, or None where only
    an edit of the table helps.
    """

    kind: Kind
    severity: Severity
    table: str
    side: Side | None
    count: int
    total: int
    text: str
    advice: str
    option: str | None
    examples: tuple[Example, ...]


@dataclass(frozen=True)
class TableSummary:
    """One of the tables: its role, how it was read, and how many rows were kept. `left_out` counts rows by reason."""

    role: Role
    path: str
    format: str
    columns: tuple[str, str]
    rows_read: int
    rows_kept: int
    left_out: dict[str, int]


@dataclass(frozen=True)
class Lengths:
    """The lengths of the texts of one side of the table to train on.

    `unit` is "characters" or a kind of token, without special tokens. `percentiles` has "min", "5", "50", "95", "99"
    and "max". `histogram` has (first length, last length, rows) of each interval. `limit` is the maximum number of
    tokens that training keeps, or None for characters.
    """

    side: Side
    unit: str
    mean: float
    percentiles: dict[str, int]
    histogram: tuple[tuple[int, int, int], ...]
    limit: int | None


@dataclass(frozen=True)
class Audit:
    """The audit of the tables of a training. `findings` are sorted by severity.

    `best_exact_match` is the best exact match on the table to train on when one answer of each source is right.
    `recipe` has the settings that the token counts depend on. `notes` say what was examined on a sample only.
    """

    tables: tuple[TableSummary, ...]
    findings: tuple[Finding, ...]
    lengths: tuple[Lengths, ...]
    recipe: dict[str, Any]
    best_exact_match: float
    notes: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether no finding is an error or a warning."""
        return all(finding.severity == "info" for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Return the audit as JSON values; `format` changes with their meaning."""
        return {"format": "glassformer-audit/1", "is_clean": self.is_clean, **_json(asdict(self))}


def _json(value: Any) -> Any:
    """Return a value with lists for tuples, and text that UTF-8 can encode."""
    if isinstance(value, dict):
        return {key: _json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(inner) for inner in value]
    return shown(value) if isinstance(value, str) else value


def about_rows(
    kind: Kind,
    severity: Severity,
    table: Table,
    side: Side | None,
    rows: Sequence[int],
    text: str,
    advice: str,
    option: str | None = None,
    note: Callable[[int], str] = lambda _: "",
    n_examples: int = N_EXAMPLES,
) -> Iterator[Finding]:
    """Yield a finding about kept pairs, by index, of which the first ones are examples; nothing about no pairs.

    `text` follows their number, and begins with a verb in the plural. `note(i)` is what is wrong with pair i.
    """
    if len(rows):
        shown = tuple(Example.of(table, int(row), note(int(row))) for row in rows[:n_examples])
        total = len(table.pairs)
        found = rows_that(text, len(rows), total)
        yield Finding(kind, severity, table.path, side, len(rows), total, found, advice, option, shown)


def severities_text(audit: Audit) -> str:
    """Return the number of findings of each severity as text."""
    counts = {severity: audit.count(severity) for severity in SEVERITIES}
    named = (
        f"{count:,} {severity if count == 1 or severity == 'info' else severity + 's'}"
        for severity, count in counts.items()
        if count
    )
    return ", ".join(named) or "nothing was found"


def fraction_text(count: int, total: int) -> str:
    """Return a number of rows, and their fraction."""
    return f"{count:,} of {counted(total, 'row')} ({_percent(count / max(1, total))})"


def rows_that(text: str, count: int, total: int) -> str:
    """Return a number of rows with their fraction, and a text that begins with a verb, in its form for that number."""
    verb, _, rest = text.partition(" ")
    return f"{fraction_text(count, total)} {verb_of(count, verb)} {rest}"


def verb_of(count: int, verb: str) -> str:
    """Return the form of a verb for a number."""
    return _SINGULAR[verb] if count == 1 else verb


def _percent(fraction: float) -> str:
    if 0 < fraction < 0.0005:
        return "less than 0.05 %"
    return f"{100 * fraction:.1f} %"
