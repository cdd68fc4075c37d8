"""Read a table of any format as pairs of source and target, with a ledger of every row that was not kept.

    table = read_table("pairs.csv", DataSettings())      table.pairs, table.rows, table.ledger

All cells are text, unchanged: "NA", "null", "nan" and a lone quote are cells like any other, and no cell is stripped.
`formats` reads the files and counts the rows, `columns` chooses the columns and recognizes a header, and this module
keeps or drops the rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import pairwise
from pathlib import Path
from typing import Literal

from glassformer.data.column_settings import requested
from glassformer.data.columns import TRAINING, Columns
from glassformer.data.delimited import Row
from glassformer.data.formats import FORMATS, open_source, suffix_of, table_files
from glassformer.data.ledger import Fault, Ledger, Reason
from glassformer.data.lines import system_errors
from glassformer.data.open_table import OpenTable, damage
from glassformer.data.pairs import Pair
from glassformer.errors import TableError
from glassformer.settings import DataSettings
from glassformer.storage.records import TakenColumns
from glassformer.text.inputs import Inputs, Source, compose, empty_input

__all__ = ["Pair", "Table", "read_table"]


@dataclass(frozen=True)
class Table:
    """The pairs of a table, and how it was read.

    `rows` has the row number of each kept pair, counted as in `LedgerEntry`. `columns` are the names of all columns
    (from the header, the keys of JSON objects, or the two file names), or None. `taken` are those that were read, None
    for pairs from Python. `header` is whether the table itself contains the names. `first` is the first row (empty in a
    format with column names), and `header_guessed` is whether the header was detected from its cells only. `inputs` are
    the inputs of a source, where it has several (see `text/inputs.py`). `files` are the files of a table of several:
    the index of the first pair of each, and its path. `notes` say what is unusual in how the table was read;
    `header_setting` is the setting `data.header` with which it was read.
    """

    path: str
    pairs: Sequence[Pair]
    rows: Sequence[int]
    columns: tuple[str, ...] | None
    taken: TakenColumns | None
    header: bool
    format: str
    ledger: Ledger
    first: tuple[str, ...] = ()
    header_guessed: bool = False
    inputs: Inputs = ()
    files: tuple[tuple[int, str], ...] = ()
    notes: tuple[str, ...] = ()
    header_setting: Literal["auto", "yes", "no"] = "auto"

    @property
    def unread(self) -> list[str]:
        """The names of the columns that are not read."""
        read = () if self.taken is None else self.taken.positions
        return [name for at, name in enumerate(self.columns or ()) if name and at not in read]

    def file(self, index: int) -> str:
        """Return the path of the file that kept pair `index` (from 0) is from."""
        return self.files[bisect_right(self.files, index, key=lambda file: file[0]) - 1][1] if self.files else self.path

    def by_file(self) -> Iterator[tuple[str, range]]:
        """Yield the path of each file of the table, and the indices of the kept pairs that are from it."""
        files = self.files or ((0, self.path),)
        for (start, path), (end, _) in pairwise((*files, (len(self.rows), ""))):
            yield path, range(start, end)

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
    def labels(self) -> tuple[str, str]:
        """The names and positions of the columns of source and target, for people."""
        return ("source", "target") if self.taken is None else self.taken.labels

    @property
    def sources(self) -> list[Source]:
        return [pair.source for pair in self.pairs]

    @property
    def locations(self) -> list[str]:
        """The path and row of each kept pair, for errors."""
        return [self.location(index) for index in range(len(self.rows))]


def read_table(path: str | Path, data: DataSettings, like: TakenColumns | None = None) -> Table:
    """Read the pairs of a table: a file, two parallel files, a folder or a pattern.

    The files of a folder are read in the order of their names. A blank line and a source or target that is empty (or
    white space only) or missing are added to the ledger. A damaged row (wrong number of cells, unclosed quote, not
    UTF-8, NUL, a value that is not text) is an error, or with `data.bad_rows` "skip" is added to the ledger.
    `data.header` is ignored for JSON Lines, Parquet, Arrow and parallel files, which have column names. `like` are the
    columns that a model, or the table to train on, was read with: those that `data` does not set (`columns` has the
    rule).

    Raises TableError for a table that cannot be read or has no pairs, ColumnError for a column that it does not have
    and for files with different columns, and MissingExtraError for a library that is not installed.
    """
    name = str(path)
    return _read(name, [(file, open_source(file)) for file in _listed(name)], data, like)


def read_source(source: OpenTable, data: DataSettings, like: TakenColumns | None = None) -> Table:
    """Read the pairs of an open table from Python. Raises the errors of `read_table`."""
    return _read("(pairs)", [("(pairs)", nullcontext(source))], data, like)


# Rows


def cell_fault(cells: Sequence[str], inputs: Inputs) -> Fault | None:
    """Return why a row with these cells (the last one is the target) is not a pair; or None."""
    if inputs and (empty := empty_input(cells[:-1], inputs)):
        return Fault(Reason.EMPTY_SOURCE if empty.kind == "text" else Reason.EMPTY_FEATURE, repr(empty.name))
    if not inputs and not cells[0].strip():
        return Fault(Reason.EMPTY_SOURCE)
    return None if cells[-1].strip() else Fault(Reason.EMPTY_TARGET)


def _pairs_of(rows: Iterable[Row], table: Table, expected: str, *, stops: bool) -> Iterator[tuple[int, Pair]]:
    """Yield the row and the pair of every row with cells, except rows with an empty or faulty cell.

    With `stops`, TableError is raised after the last row when any row was damaged.
    """
    damaged, inputs = [], table.inputs
    for row in rows:
        if row.fault and row.fault.reason is not Reason.MISSING_VALUE and stops:
            damaged.append(row)
        elif row.cells and (fault := cell_fault(row.cells, inputs)):
            table.ledger.drop(row.number, table.path, fault, row.line)
        elif row.cells:
            yield row.number, Pair(compose(row.cells[:-1]), row.cells[-1])
    if damaged:
        hint = "correct them, or skip them with --bad-rows skip; "
        hint += "training then lists them in the ledger.jsonl of the run, evaluate and score in --ledger FILE"
        raise damage(damaged, table.path, expected=expected, hint=hint)


# Tables


def _read(
    name: str,
    sources: Iterable[tuple[str, AbstractContextManager[OpenTable]]],
    data: DataSettings,
    like: TakenColumns | None,
) -> Table:
    """Read tables one after the other as one, called `name`."""
    ledger, files, notes = Ledger(), list[tuple[int, str]](), list[str]()
    pairs, rows = list[Pair](), list[int]()
    first: Table | None = None
    origin = TRAINING
    for path, opening in sources:
        with opening as source:
            columns = Columns.of(source, requested(data, source.first), data.header, path, like=like)
            taken = columns.choose(data, like, origin) if source.width else None  # None: no row has cells
            table = Table(
                path,
                (),
                (),
                columns.names,
                taken,
                columns.header,
                source.format,
                Ledger(),
                source.first,
                columns.guessed,
                columns.inputs(taken) if taken else (),
                header_setting=data.header,
            )
            scanned = source.scan(taken.positions if taken else (), columns.consumed, path, table.ledger)
            first = first or table
            if like is None or first is table:  # further files have the columns of the first one
                like, origin = taken, path
                data = data.model_copy(update={"source": None, "features": (), "target": None})
            files.append((len(pairs), path))
            for row, pair in _pairs_of(scanned, table, source.advice, stops=data.bad_rows == "stop"):
                rows.append(row)
                pairs.append(pair)
            notes += [note if path == name else f"{path}: {note}" for note in source.notes]
        _check_kept(table)
        ledger.include(table.ledger)
    assert first is not None
    all_files = () if [path for _, path in files] == [name] else tuple(files)
    return replace(first, path=name, pairs=pairs, rows=rows, ledger=ledger, files=all_files, notes=tuple(notes))


def _check_kept(table: Table) -> None:
    """Raise TableError when all rows were read and none could be kept."""
    if not table.ledger.read:
        got = "a header and no other row" if table.header and table.first else None
        raise TableError("the table has no rows", where=table.path, got=got)
    if not table.ledger.kept:
        raise TableError("no row of the table can be kept", where=table.path, got=table.ledger.summary())


# Files


def _listed(path: str) -> list[str]:
    """Return the files of a folder or of a pattern, in order; otherwise the path itself."""
    where = Path(path)
    with system_errors(path):
        if where.is_dir():
            tables = sorted(file for file in where.iterdir() if suffix_of(file) in FORMATS and file.is_file())
            tables = [file for file in tables if not file.name.startswith(".")]
            if not tables:
                raise TableError(
                    "there is no table in this folder", where=path, expected=f"files that end in {', '.join(FORMATS)}"
                )
            return [str(file) for file in tables]
        if has_magic(path) and not all(file.exists() for file in table_files(path)):
            matches = sorted(file for file in glob(path) if Path(file).is_file())  # noqa: PTH207, of any root
            if not matches:
                raise TableError("no file matches this pattern", where=path)
            return matches
    return [path]
