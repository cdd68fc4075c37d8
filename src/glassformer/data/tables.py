"""Read a table of any format and size as pairs of source and target, with a ledger of every row that was not kept.

    table = read_table("pairs.csv", DataSettings())      table.pairs, table.rows, table.ledger

All cells are text, unchanged: "NA", "null", "nan" and a lone quote are cells like any other, and no cell is stripped.
`formats` reads the files and counts the rows, `columns` chooses the columns and recognizes a header, and this module
keeps or drops the rows. The pairs of a small table are in memory, those of a large one in the cache.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from typing import Any

from glassformer.data.cache import FOLDER_VARIABLE, Entry, cached, content_digest, key_of
from glassformer.data.columns import Columns, requested
from glassformer.data.formats import FORMATS, InputRow, Source, damage, open_source, suffix_of, table_files
from glassformer.data.ledger import Fault, Ledger, LedgerEntry, Reason
from glassformer.data.lines import COMPRESSIONS, system_errors
from glassformer.data.pairs import Pair
from glassformer.data.stored import StoredPairs, write_pairs
from glassformer.errors import ColumnError, TableError
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import Input, Inputs, compose, fault_of

__all__ = ["Pair", "Table", "read_table"]

LARGE_BYTES = 2**24
"""Size of the text of a table from which on it is stored in the cache. A smaller one is kept in memory."""

_PACKED_TIMES = 4  # about as many times larger is the text of a compressed file, or of one in a binary format
_BINARY = (".parquet", ".arrow")
_ABOUT_READING = {"source", "features", "target", "header", "bad_rows"}
_DESCRIBED = ("columns", "taken", "header", "format", "first", "header_guessed")


@dataclass(frozen=True)
class Table:
    """The pairs of a table, and how it was read.

    `rows` has the row number of each kept pair, counted as in `LedgerEntry`. `columns` are the names of all columns
    (from the header, the keys of JSON objects, or the two file names), or None. `taken` are the labels of the source
    and target columns. `header` is whether the table itself contains the names. `first` is the first row (empty in a
    format with column names), and `header_guessed` is whether the header was detected from its cells only. `inputs` are
    those of sources that have several (see `text/inputs.py`). `files` are those of a table of several: the index of the
    first pair of each, and its path.
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


def read_table(path: str | Path, data: DataSettings) -> Table:
    """Read the pairs of a table of any size: a file, two parallel files, a folder or a pattern.

    The files of a folder are read in the order of their names. A blank line and an empty source or target (or white
    space only) are added to the ledger. A damaged row (wrong number of cells, unclosed quote, not UTF-8, NUL, a value
    that is not text) is an error, or with `data.bad_rows` "skip" is added to the ledger. `data.header` is ignored for
    JSON Lines, Parquet, Arrow and parallel files, which have column names.

    Raises TableError for a table that cannot be read or has no pairs, ColumnError for a column that it does not have
    and for files with different columns, MissingExtraError for a library that is not installed, and RunError when the
    cache cannot be written.
    """
    name, files = str(path), _listed(str(path))
    reader = _Reader(name, [(file, open_source(file)) for file in files], data)
    if _text_size(files) < LARGE_BYTES:
        return _in_memory(reader, list(reader))
    parts = [part for file in files for part in table_files(file)]
    with system_errors(name):
        before = [_stamp(part) for part in parts]
        contents = [[suffix_of(part), part.suffix.lower(), content_digest(part)] for part in parts]
    key = key_of("table", {"files": contents, "data": data.model_dump(include=_ABOUT_READING)})
    entry = cached(key, lambda folder: _store(folder, reader, reader))
    with system_errors(name):
        if before != [_stamp(part) for part in parts]:
            raise TableError("the file was changed while it was read", where=name, hint="start again")
    return _stored(entry, name, files)


def read_source(source: Source, data: DataSettings) -> Table:
    """Read the pairs of an open table from Python, of any size. Raises the errors of `read_table`."""
    reader = _Reader("(pairs)", [("(pairs)", nullcontext(source))], data)
    pairs, first, size = iter(reader), list[tuple[int, Pair]](), 0
    for row, pair in pairs:
        first.append((row, pair))
        size += len(pair.source) + len(pair.target)
        if size >= LARGE_BYTES:
            entry = cached(None, lambda folder: _store(folder, reader, chain(first, pairs)))
            return _stored(entry, "(pairs)", ["(pairs)"])
    return _in_memory(reader, first)


