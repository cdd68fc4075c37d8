"""A table of any format as pairs of source and target, with a ledger of every row that was not kept.

    table = read_table("pairs.csv", DataSettings())      table.pairs, table.rows, table.ledger

Everything is text as it stands: "NA", "null", "nan" and a lone quote are cells like any other, and no cell is
stripped. `formats` reads the files; here columns are chosen, a header is recognised, rows are kept or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeGuard

from glassformer.data.formats import Source, open_source
from glassformer.data.ledger import Ledger, LedgerEntry
from glassformer.data.lines import Lines, open_bytes, system_errors
from glassformer.errors import ColumnError, TableError, nearest
from glassformer.settings import DataSettings

__all__ = [
    "Ledger",
    "LedgerEntry",
    "Pair",
    "Table",
    "fingerprint",
    "read_column",
    "read_lines",
    "read_table",
]

_NAMED_FAULTS = 10
_MAX_POSITION_DIGITS = 20
_SHORT = 60  # characters of a cell or name in a message

_Column = str | int | None  # by name, by position from 0, or not said

# Two of these among the cells of a first row, and it is taken for a header.
_USUAL_NAME_LIST = """
    source target src tgt trg x y input output inputs outputs text label labels from to question answer
    query response prompt completion instruction word words pron pronunciation phoneme phonemes phone
    phones grapheme graphemes transcription ipa spelling transliteration translation translated original
    reference hypothesis command commands action actions sentence sentences logical_form lf form lemma
    name date iso human machine id index split category source_text target_text input_text output_text
    arabic bulgarian chinese czech danish dutch english finnish french german greek hebrew hindi hungarian
    italian japanese korean latin norwegian polish portuguese romanian russian spanish swedish turkish
    ukrainian en de fr nl es it pt ru zh ja ko ar tr pl sv da fi cs el he hi hu uk ro bg la
