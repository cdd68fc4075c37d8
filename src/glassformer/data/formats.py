"""Files of every format as rows of cells, one row at a time, with the faults found in them.

    open_source(path) -> OpenTable          the open table, before any column is chosen
    open_stream(stream, name)               the same of a stream, such as standard input
    OpenTable.scan(take, header, …)         the cells of the chosen columns of each row, or its fault

`delimited` has the grammar of CSV and TSV, `separators` finds what separates their cells, and `typed` reads the other
formats. `lines` opens and decodes files; `tables` chooses the columns and handles damaged rows.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO

from glassformer.data.cells import Kind
from glassformer.data.delimited import Row, csv_rows, tsv_rows
from glassformer.data.ledger import Fault, Reason
from glassformer.data.lines import COMPRESSIONS, MAX_LINE, Lines, open_bytes, system_errors
from glassformer.data.open_table import SAMPLE_ROWS, OpenTable
from glassformer.data.separators import NAMES, is_clear, separator_of, stated_separator
from glassformer.data.typed import binary, json_lines
from glassformer.data.unreadable import HEAD_BYTES, check_bytes, check_first_rows, check_suffix
from glassformer.errors import TableError, counted
from glassformer.storage.files import is_device

FORMATS = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".parquet", ".arrow")
"""Suffixes of the formats, in lower case, without the suffix of a compression."""


@contextmanager
def open_source(path: str) -> Iterator[OpenTable]:
    """Open the table at `path` for the duration of the context.

    Raises TableError for a file that is missing, unreadable, of an unknown format or damaged as a whole, and
    MissingExtraError when it needs pyarrow and that is not installed.
    """
    with system_errors(path), ExitStack() as stack:
        files = table_files(path)
        if len(files) > 1:
            streams = [stack.enter_context(open_bytes(file)) for file in files]
            yield _parallel([str(file) for file in files], list(map(Lines, streams, files)))
        else:
            suffix = _suffix_of_table(files[0])
            stream = stack.enter_context(open_bytes(files[0]))
            check_bytes(stream.peek(HEAD_BYTES) if isinstance(stream, io.BufferedReader) else b"", files[0], suffix)
            yield _open(stream, files[0], suffix, [] if is_device(files[0]) else None)


def open_stream(stream: BinaryIO, name: str, sought: Sequence[str] = ()) -> OpenTable:
    """Open the table that comes from a stream, in the format of its first line.

    The format is Parquet by its first bytes, JSON Lines for a JSON object, TSV for a line with a tab, otherwise CSV.
    Lines are read only until the columns named `sought` are found, because more may be yet to come. Raises the errors
    of `open_source`.
    """
    first = stream.readline(MAX_LINE)
    suffix = _format_of_line(first)
    check_bytes(first[:HEAD_BYTES], Path(name), suffix)
    if suffix == ".parquet":
        return _open(io.BytesIO(first + stream.read()), Path(name), suffix, sought)
    return _open(_Replayed(first, stream), Path(name), suffix, sought)


class _Replayed:
    """A stream whose first line was read, with that line."""

    def __init__(self, first: bytes, stream: Any) -> None:
        self._first, self._stream = first, stream

    def readline(self, size: int = -1, /) -> bytes:
        """Return the first line, and then the next ones."""
        first, self._first = self._first, b""
        return first or self._stream.readline(size)


def _open(stream: Any, path: Path, suffix: str, sought: Sequence[str] | None) -> OpenTable:
    """Open a table in the format of a suffix; with `sought` its rows may be yet to come."""
    match suffix:
        case ".jsonl" | ".ndjson":
            return json_lines(stream, path, sought)
        case ".parquet" | ".arrow":
            return binary(suffix[1:].capitalize(), stream, path)
        case _:
            return _delimited(stream, path, "," if suffix == ".csv" else "\t", is_live=sought is not None)


def _format_of_line(line: bytes) -> str:
    if line.startswith(b"PAR1"):
        return ".parquet"
    try:
        is_object = line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{") and isinstance(
            json.loads(line.partition(b"\r")[0]), dict
        )
    except ValueError:
        is_object = False
    return ".jsonl" if is_object else ".tsv" if b"\t" in line else ".csv"


# Files


def table_files(path: str) -> tuple[Path, ...]:
    """Return one file, or the two of `a.en,a.de`. An existing file with a comma in its name has priority."""
    whole = Path(path)
    if "," not in path or whole.exists():
        return (whole,)
    splits = [(Path(path[: at.start()]), Path(path[at.end() :])) for at in re.finditer(",", path)]
    existing = [pair for pair in splits if all(file.exists() for file in pair)]
    pair = (existing or splits)[0]
    tables = [file for file in pair if suffix_of(file) in FORMATS]
    if existing and tables:
        raise TableError(
            "two parallel files must be plain text, one sentence per line",
            where=path,
            got=f"{tables[0].name}, which is a table by its suffix",
            hint="give one table with both columns, or rename the text files, for example to a.en,a.de",
        )
    return (whole,) if tables else pair


def suffix_of(path: Path) -> str:
    """Return the suffix of the format in lower case, without the suffix of the compression."""
    return Path(without_compression(path.name)).suffix.lower()


def without_compression(name: str) -> str:
    """Return the name of a file without the suffix of its compression."""
    for compression in COMPRESSIONS:
        name = name[: -len(compression)] if name.lower().endswith(compression) else name
    return name


def _suffix_of_table(path: Path) -> str:
    """Return the suffix of a table. Raises TableError for a file with another suffix."""
    suffix = suffix_of(path)
    if suffix in FORMATS:
        return suffix
    if path.is_dir():
        raise IsADirectoryError
    if not path.exists():
        raise FileNotFoundError(2, "no such file", str(path))
    check_suffix(path, suffix)
    raise TableError(
        "the format of the table is unknown",
        where=str(path),
        got=f"the suffix {suffix!r}" if suffix else "no suffix",
        expected=f"{', '.join(FORMATS)}, each also with {' or '.join(COMPRESSIONS)}; or two parallel text files, as in "
        "a.en,a.de",
        hint="give the file the suffix of its format",
    )


# CSV and TSV


def _delimited(stream: Any, path: Path, usual: str, *, is_live: bool) -> OpenTable:
    """Return a table of separated cells, whose first undamaged row determines the number of columns.

    `is_live`: lines are read only until the separator is found.
    """
    lines, notes = Lines(stream, path, lone_cr=True), list[str]()
    separator = _separator(lines, usual, notes, is_live=is_live)
    rows = tsv_rows(lines, notes) if separator == "\t" else csv_rows(lines, notes, separator)
    before: list[Row] = []
    for row in rows:
        before.append(row)
        if (is_live or len(before) > SAMPLE_ROWS) and any(row.cells for row in before):
            break
    start = next((at for at, row in enumerate(before) if row.cells), len(before))
    if not is_live:
        check_first_rows([row for row in before if row.cells], path)
    first = tuple(before[start].cells) if start < len(before) else ()
    width = len(first)

    def read(take: Sequence[int], header: bool, _kinds: Sequence[Kind]) -> Iterator[Row]:
        # In a table of one column, a blank line is an empty cell.
        blank = ("",) * len(take) if width == 1 else ()
        skipped = before[:start] + before[start + 1 :] if header else before
        for row in chain(skipped, rows):
            if row.fault:
                yield row
            elif not row.cells:
                yield Row(row.line, blank)
            elif len(row.cells) == width:
                yield Row(row.line, [row.cells[i] for i in take])
            else:
                number = f"{counted(len(row.cells), 'cell')} instead of {width}"
                yield Row(row.line, (), Fault(Reason.WRONG_NUMBER_OF_CELLS, number))

    advice = "cells are separated by one tab, and contain neither tabs nor line breaks"
    if separator != "\t":
        name = NAMES.get(separator, "separators").removesuffix("s")
        advice = (
            f'a cell with a {name}, a quote or a line break is in "double quotes", and a quote in it is doubled ("")'
        )
    return OpenTable(
        "TSV" if separator == "\t" else "CSV",
        read,
        width,
        first=first,
        first_fault=next((row.fault for row in before[:start] if row.fault), None),
        advice=advice,
        sample=lambda: [row.cells for row in before if len(row.cells) == width],
        notes=notes,
        separator=separator,
        is_stated=lines.skipped > 0,
    )


def _separator(lines: Lines, usual: str, notes: list[str], *, is_live: bool) -> str:
    """Return the separator of the cells. A line of Excel that states it is left out; `notes` say what is unusual."""
    first = lines.peek(1)
    if first and (stated := stated_separator(first[0])) is not None:
        lines.skip()
        notes.append(f"the first line states the separator, {NAMES.get(stated, repr(stated))}")
        return stated
    if is_live and first and is_clear(first[0], usual):
        return usual
    ahead = lines.peek(2 if is_live else SAMPLE_ROWS)
    separator = separator_of(ahead, usual, is_whole=is_live or len(ahead) < SAMPLE_ROWS)
    if separator != usual:
        notes.append(f"the cells are separated by {NAMES[separator]}")
    return separator


# Two parallel text files


def _parallel(names: list[str], files: list[Lines]) -> OpenTable:
    """Return two files as one table: line i of each is row i. A blank line is an empty cell."""

    def rows(take: Sequence[int], _header: bool, _kinds: Sequence[Kind]) -> Iterator[Row]:
        end = (0, "", None)
        counts = [0, 0]
        for sides in zip_longest(*(lines.numbered() for lines in files), fillvalue=end):
            counts = [max(count, side[0]) for count, side in zip(counts, sides, strict=True)]
            faults = ((fault, name) for name, (_, _, fault) in zip(names, sides, strict=True) if fault)
            reasons = (Fault(reason, ", ".join(filter(None, (why, f"in {name}")))) for (reason, why), name in faults)
            fault = next(reasons, None)
            yield Row(max(counts), () if fault else [sides[i][1] for i in take], fault)
        if counts[0] != counts[1]:
            raise TableError(
                "the two parallel files do not have the same number of lines, so they cannot be paired",
                where=",".join(names),
                got=" and ".join(f"{count:,} lines in {name}" for count, name in zip(counts, names, strict=True)),
                hint="line i of one file must belong to line i of the other; find the first line that does not match",
            )

    return OpenTable("parallel text", rows, 2, tuple(names), advice="both files are UTF-8 text, one sentence per line")