# Messages


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


# Rows


_REASONS = {
    "separator": Reason.UNIT_SEPARATOR,
    "empty text": Reason.EMPTY_SOURCE,
    "empty feature": Reason.EMPTY_FEATURE,
}
"""The reason in the ledger for each kind of `CellFault`."""


def cell_fault(cells: Sequence[str], inputs: Inputs) -> Fault | None:
    """Return why a row with these cells, of which the last one is the target, is not a pair; or None."""
    if inputs and (found := fault_of(cells[:-1], inputs)):
        return Fault(_REASONS[found.kind], repr(found.name))
    if not inputs and not cells[0].strip():
        return Fault(Reason.EMPTY_SOURCE)
    return None if cells[-1].strip() else Fault(Reason.EMPTY_TARGET)


def _open(source: Source, data: DataSettings, path: str) -> tuple[Table, Iterator[tuple[int, Pair]]]:
    """Choose the columns of an open table. Return the table without its pairs, and what reads them."""
    columns = Columns.of(source, requested(data, source.first), data.header, path)
    take: tuple[int, ...] = ()
    inputs: Inputs = ()
    taken = ("", "")
    if source.width:  # else no row has cells
        chosen = columns.choose(data)
        take, inputs = chosen.all, columns.inputs(chosen)
        taken = (" + ".join(map(columns.label, take[:-1])), columns.label(chosen.target))
    described = columns.names, taken, columns.header, source.format, Ledger(), columns.first, columns.guessed, inputs
    table = Table(path, (), (), *described)
    rows = source.scan(take, columns.consumed, path, table.ledger)
    return table, _pairs_of(rows, table, source.advice, stops=data.bad_rows == "stop")


def _pairs_of(rows: Iterable[InputRow], table: Table, expected: str, *, stops: bool) -> Iterator[tuple[int, Pair]]:
    """Yield the row and the pair of every row with cells, except those with an empty or faulty one.

    If it `stops` at damage, TableError is raised after the last row when any was damaged.
    """
    damaged, inputs = [], table.inputs
    for row in rows:
        if row.fault and stops:
            damaged.append(row)
        elif row.cells and (fault := cell_fault(row.cells, inputs)):
            table.ledger.drop(row.number, table.path, fault, row.line)
        elif row.cells:
            yield row.number, Pair(compose(row.cells[:-1]) if inputs else row.cells[0], row.cells[-1])
    if damaged:
        hint = "correct them, or skip them with --bad-rows skip; "
        hint += "training then lists them in the ledger.jsonl of the run, other commands in --ledger FILE"
        raise damage(damaged, table.path, expected=expected, hint=hint)


# Tables


class _Reader:
    """Reads tables one after the other, once. Afterwards `table` has what is said about all of them, without pairs."""

    def __init__(self, name: str, sources: Sequence[tuple[str, AbstractContextManager[Source]]], data: DataSettings):
        self._name, self._sources, self._data = name, sources, data
        self.table: Table | None = None

    def __iter__(self) -> Iterator[tuple[int, Pair]]:
        """Yield the row and the pair of every row that is kept."""
        ledger, files, n_pairs = Ledger(), [], 0
        for path, opening in self._sources:
            with opening as source:
                table, pairs = _open(source, self._data, path)
                if source.width:
                    _check_columns(self.table or table, table)
                self.table = self.table or table
                files.append((n_pairs, path))
                for kept in pairs:
                    n_pairs += 1
                    yield kept
            _check_kept(table)
            ledger.include(table.ledger)
        assert self.table is not None
        is_one = [path for _, path in files] == [self._name]
        self.table = replace(self.table, path=self._name, ledger=ledger, files=() if is_one else tuple(files))


