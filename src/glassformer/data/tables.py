"""Read a table of any format as pairs of source and target, with a ledger of every row that was not kept.

    table = read_table("pairs.csv", DataSettings())      table.pairs, table.rows, table.ledger

All cells are text, unchanged: "NA", "null", "nan" and a lone quote are cells like any other, and no cell is stripped.
`formats` reads the files, `columns` chooses the columns and recognizes a header, and this module keeps or drops rows.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

from glassformer.data.columns import Columns, requested
from glassformer.data.formats import Source, open_source
from glassformer.data.ledger import Fault, Ledger, LedgerEntry, Reason
from glassformer.errors import ColumnError, TableError, shortened
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import Inputs, compose, fault_of

__all__ = [
    "Ledger",
    "LedgerEntry",
    "Pair",
    "Reason",
    "Table",
    "check_same_columns",
    "fingerprint",
    "first_row_note",
    "read_table",
]

_NAMED_FAULTS = 10
_CELLS_OF_FIRST_ROW = 8


class Pair(NamedTuple):
    """One example: a source text and its target text."""

    source: str
    target: str


@dataclass(frozen=True)
class Table:
    """The pairs of a table, and how it was read.

    `rows` has the row number of each kept pair, counted as in `LedgerEntry`. `columns` are the names of all columns
    (from the header, the keys of JSON objects, or the two file names), or None. `taken` are the labels of the source
    and target columns. `header` is whether the table itself contains the names. `first` is the first row (empty in a
    format with column names), and `header_guessed` is whether the header was detected from its cells only. `inputs` are
    those of sources that have several (see `text/inputs.py`).
    """

    path: str
    pairs: Sequence[Pair]
    rows: Sequence[int]
    columns: tuple[str, ...] | None
    taken: tuple[str, str]
    header: bool
    format: str
    ledger: Ledger
    first: tuple[str, ...] = ()
    header_guessed: bool = False
    inputs: Inputs = ()
    files: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()

    def file(self, index: int) -> str:
        """Return the path of the file that kept pair `index` (from 0) is from."""
        return self.files[bisect_right(self.files, index, key=lambda file: file[0]) - 1][1] if self.files else self.path

    def location(self, index: int) -> str:
        """Return the path and row of kept pair `index` (from 0), for errors."""
        return f"{self.file(index)}, row {self.rows[index]}"

    def row_name(self, index: int) -> str:
        """Return the row of kept pair `index` (from 0), with its file if the table has several: "row 3 of a.csv"."""
        return f"row {self.rows[index]} of {self.file(index)}" if self.files else f"row {self.rows[index]}"

    def chosen(self, indices: Sequence[int], pairs: Sequence[Pair]) -> Table:
        """Return the table with some of its pairs, by their indices in ascending order; `pairs` are their texts."""
        files = tuple((bisect_left(indices, start), path) for start, path in self.files)
        return replace(self, pairs=pairs, rows=[self.rows[index] for index in indices], files=files)

    @property
    def sources(self) -> list[str]:
        return [pair.source for pair in self.pairs]

    @property
    def locations(self) -> list[str]:
        """The path and row of each kept pair, for errors."""
        return [self.location(index) for index in range(len(self.rows))]


class _Read(Protocol):
    """What was found when the first row of a table was read."""

    @property
    def first(self) -> tuple[str, ...]: ...
    @property
    def header(self) -> bool: ...
    @property
    def header_guessed(self) -> bool: ...


def read_table(path: str | Path, data: DataSettings, ledger: Ledger | None = None) -> Table:
    """Read the pairs of the table at `path`. Rows that are not kept are added to `ledger`, or to a new one.

    A blank line and an empty source or target (or white space only) are added to the ledger. A damaged row (wrong
    number of cells, unclosed quote, not UTF-8, NUL, a value that is not text) is an error, or with `data.bad_rows`
    "skip" is added to the ledger. `data.header` is ignored for JSON Lines, Parquet and parallel files, which have
    column names.

    Raises TableError for a table that cannot be read or has no pairs, ColumnError for a column that it does not have,
    MissingExtraError when it needs pyarrow and that is not installed. After an error `ledger` is unchanged, unless all
    rows were read and none could be kept.
    """
    name = str(path)
    found = Ledger()
    pairs: list[Pair] = []
    rows: list[int] = []
    with open_source(name) as source:
        opened = OpenPairs.of(source, data, name, found)
        for row, pair in opened.pairs:
            pairs.append(pair)
            rows.append(row)
    found.kept = len(pairs)
    ledger = ledger if ledger is not None else Ledger()
    ledger.include(found)
    opened.check(found)
    return opened.table(pairs, rows, ledger)


class OpenPairs(NamedTuple):
    """An open table: its columns, the labels of those taken, and the row and the texts of each pair that is kept."""

    path: str
    format: str
    columns: Columns
    taken: tuple[str, str]
    inputs: Inputs
    pairs: Iterator[tuple[int, Pair]]

    @classmethod
    def of(cls, source: Source, data: DataSettings, name: str, ledger: Ledger) -> OpenPairs:
        """Choose the columns; the rows are read as `pairs` is iterated over, which can be done once."""
        columns = Columns.of(source, requested(data, source.first), data.header, name)
        if not source.width:
            return cls(
                name,
                source.format,
                columns,
                ("", ""),
                (),
                _kept(_scan(source, (), columns, data, ledger), name, ledger),
            )
        chosen = columns.choose(data)
        inputs = columns.inputs(chosen)
        taken = (" + ".join(map(columns.label, chosen.all[:-1])), columns.label(chosen.target))
        rows = _scan(source, chosen.all, columns, data, ledger)
        kept = _kept(_composed(rows, inputs, name, ledger) if inputs else rows, name, ledger)
        return cls(name, source.format, columns, taken, inputs, kept)

    def check(self, found: Ledger) -> None:
        """Raise TableError when all rows were read and none could be kept."""
        if not found.read:
            got = "a header and no other row" if self.columns.consumed else None
            raise TableError("the table has no rows", where=self.path, got=got)
        if not found.kept:
            raise TableError("no row of the table can be kept", where=self.path, got=found.summary())

    def table(self, pairs: Sequence[Pair], rows: Sequence[int], ledger: Ledger) -> Table:
        """Return the table with the pairs that were read."""
        columns = self.columns
        described = columns.names, self.taken, columns.header, self.format, ledger, columns.first, columns.guessed
        return Table(self.path, pairs, rows, *described, self.inputs)


def _kept(
    rows: Iterable[tuple[int, int | None, Sequence[str]]], name: str, ledger: Ledger
) -> Iterator[tuple[int, Pair]]:
    """Yield the row and the pair of every row that is kept; the others are in the ledger."""
    for row, line, cells in rows:
        if not cells:
            continue
        pair = Pair(*cells)
        if not pair.source.strip():
            ledger.add(row, line, name, Reason.EMPTY_SOURCE)
        elif not pair.target.strip():
            ledger.add(row, line, name, Reason.EMPTY_TARGET)
        else:
            yield row, pair


def first_row_note(table: _Read) -> str:
    """Return a note on how the first row was read (header or data); "" in a format with column names."""
    if not table.first:
        return ""
    cells = [repr(shortened(cell)) for cell in table.first[:_CELLS_OF_FIRST_ROW]]
    shown = " | ".join([*cells, "…"] if len(table.first) > len(cells) else cells)
    role, option = ("a header", "--no-header") if table.header else ("data", "--header")
    otherwise = f" (otherwise: {option})" if table.header_guessed else ""
    return f"the first row was read as {role}: {shown}{otherwise}"


def check_same_columns(table: Table, other: Table) -> None:
    """Raise ColumnError when another table has the columns of `table`, but others of them are source and target."""
    names, others = map(_column_names, (table, other))
    if other.columns and names != others and set(names) <= set(other.columns):
        kinds = ["--feature" if one.kind == "feature" else "--source" for one in table.inputs] or ["--source"]
        raise ColumnError(
            "source and target are other columns than in the table to train on",
            where=other.path,
            got=" · ".join(others),
            expected=" · ".join(names),
            hint="use " + " ".join(f"{kind} {name}" for kind, name in zip([*kinds, "--target"], names, strict=True)),
        )


def _column_names(table: Table) -> list[str]:
    source, target = (label.rpartition(" (column ")[0] for label in table.taken)
    return [*([one.name for one in table.inputs] or [source]), target]


def fingerprint(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 (hex) of the pairs in order. Lengths are included, so that texts cannot merge."""
    if isinstance(known := getattr(pairs, "fingerprint", None), str):  # stored pairs know theirs
        return known
    digest = hashlib.sha256()
    for part in fingerprint_parts(pairs):
        digest.update(part)
    return digest.hexdigest()


