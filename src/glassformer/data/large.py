"""Tables that may be larger than memory: their pairs are stored in the cache and mapped into memory.

    table = read_any("pairs.csv", DataSettings())       a `Table`, with the same pairs, rows, ledger as `read_table`

A small table is read by `read_table`, and a large one into the cache, by the same readers. Where the lines of a format
can be read independently, processes read chunks of the file. Each chunk begins with the first line of the file, so that
its reader makes the same decisions on header and columns. A chunk of CSV ends where a row does if all quotes are in
order; a fault in the quotes, or a byte that is not UTF-8, has the whole file read again in order, by one process.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from glob import glob, has_magic
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from glassformer.data.cache import FOLDER_VARIABLE, Entry, build, content_digest, find, key_of, mapped
from glassformer.data.formats import FORMATS, Source, open_source, source_of, suffix_of, table_files
from glassformer.data.ledger import Ledger, LedgerEntry, Reason
from glassformer.data.lines import COMPRESSIONS, open_bytes, system_errors
from glassformer.data.remote import copies, is_address, public
from glassformer.data.stored import PackedPairs, PairsWriter, StoredInts, StoredPairs
from glassformer.data.tables import OpenPairs, Pair, Table, read_table
from glassformer.data.workers import ordered
from glassformer.errors import ColumnError, GlassformerError, TableError
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import Input

LARGE_BYTES = 2**24
"""Size of the text of a table from which on it is stored in the cache. A smaller one is kept in memory."""

CHUNK_BYTES = 2**21
MAX_HEAD_BYTES = 2**16

_PACKED_TIMES = 4  # about as many times larger is the text of a compressed file, or of one in a binary format
_PACKED_ROWS = 50_000
_BINARY = (".parquet", ".arrow")
_BY_LINES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")
_IN_ORDER = frozenset({Reason.NOT_UTF8, Reason.UNCLOSED_QUOTE, Reason.TEXT_AFTER_QUOTE, Reason.ROW_TOO_LONG})
"""Faults that depend on what is before them, or whose detail does."""

_ABOUT_READING = {"source", "features", "target", "header", "bad_rows"}


def read_any(path: str | Path, data: DataSettings) -> Table:
    """Read the pairs of a table, of a folder of tables, or of those that match a pattern, of any size.

    The files of a folder are read in the order of their names. An address (`s3://…`) is read by `remote`. Raises the
    errors of `read_table`, TableError for a folder without tables, ColumnError for files with different columns, and
    RunError when the cache cannot be written.
    """
    name = str(path)
    return _read_copies(name, data) if is_address(name) else _read_files(name, _listed(name), data)


def _read_copies(address: str, data: DataSettings) -> Table:
    """Read the tables at an address; errors, ledger and table name the address and not the copies."""
    address_of = copies(address)
    try:
        table = _read_files(public(address), [*address_of], data)
    except GlassformerError as error:
        for path, name in address_of.items():
            error.where = error.where and error.where.replace(path, name)
        raise
    table.ledger.entries = [replace(entry, file=address_of[entry.file]) for entry in table.ledger.entries]
    return replace(table, files=tuple((start, address_of[path]) for start, path in table.files))


def _read_files(name: str, files: list[str], data: DataSettings) -> Table:
    if _text_size(files) < LARGE_BYTES:
        tables = [read_table(file, data) for file in files]
        return tables[0] if files == [name] else _joined(name, tables)
    parts = [part for file in files for part in table_files(file)]
    with system_errors(name):
        before = [_stamp(part) for part in parts]
        contents = [[suffix_of(part), part.suffix.lower(), content_digest(part)] for part in parts]
    key = key_of("table", {"files": contents, "data": data.model_dump(include=_ABOUT_READING)})
    entry, is_damaged = find(key)
    if entry is None:
        entry = build(key, lambda folder: _store(folder, files, data))
    with system_errors(name):
        if before != [_stamp(part) for part in parts]:
            raise TableError("the file was changed while it was read", where=name, hint="start again")
    notes = (f"the cache in {entry.folder.parent} was damaged, and the table was read again",) if is_damaged else ()
    return _stored(entry, key, name, files, notes)


def read_source(source: Source, data: DataSettings) -> Table:
    """Read the pairs of an open table from Python, of any size. Raises the errors of `read_any`."""
    name, found = "(pairs)", Ledger()
    opened = OpenPairs.of(source, data, name, found)
    first: list[tuple[int, Pair]] = []
    size = 0
    for row, pair in opened.pairs:
        first.append((row, pair))
        size += len(pair.source) + len(pair.target)
        if size >= LARGE_BYTES:
            break
    else:
        found.kept = len(first)
        opened.check(found)
        return opened.table([pair for _, pair in first], [row for row, _ in first], found)

    def write(folder: Path) -> dict[str, Any]:
        with PairsWriter(folder) as writer:
            _append_in_order(writer, chain(first, opened.pairs))
            rest = {
                "fingerprint": writer.finish(),
                "starts": [0],
                "read": found.read,
                "entries": _listed_entries(found, 0),
            }
            return _description(opened) | rest

    entry = build(None, write)
    return _stored(entry, entry.folder.name, name, [name], ())


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


def _joined(name: str, tables: Sequence[Table]) -> Table:
    """Return the tables of several files as one."""
    ledger, pairs, rows, starts = Ledger(), list[Pair](), list[int](), []
    for table in tables:
        _check_columns(tables[0].path, tables[0].taken, table.path, table.taken)
        starts.append((len(pairs), table.path))
        pairs += table.pairs
        rows += table.rows
        ledger.include(table.ledger)
    return replace(tables[0], path=name, pairs=pairs, rows=rows, ledger=ledger, files=tuple(starts))


def _check_columns(first: str, expected: tuple[str, str], path: str, taken: tuple[str, str]) -> None:
    if taken != expected:
        raise ColumnError(
            "source and target are other columns than in the first file",
            where=path,
            got=" · ".join(taken),
            expected=f"{' · '.join(expected)}, as in {first}",
            hint="give the files the same columns, or name those to read with --source and --target",
        )


# Storing


def _store(folder: Path, files: Sequence[str], data: DataSettings) -> dict[str, Any]:
    """Write the pairs of files into a folder; return what else `_stored` needs."""
    with PairsWriter(folder) as writer:
        described = _store_files(writer, files, data)
        return described | {"fingerprint": writer.finish()}


def _store_files(writer: PairsWriter, files: Sequence[str], data: DataSettings) -> dict[str, Any]:
    entries: list[list[Any]] = []
    starts: list[int] = []
    described: dict[str, Any] = {}
    n_read = 0
    for position, file in enumerate(files):
        starts.append(writer.n_pairs)
        found = Ledger()
        with open_source(file) as source:
            opened = OpenPairs.of(source, data, file, found)
            _check_columns(files[0], described.get("taken", opened.taken), file, opened.taken)
            chunks = _read_chunks(file, data) if suffix_of(Path(file)) in _BY_LINES else None
            n_rows, entries_of_chunks = (0, None) if chunks is None else _append_chunks(writer, chunks)
            if entries_of_chunks is None:
                _append_in_order(writer, ((row, pair) for row, pair in opened.pairs if row > n_rows))
            else:
                found.read, found.entries = n_rows, entries_of_chunks
        found.kept = writer.n_pairs - starts[-1]
        opened.check(found)
        n_read += found.read
        entries += _listed_entries(found, position)
        described = described or _description(opened)
    return described | {"starts": starts, "read": n_read, "entries": entries}


def _listed_entries(ledger: Ledger, file: int) -> list[list[Any]]:
    return [[entry.row, entry.line, file, entry.reason, entry.detail] for entry in ledger.entries]


def _description(opened: OpenPairs) -> dict[str, Any]:
    columns = opened.columns
    return {
        "columns": columns.names,
        "taken": opened.taken,
        "header": columns.header,
        "format": opened.format,
        "first": columns.first,
        "header_guessed": columns.guessed,
        "inputs": [one.model_dump(mode="json") for one in opened.inputs],
    }


def _stored(entry: Entry, key: str, name: str, files: Sequence[str], notes: tuple[str, ...]) -> Table:
    """Return the table of an entry of the cache."""
    written = entry.description
    pairs = StoredPairs(entry.folder, key, written["fingerprint"])
    ledger = Ledger()
    ledger.read, ledger.kept = written["read"], len(pairs)
    ledger.entries = [
        LedgerEntry(row, line, files[file], Reason(reason), detail)
        for row, line, file, reason, detail in written["entries"]
    ]
    return Table(
        path=name,
        pairs=pairs,
        rows=StoredInts(mapped(entry.folder / "rows", np.int64)),
        columns=None if written["columns"] is None else tuple(written["columns"]),
        taken=(written["taken"][0], written["taken"][1]),
        header=written["header"],
        format=written["format"],
        ledger=ledger,
        first=tuple(written["first"]),
        header_guessed=written["header_guessed"],
        inputs=tuple(Input(**one) for one in written["inputs"]),
        files=() if files == [name] else tuple(zip(written["starts"], files, strict=True)),
        notes=(
            *notes,
            f"the table is larger than {LARGE_BYTES / 2**20:.0f} MiB: its {len(pairs):,} pairs are in the cache, in "
            f"{entry.folder} (another place: the environment variable {FOLDER_VARIABLE})",
        ),
    )


def _append_in_order(writer: PairsWriter, pairs: Iterator[tuple[int, Pair]]) -> None:
    while rows := list(islice(pairs, _PACKED_ROWS)):
        writer.append(PackedPairs.of([row for row, _ in rows], [pair for _, pair in rows]))


def _append_chunks(writer: PairsWriter, chunks: Iterator[Chunk]) -> tuple[int, list[LedgerEntry] | None]:
    """Write the pairs of chunks; return the number of rows, and the entries of those that are not kept.

    At a chunk that must be read in order it stops: the rows are those before it, and there are no entries.
    """
    n_rows = n_lines = 0
    entries: list[LedgerEntry] = []
    for chunk in chunks:
        if chunk.pairs is None:
            return n_rows, None
        writer.append(chunk.pairs._replace(rows=chunk.pairs.rows + n_rows))
        entries += [
            replace(entry, row=entry.row + n_rows, line=None if entry.line is None else entry.line + n_lines)
            for entry in chunk.entries
        ]
        n_rows, n_lines = n_rows + chunk.n_rows, n_lines + chunk.n_lines
    return n_rows, entries


# Chunks


class Chunk(NamedTuple):
    """A part of a file that was read: its pairs, the number of its rows and lines, and its entries in the ledger.

    Rows and lines are counted from 1 in the chunk. `pairs` is None when the file must be read in order.
    """

    pairs: PackedPairs | None
    n_rows: int = 0
    n_lines: int = 0
    entries: Sequence[LedgerEntry] = ()


def _read_chunks(path: str, data: DataSettings) -> Iterator[Chunk] | None:
    """Yield the chunks of a file, read by several processes; None when its first line is not the whole first row."""
    file = Path(path)
    with open_bytes(file) as stream:
        head = stream.readline(MAX_HEAD_BYTES)
    if not head.endswith(b"\n") or not _is_one_row(head, file):
        return None

    def parts() -> Iterator[tuple[Any, ...]]:
        with open_bytes(file) as stream:
            for number, part in enumerate(_cut(stream, quoted=suffix_of(file) == ".csv")):
                yield (b"" if number == 0 else head), part, path, data

    return ordered(read_chunk, parts())


def _is_one_row(head: bytes, path: Path) -> bool:
    """Return whether the first line is one undamaged row."""
    source = source_of(io.BytesIO(head), path)
    return source.width > 0 and source.first_fault is None and len(list(source.rows((), False))) == 1


def _cut(stream: BinaryIO, *, quoted: bool) -> Iterator[bytes]:
    """Yield a stream in chunks that end at the end of a line, for `quoted` outside of a cell in quotes."""
    rest = b""
    while block := stream.read(CHUNK_BYTES):
        rest += block
        end = rest.rfind(b"\n") + 1
        while quoted and end and rest.count(b'"', 0, end) % 2:
            end = rest.rfind(b"\n", 0, end - 1) + 1
        if end:
            yield rest[:end]
            rest = rest[end:]
    if rest:
        yield rest


def read_chunk(head: bytes, part: bytes, path: str, data: DataSettings) -> Chunk:
    """Read a part of a file. `head` is the first line of the file, or empty for the part that begins with it."""
    found = Ledger()
    n_head = 0
    try:
        source = source_of(io.BytesIO(head + part), Path(path))
        opened = OpenPairs.of(source, data, path, found)
        n_head = 0 if opened.columns.consumed or not head else 1
        kept = [both for both in opened.pairs if both[0] > n_head]
    except TableError:  # of damaged rows, or of the whole table; the reader in order has the error
        return Chunk(None)
    if any(entry.reason in _IN_ORDER for entry in found.entries):
        return Chunk(None)
    shift = _n_lines(head, path)
    entries = [
        replace(entry, row=entry.row - n_head, line=None if entry.line is None else entry.line - shift)
        for entry in found.entries
        if entry.row > n_head
    ]
    packed = PackedPairs.of([row - n_head for row, _ in kept], [pair for _, pair in kept])
    return Chunk(packed, found.read - n_head, _n_lines(part, path), entries)


def _n_lines(part: bytes, path: str) -> int:
    """Return the number of lines that end in a part; those of CSV end at a lone \\r too."""
    lone = part.count(b"\r") - part.count(b"\r\n") if suffix_of(Path(path)) == ".csv" else 0
    return part.count(b"\n") + lone