def _check_columns(first: Table, other: Table) -> None:
    if other.taken != first.taken:
        raise ColumnError(
            "source and target are other columns than in the first file",
            where=other.path,
            got=" · ".join(other.taken),
            expected=f"{' · '.join(first.taken)}, as in {first.path}",
            hint="give the files the same columns, or name those to read with --source and --target",
        )


def _check_kept(table: Table) -> None:
    """Raise TableError when all rows were read and none could be kept."""
    if not table.ledger.read:
        got = "a header and no other row" if table.header and table.first else None
        raise TableError("the table has no rows", where=table.path, got=got)
    if not table.ledger.kept:
        raise TableError("no row of the table can be kept", where=table.path, got=table.ledger.summary())


def _in_memory(reader: _Reader, kept: Sequence[tuple[int, Pair]]) -> Table:
    assert reader.table is not None
    return replace(reader.table, pairs=[pair for _, pair in kept], rows=[row for row, _ in kept])


def _store(folder: Path, reader: _Reader, kept: Iterable[tuple[int, Pair]]) -> dict[str, Any]:
    """Write the pairs into a folder of the cache; return what else `_stored` needs."""
    fingerprint, table = write_pairs(folder, kept), reader.table
    assert table is not None
    files = table.files or ((0, table.path),)
    position = {path: i for i, (_, path) in enumerate(files)}
    return {name: getattr(table, name) for name in _DESCRIBED} | {
        "inputs": [one.model_dump(mode="json") for one in table.inputs],
        "fingerprint": fingerprint,
        "starts": [start for start, _ in files],
        "read": table.ledger.read,
        "entries": [[one.row, one.line, position[one.file], one.reason, one.detail] for one in table.ledger.entries],
    }


def _stored(entry: Entry, name: str, files: Sequence[str]) -> Table:
    """Return the table of an entry of the cache."""
    written = entry.description
    pairs = StoredPairs(entry.folder, entry.key, written["fingerprint"])
    ledger = Ledger()
    ledger.read, ledger.kept = written["read"], len(pairs)
    ledger.entries = [
        LedgerEntry(row, line, files[file], Reason(reason), detail)
        for row, line, file, reason, detail in written["entries"]
    ]
    damaged = (f"the cache in {entry.folder.parent} was damaged, and the table was read again",) * entry.was_damaged
    described: dict[str, Any] = {
        name: tuple(written[name]) if isinstance(written[name], list) else written[name] for name in _DESCRIBED
    }
    return Table(
        path=name,
        pairs=pairs,
        rows=pairs.rows,
        ledger=ledger,
        inputs=tuple(Input(**one) for one in written["inputs"]),
        files=() if files == [name] else tuple(zip(written["starts"], files, strict=True)),
        notes=(
            *damaged,
            f"the table is larger than {LARGE_BYTES / 2**20:.0f} MiB: its {len(pairs):,} pairs are in the cache, in "
            f"{entry.folder} (another place: the environment variable {FOLDER_VARIABLE})",
        ),
        **described,
    )


# Files


def _listed(path: str) -> list[str]:
    """Return the files of a folder or of a pattern, in order; otherwise the path itself."""
    where = Path(path)
    if where.is_dir():
        with system_errors(path):
            found = sorted(file for file in where.iterdir() if suffix_of(file) in FORMATS and file.is_file())
        found = [file for file in found if not file.name.startswith(".")]
        if not found:
            raise TableError(
                "there is no table in this folder", where=path, expected=f"files that end in {', '.join(FORMATS)}"
            )
        return [str(file) for file in found]
    if has_magic(path) and not where.exists():
        matches = sorted(file for file in glob(path) if Path(file).is_file())  # noqa: PTH207, of any root
        if not matches:
            raise TableError("no file matches this pattern", where=path)
        return matches
    return [path]


def _text_size(files: Sequence[str]) -> int:
    """Return about how many bytes of text files have; 0 for what is missing, whose error the reader has."""
    total = 0
    for path in (part for file in files for part in table_files(file)):
        try:
            size = path.stat().st_size if path.is_file() else 0
        except (OSError, ValueError):
            return 0
        is_packed = path.suffix.lower() in (*COMPRESSIONS, *_BINARY)
        total += size * (_PACKED_TIMES if is_packed else 1)
    return total


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