def fingerprint_parts(pairs: Iterable[tuple[str, str]]) -> Iterator[bytes]:
    """Yield what the fingerprint is computed from, pair by pair."""
    for source, target in pairs:
        one, other = source.encode("utf-8", "surrogatepass"), target.encode("utf-8", "surrogatepass")
        yield b"%d:%d:%b%b" % (len(one), len(other), one, other)


# Rows


class DamagedRows:
    """The damaged rows of one table: the first `_NAMED_FAULTS` are listed, the others counted."""

    def __init__(self) -> None:
        self.count = 0
        self._named: list[str] = []

    def add(self, location: str, fault: Fault) -> None:
        self.count += 1
        if self.count <= _NAMED_FAULTS:
            self._named.append(f"{location}: {fault}")

    def error(self, name: str, what: str, *, expected: str, hint: str) -> TableError:
        more = [f"and {self.count - _NAMED_FAULTS:,} more"] if self.count > _NAMED_FAULTS else []
        number = f"{self.count:,} damaged {what}{'' if self.count == 1 else 's'}"
        return TableError(
            f"the text has {number}" if what == "line" else f"the table has {number}",
            where=name,
            got="\n       ".join(self._named + more),
            expected=expected,
            hint=hint,
        )


def _scan(
    source: Source, take: Sequence[int], columns: Columns, data: DataSettings, ledger: Ledger
) -> Iterator[tuple[int, int | None, Sequence[str]]]:
    """Yield row number, line and chosen cells of every row; a blank or damaged row has none and is in the ledger.

    Raises TableError after the last row, if any was damaged and `data.bad_rows` is "stop".
    """
    name, faults, row = columns.table, DamagedRows(), 0
    for row, (line, cells, fault) in enumerate(source.rows(take, columns.consumed), 1):
        if fault:
            faults.add(f"row {row}" if line is None else f"line {line}", fault)
            ledger.add(row, line, name, *fault)
        elif not cells:
            ledger.add(row, line, name, Reason.BLANK_LINE)
        yield row, line, cells
    ledger.read = row
    if faults.count and data.bad_rows == "stop":
        raise faults.error(
            name,
            "row",
            expected=source.advice,
            hint="correct them, or skip them with --bad-rows skip; "
            "training then lists them in the ledger.jsonl of the run, other commands in --ledger FILE",
        )


def _composed(
    rows: Iterable[tuple[int, int | None, Sequence[str]]], inputs: Inputs, name: str, ledger: Ledger
) -> Iterator[tuple[int, int | None, Sequence[str]]]:
    """Yield rows whose cells are a composed source and a target; a row with a faulty cell has none, as in `_scan`."""
    for row, line, cells in rows:
        if cells and (fault := fault_of(cells[:-1], inputs)):
            ledger.add(row, line, name, REASONS[fault.kind], repr(fault.name))
            yield row, line, ()
        else:
            yield row, line, (compose(cells[:-1]), cells[-1]) if cells else cells


REASONS: dict[str, Reason] = {
    "separator": Reason.UNIT_SEPARATOR,
    "empty text": Reason.EMPTY_SOURCE,
    "empty feature": Reason.EMPTY_FEATURE,
}
"""The reason in the ledger for each kind of `CellFault`."""