"""
_USUAL_NAMES = frozenset(_USUAL_NAME_LIST.split())


class Pair(NamedTuple):
    """One example: a source text and its target text."""

    source: str
    target: str


@dataclass(frozen=True)
class Table:
    """The pairs of a table, and how it was read.

    `rows` holds the row number of each kept pair, counted as in `LedgerEntry`. `columns` are the names of all
    columns (from the header, the keys of JSON objects, or the two file names), or None. `taken` says for
    people what became source and target. `header` tells whether the names stand in the table.
    """

    path: str
    pairs: list[Pair]
    rows: list[int]
    columns: tuple[str, ...] | None
    taken: tuple[str, str]
    header: bool
    format: str
    ledger: Ledger

    def place(self, index: int) -> str:
        """Where kept pair `index` (from 0) stands, for errors."""
        return f"{self.path}, row {self.rows[index]}"

    @property
    def places(self) -> list[str]:
        """Where each kept pair stands."""
        return [self.place(index) for index in range(len(self.rows))]


def read_table(path: str | Path, data: DataSettings, ledger: Ledger | None = None) -> Table:
    """The pairs of the table at `path`; what is not kept goes to `ledger`, or to a new one.

    A blank line and an empty (or all white) source or target are entered in the ledger. A damaged row
    (ragged, unclosed quote, not UTF-8, NUL, a value that is no text) is an error, or with `data.bad_rows`
    "skip" goes to the ledger. JSON Lines, Parquet and parallel files have their own names, whatever
    `data.header` says.

    Raises TableError for a table that cannot be read or holds no pairs, ColumnError for a column that it does
    not have, MissingExtraError when its format needs pyarrow. `ledger` then stays as it was, unless the table
    could be read and no row could be kept.
    """
    name = str(path)
    found = Ledger()
    pairs: list[Pair] = []
    rows: list[int] = []
    with open_source(name) as source:
        columns = _Columns.of(source, (data.source, data.target), data.header, name)
        take: tuple[int, ...] = columns.pair(data) if source.width else ()
        for row, line, cells in _scan(source, take, columns, data, found):
            if not cells:
                continue
            pair = Pair(*cells)
            if not pair.source.strip():
                found.add(row, line, "empty source", name)
            elif not pair.target.strip():
                found.add(row, line, "empty target", name)
            else:
                pairs.append(pair)
                rows.append(row)
    found.kept = len(pairs)
    ledger = ledger if ledger is not None else Ledger()
    ledger.include(found)
    if not found.read:
        raise TableError(
            "the table has no rows",
            where=name,
            got="a header and nothing below it" if columns.consumed else None,
        )
    if not pairs:
        raise TableError("no row of the table can be kept", where=name, got=found.summary())
    taken = (columns.label(take[0]), columns.label(take[1]))
    return Table(name, pairs, rows, columns.names, taken, columns.header, source.format, ledger)


def read_column(
    path: str | Path, column: str | int | None, data: DataSettings, ledger: Ledger | None = None
) -> list[str]:
    """Every cell of one column (None: "source", or else the first), so that item i is row i + 1.

    An empty cell is kept; a blank line, or with `data.bad_rows == "skip"` a damaged row, is an empty cell
    too and is entered in `ledger`. Raises as `read_table` does; a header without rows gives an empty list.
    """
    name = str(path)
    found = Ledger()
    with open_source(name) as source:
        columns = _Columns.of(source, (column,), data.header, name)
        if column is None:
            column = "source" if "source" in (columns.names or ()) else 0
        take = (columns.position(column),) if source.width else ()
        cells = [taken[0] if taken else "" for _, _, taken in _scan(source, take, columns, data, found)]
    if not source.width:
        raise TableError("the table has no rows", where=name)
    found.kept = found.read - len(found.entries)
    if ledger is not None:
        ledger.include(found)
    return cells


def read_lines(source: str | Path | BinaryIO) -> list[str]:
    r"""The lines of a plain text, from a path (also .gz, .zst) or a binary stream.

    Lines end at \n or \r\n and nowhere else; a last line without an end counts. A byte order mark is dropped.
    Raises TableError for a file that cannot be read, and for lines that are not UTF-8 or hold NUL.
    """
    if isinstance(source, (str, Path)):
        with system_errors(str(source)), open_bytes(Path(source)) as stream:
            return _lines_of(stream, str(source))
    return _lines_of(source, str(getattr(source, "name", "the input")))


def fingerprint(pairs: Iterable[tuple[str, str]]) -> str:
    """SHA-256 (hex) over the pairs in order; the lengths go in too, so that no text runs into the next."""
    digest = hashlib.sha256()
    for source, target in pairs:
        one, other = source.encode("utf-8", "surrogatepass"), target.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%d:%b%b" % (len(one), len(other), one, other))
    return digest.hexdigest()


# Rows


class _Faults:
    """The damaged rows of one table: the first few by name, the rest as a number."""

    def __init__(self) -> None:
        self.count = 0
        self._named: list[str] = []

    def add(self, place: str, fault: str) -> None:
        self.count += 1
        if self.count <= _NAMED_FAULTS:
            self._named.append(f"{place}: {fault}")

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
    source: Source, take: Sequence[int], columns: _Columns, data: DataSettings, ledger: Ledger
) -> Iterator[tuple[int, int | None, Sequence[str]]]:
    """Row, line and taken cells of every row; no cells: blank or damaged, and entered in the ledger.

    Raises TableError after the last row, if any was damaged and `data.bad_rows` is "stop".
    """
    name, faults, row = columns.table, _Faults(), 0
    for row, (line, cells, fault) in enumerate(source.rows(take, columns.consumed), 1):
        if fault:
            faults.add(f"row {row}" if line is None else f"line {line}", fault)
            ledger.add(row, line, fault, name)
        elif not cells:
            ledger.add(row, line, "blank line", name)
        yield row, line, cells
    ledger.read = row
    if faults.count and data.bad_rows == "stop":
        raise faults.error(
            name,
            "row",
            expected=source.advice,
            hint="mend them, or leave them out with --bad-rows skip: the ledger then lists them",
        )


def _lines_of(stream: BinaryIO, name: str) -> list[str]:
    faults, texts = _Faults(), []
    for number, text, fault in Lines(stream, name).numbered():
        texts.append(text)
        if fault:
            faults.add(f"line {number}", fault)
    if faults.count:
        raise faults.error(name, "line", expected="UTF-8 text", hint="save the text as UTF-8")
    return texts


# Columns


@dataclass(frozen=True)
class _Columns:
    """The columns of one open table: their names, if any, and where the names come from."""

    table: str
    names: tuple[str, ...] | None
    first: tuple[str, ...]
    width: int
    header: bool
    consumed: bool  # the first row is the header, and not a row

    @classmethod
    def of(cls, source: Source, asked: Sequence[_Column], header: str, table: str) -> _Columns:
        """Raises TableError when the first row is said to be a header and is damaged."""
        if source.names is not None:
            own = source.format != "parallel text"
            return cls(table, source.names, (), source.width, header=own, consumed=False)
        if header == "yes" and source.first_fault:
            raise TableError(
                "the header is damaged",
                where=table,
                got=source.first_fault,
                expected=source.advice,
                hint="mend it",
            )
        found = _is_header(source.first, asked, header)
        names = source.first if found else None
        return cls(table, names, source.first, source.width, header=found, consumed=found)

    def pair(self, data: DataSettings) -> tuple[int, int]:
        """The positions of source and target. Raises ColumnError, or TableError for a table of one column."""
        if self.width < 2:
            raise self._one_column()
        if data.source is None and data.target is None:
            called = {"source", "target"} <= set(self.names or ())
            return (self.position("source"), self.position("target")) if called else (0, 1)
        if data.source is None:
            target = self.position(data.target)
            return self._other(target, "target", "source"), target
        if data.target is None:
            source = self.position(data.source)
            return source, self._other(source, "source", "target")
        source, target = self.position(data.source), self.position(data.target)
        if source == target:
            raise ColumnError(
                "source and target are the same column",
                where=self.table,
                got=self.label(source),
                expected=f"two of these: {self._listed()}",
            )
        return source, target

    def position(self, column: _Column) -> int:
        """Where a column stands, given by name or position from 0. Raises ColumnError."""
        names = self.names or ()
        if isinstance(column, str) and column in names:
            if names.count(column) > 1:
                raise ColumnError(
                    f"{names.count(column)} columns are called {column!r}",
                    where=self.table,
                    got=self._listed(),
                    hint=f"say which by its position, {names.index(column)} for the first of them",
                )
            return names.index(column)
        if _is_position(column):
            position = _as_position(column)
            if position is not None and 0 <= position < self.width:
                return position
            raise ColumnError(
                f"there is no column {_position_for_people(column)}",
                where=self.table,
                got=f"{self.width} {'column' if self.width == 1 else 'columns'}: {self._listed()}",
                expected=f"a position from 0 to {self.width - 1}" if self.width > 1 else "position 0",
            )
        if self.names is None:
            raise ColumnError(
                f"there is no column {_short(str(column))!r}, because the first row was not taken for a header",
                where=self.table,
                got=f"the first row {self._listed()}",
                expected=f"a position from 0 to {self.width - 1}",
                hint="if the first row names the columns, say --header, and take a name from it",
            )
        name = _short(str(column))
        raise ColumnError(f"there is no column {name!r}", where=self.table, hint=nearest(name, names))

    def _other(self, known: int, given: str, missing: str) -> int:
        """The column beside the known one, where there is only one such."""
        if self.width == 2:
            return 1 - known
        raise ColumnError(
            f"the {given} column is named, the {missing} column is not",
            where=self.table,
            got=f"{self.width} columns: {self._listed()}",
            hint=f"name it with --{missing}",
        )

    def label(self, position: int) -> str:
        """One column for people."""
        return f"column {position}" if self.names is None else f"{self.names[position]} (column {position})"

    def _listed(self) -> str:
        return " | ".join(map(_short, self.names or self.first))

    def _one_column(self) -> TableError:
        cell = self._listed()
        hint = "give a table with a column for the source and one for the target"
        for sign, name, advice in (
            ("\t", "tabs", "name the file .tsv"),
            (";", "semicolons", "save it with commas"),
        ):
            if sign in cell:
                hint = f"its cells seem to be separated by {name}: {advice}"
        return TableError(
            "the table has one column, and pairs need two",
            where=self.table,
            got=f"the first row {cell}",
            hint=hint,
        )


def _is_position(column: _Column) -> TypeGuard[int | str]:
    return isinstance(column, int) or (column is not None and column.isascii() and column.isdigit())


def _as_position(column: int | str) -> int | None:
    """The number that a position says; None for digits that no table has columns for."""
    if isinstance(column, int):
        return column
    digits = column.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_POSITION_DIGITS else None


def _position_for_people(column: int | str) -> str:
    """A position for a message: Python refuses to write integers of thousands of digits, and nobody reads them."""
    if isinstance(column, int):
        too_long = abs(column) >= 10**_MAX_POSITION_DIGITS
        return f"with a position of more than {_MAX_POSITION_DIGITS} digits" if too_long else str(column)
    digits = column.lstrip("0") or "0"
    if len(digits) <= _MAX_POSITION_DIGITS:
        return digits
    return f"{digits[:_MAX_POSITION_DIGITS]}… ({len(digits):,} digits)"


def _short(text: str) -> str:
    """A cell or name for a message."""
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _is_header(first: tuple[str, ...], asked: Sequence[_Column], header: str) -> bool:
    """Whether the first row names the columns: as stated, else as the asked names and its cells tell."""
    if header != "auto":
        return header == "yes"
    names = [column for column in asked if isinstance(column, str) and not _is_position(column)]
    if names and all(name in first for name in names):
        return True
    cells = [cell.strip().lower() for cell in first]
    distinct = len(set(cells)) == len(cells) and all(cells)
    return distinct and len(_USUAL_NAMES.intersection(cells)) >= 2
