"""Files of every format as rows of cells, one row at a time, with the faults found in them.

    open_source(path) -> Source                the open table, before any column is chosen
    open_stream(stream, suffix, name)          the same of a stream, such as standard input
    Source.scan(take, header, …)               the cells of the chosen columns of each row, or its fault

Each reader handles the grammar of one format; `delimited` has that of CSV and TSV. `lines` opens and decodes files;
`tables` chooses the columns and handles damaged rows.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar, cast

from glassformer.data.cells import FaultError, Json, Kind, arrow_values, text_row
from glassformer.data.delimited import Row, csv_rows, tsv_rows
from glassformer.data.ledger import Fault, Ledger, Reason
from glassformer.data.lines import COMPRESSIONS, Lines, corrupt, open_bytes, pyarrow, system_errors
from glassformer.errors import TableError, UsageError, counted, nearest

_NAMED_FAULTS = 10

Item = TypeVar("Item")


class InputRow(NamedTuple):
    """A row: its number from 1, its line in the file, and its chosen cells.

    A blank line of a table has no cells. A damaged row has a fault and no cells.
    """

    number: int
    line: int | None
    cells: Sequence[str]
    fault: Fault | None = None


class ReadRows(Protocol):
    """A function that yields the cells at the positions `take` of every row, without the first if it is a `header`.

    `kinds` are those of the cells, by default text; only formats whose values have types need them.
    """

    def __call__(self, take: Sequence[int], header: bool, kinds: Sequence[Kind] = (), /) -> Iterator[Row]: ...


@dataclass(frozen=True)
class Source:
    """An open table, before any column is chosen.

    `names` are the column names if the format contains them. Otherwise `first` is the first undamaged row, which may
    be a header, and `first_fault` is the first fault before it. `width` is the number of columns, 0 for none.
    `rows` can be called once. `advice` describes a valid row.
    """

    format: str
    rows: ReadRows
    width: int
    names: tuple[str, ...] | None = None
    first: tuple[str, ...] = ()
    first_fault: Fault | None = None
    advice: str = ""

    def scan(
        self, take: Sequence[int], header: bool, path: str, ledger: Ledger, kinds: Sequence[Kind] = ()
    ) -> Iterator[InputRow]:
        """Yield the rows with the cells at the positions `take`; each is counted in the ledger first."""
        for number, (line, cells, fault) in enumerate(self.rows(take, header, kinds), 1):
            ledger.read = number
            if fault:
                ledger.add(number, line, path, *fault)
            elif cells:
                ledger.kept += 1
            else:
                ledger.add(number, line, path, Reason.BLANK_LINE)
            yield InputRow(number, line, () if fault else cells, fault)


def damage(damaged: Sequence[InputRow], where: str, *, expected: str, hint: str, unit: str = "row") -> TableError:
    """Return the error for damaged rows, of which the first are named; `unit` is "row", or "line" of a text."""
    named = [
        f"{f'row {row.number}' if row.line is None else f'line {row.line}'}: {row.fault}"
        for row in damaged[:_NAMED_FAULTS]
    ]
    more = [f"and {len(damaged) - _NAMED_FAULTS:,} more"] if len(damaged) > _NAMED_FAULTS else []
    if all(row.fault and row.fault.reason in (Reason.NOT_UTF8, Reason.NUL) for row in damaged):
        expected = "text in UTF-8, without NUL characters"
    return TableError(
        f"the {'table' if unit == 'row' else 'text'} has {counted(len(damaged), f'damaged {unit}')}",
        where=where,
        got="\n       ".join(named + more),
        expected=expected,
        hint=hint,
    )


@contextmanager
def open_source(path: str) -> Iterator[Source]:
    """Open the table at `path` for the duration of the context.

    Raises TableError for a file that is missing, unreadable, of an unknown format or damaged as a whole, and
    MissingExtraError when it needs pyarrow and that is not installed.
    """
    with system_errors(path), ExitStack() as stack:
        files = table_files(path)
        if len(files) > 1:
            streams = [stack.enter_context(open_bytes(file)) for file in files]
            yield _parallel([str(file) for file in files], [Lines(*both) for both in zip(streams, files, strict=True)])
        else:
            make = _format_of(files[0])
            yield make(stack.enter_context(open_bytes(files[0])), files[0])


def open_stream(stream: BinaryIO, suffix: str | None, name: str) -> Source:
    """Open the table that comes from a stream; without the suffix of a format, the first line decides.

    That is Parquet by its first bytes, JSON Lines for a JSON object, TSV for a line with a tab, and otherwise CSV.
    Raises the errors of `open_source`, and UsageError for an unknown format.
    """
    if suffix is not None and suffix not in _FORMATS:
        raise UsageError(f"there is no format {suffix.removeprefix('.')!r}", hint=nearest(suffix, _FORMATS))
    first = stream.readline()
    suffix = suffix or _format_of_line(first)
    whole = io.BytesIO(first + stream.read()) if suffix in (".parquet", ".arrow") else chain([first], stream)
    return _FORMATS[suffix](cast(BinaryIO, whole), Path(name))


def _format_of_line(line: bytes) -> str:
    if line.startswith(b"PAR1"):
        return ".parquet"
    try:
        is_object = line.lstrip(b"\xef\xbb\xbf \t").startswith(b"{") and isinstance(json.loads(line), dict)
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
    found = [both for both in splits if all(file.exists() for file in both)]
    both = (found or splits)[0]
    tables = [file for file in both if suffix_of(file) in _FORMATS]
    if found and tables:
        raise TableError(
            "two parallel files must be plain text, one sentence per line",
            where=path,
            got=f"{tables[0].name}, which is a table by its suffix",
            hint="give one table with both columns, or rename the text files, for example to a.en,a.de",
        )
    return (whole,) if tables else both


def suffix_of(path: Path) -> str:
    """Return the suffix of the format in lower case, without that of the compression."""
    return Path(without_compression(path.name)).suffix.lower()


def without_compression(name: str) -> str:
    """Return the name of a file without the suffix of its compression."""
    for compression in COMPRESSIONS:
        name = name[: -len(compression)] if name.lower().endswith(compression) else name
    return name


def _format_of(path: Path) -> Callable[[BinaryIO, Path], Source]:
    suffix = suffix_of(path)
    if suffix in _FORMATS:
        return _FORMATS[suffix]
    if path.is_dir():
        raise IsADirectoryError
    if not path.exists():
        raise FileNotFoundError(2, "no such file", str(path))
    valid = f"{', '.join(_FORMATS)}, each also with {' or '.join(COMPRESSIONS)}"
    if suffix == ".txt":
        raise TableError(
            "a .txt file has one column of text, and pairs need two",
            where=str(path),
            expected=f"a table: {valid}",
            hint="give two parallel text files as source.txt,target.txt; or name a tab-separated table .tsv",
        )
    raise TableError(
        "the format of the table is unknown",
        where=str(path),
        got=f"the suffix {suffix!r}" if suffix else "no suffix",
        expected=f"{valid}; or two parallel text files, as in a.en,a.de",
        hint="give the file the suffix of its format",
    )


# CSV and TSV


def _csv(stream: BinaryIO, path: Path) -> Source:
    # The csv module ends an unquoted row at a lone \r too; lines must be counted in the same way.
    rows = csv_rows(Lines(stream, path, lone_cr=True))
    return _delimited(
        "CSV",
        rows,
        'a cell with a comma, a quote or a line break is in "double quotes", and a quote in it is doubled ("")',
    )


def _tsv(stream: BinaryIO, path: Path) -> Source:
    advice = "cells are separated by one tab, and contain neither tabs nor line breaks"
    return _delimited("TSV", tsv_rows(Lines(stream, path)), advice)


def _delimited(name: str, rows: Iterator[Row], advice: str) -> Source:
    """Return a source whose first undamaged row determines the number of columns."""
    before = _until(rows, lambda row: bool(row.cells))
    first = before[-1].cells if before else ()
    width = len(first)

    def chosen(take: Sequence[int], header: bool, _kinds: Sequence[Kind] = ()) -> Iterator[Row]:
        # In a table of one column, a blank line is an empty cell.
        blank = ("",) * len(take) if width == 1 else ()
        for line, cells, fault in chain(before[:-1] if header else before, rows):
            if fault:
                yield Row(line, (), fault)
            elif not cells:
                yield Row(line, blank)
            elif len(cells) == width:
                yield Row(line, [cells[i] for i in take])
            else:
                number = f"{counted(len(cells), 'cell')} instead of {width}"
                yield Row(line, (), Fault(Reason.WRONG_NUMBER_OF_CELLS, number))

    first_fault = next((row.fault for row in before if row.fault), None)
    return Source(name, chosen, width, None, tuple(first), first_fault, advice)


def _until(items: Iterator[Item], is_first: Callable[[Item], bool]) -> list[Item]:
    """Return the items up to the first one for which the condition holds, or all."""
    found = []
    for item in items:
        found.append(item)
        if is_first(item):
            break
    return found


# JSON Lines


def _json_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        ((key, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise FaultError(Reason.REPEATED_KEY, repr(key))
    return members


def _refuse_constant(name: str) -> None:
    raise FaultError(Reason.NOT_JSON, f"{name} is not a JSON value")


# Numbers keep their written form: 1.50 stays 1.50.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_json_object, parse_int=Json, parse_float=Json, parse_constant=_refuse_constant
)


def _json_lines(stream: BinaryIO, path: Path) -> Source:
    records = _json_records(Lines(stream, path))
    before = _until(records, lambda record: bool(record[1]))
    names = tuple(before[-1][1] or ()) if before else ()

    def rows(take: Sequence[int], _header: bool, kinds: Sequence[Kind] = ()) -> Iterator[Row]:
        chosen = [names[i] for i in take]
        for line, members, fault in chain(before, records):
            if members is None:
                yield Row(line, (), fault)
                continue
            yield text_row([members.get(name) for name in chosen], chosen, line, kinds)

    advice = 'one object per line, as in {"source": "…", "target": "…"}; the values used are text or numbers'
    return Source("JSON Lines", rows, len(names), names, advice=advice)


def _json_records(lines: Lines) -> Iterator[tuple[int, dict[str, Any] | None, Fault | None]]:
    """Return line number, members of the object and fault of each line; a blank or damaged line has no members."""
    for number, text, fault in lines.numbered():
        if fault or not text.strip():
            yield number, None, fault
            continue
        try:
            value = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            yield number, None, Fault(Reason.NOT_JSON, f"{error.msg} at character {error.pos + 1}")
        except FaultError as wrong:
            yield number, None, wrong.fault
        except RecursionError:
            yield number, None, Fault(Reason.NESTED_TOO_DEEPLY)
        else:
            is_object = isinstance(value, dict)
            yield number, value if is_object else None, None if is_object else Fault(Reason.NOT_AN_OBJECT)


# Parquet and Arrow


def record_batches(form: str, stream: BinaryIO, path: Path) -> tuple[Any, Callable[[list[str] | None], Iterator[Any]]]:
    """Return the schema of a table in Parquet or Arrow, and what yields its record batches, once.

    Parquet has only the columns of these names in its batches; None: all. Arrow is what `datasets` saves: a stream of
    record batches, or a file of them (Feather).
    """
    arrow = pyarrow(f"reading {form}")
    from pyarrow.ipc import open_file, open_stream
    from pyarrow.parquet import ParquetFile

    if path.suffix.lower() in COMPRESSIONS:  # the files are read from their ends
        stream = io.BytesIO(stream.read())
    try:
        if form == "Parquet":
            table = ParquetFile(stream)
            return table.schema_arrow, lambda names: table.iter_batches(columns=names)
        is_file = stream.read(6) == b"ARROW1"
        stream.seek(0)
        file = open_file(stream) if is_file else open_stream(stream)
    except arrow.ArrowException as error:
        raise corrupt(str(path), error) from None
    return file.schema, lambda _names: map(file.get_batch, range(file.num_record_batches)) if is_file else iter(file)


def _binary(form: str, stream: BinaryIO, path: Path) -> Source:
    arrow = pyarrow(f"reading {form}")
    schema, batches = record_batches(form, stream, path)
    names = tuple(schema.names)
    is_unique = len(set(names)) == len(names)  # else a name would be ambiguous

    def values(take: Sequence[int]) -> Iterator[Sequence[Any]]:
        try:
            for batch in batches([names[i] for i in take] if is_unique else None):
                columns = [batch.column(names[i] if is_unique else i) for i in take]
                yield from zip(*map(arrow_values, columns), strict=True)
        except arrow.ArrowException as error:
            raise corrupt(str(path), error) from None

    return typed(form, names, values, advice="the values used are text or numbers, none of them null")


def typed(
    form: str, names: tuple[str, ...], values: Callable[[Sequence[int]], Iterator[Sequence[Any]]], *, advice: str
) -> Source:
    """Return a source whose cells have types; `values` yields those of the columns at some positions, row by row."""

    def rows(take: Sequence[int], _header: bool, kinds: Sequence[Kind] = ()) -> Iterator[Row]:
        chosen = [names[i] for i in take]
        return (text_row(row, chosen, kinds=kinds) for row in values(take))

    return Source(form, rows, len(names), names, advice=advice)


# Two parallel text files


def _parallel(names: list[str], files: list[Lines]) -> Source:
    """Return two files as one table: line i of each is row i. A blank line is an empty cell."""

    def rows(take: Sequence[int], _header: bool, _kinds: Sequence[Kind] = ()) -> Iterator[Row]:
        end = (0, "", None)
        counts = [0, 0]
        for sides in zip_longest(*(lines.numbered() for lines in files), fillvalue=end):
            counts = [max(count, side[0]) for count, side in zip(counts, sides, strict=True)]
            found = ((side[2], name) for name, side in zip(names, sides, strict=True))
            fault = next((_in_file(fault, name) for fault, name in found if fault), None)
            yield Row(max(counts), () if fault else [sides[i][1] for i in take], fault)
        if counts[0] != counts[1]:
            raise TableError(
                "the two parallel files do not have the same number of lines, so they cannot be paired",
                where=",".join(names),
                got=" and ".join(f"{count:,} lines in {name}" for count, name in zip(counts, names, strict=True)),
                hint="line i of one file must belong to line i of the other; find the first line that does not match",
            )

    return Source("parallel text", rows, 2, tuple(names), advice="both files are UTF-8 text, one sentence per line")


def _in_file(fault: Fault, name: str) -> Fault:
    """Return the fault of a line in one of two files, with the name of the file."""
    return Fault(fault.reason, f"{fault.detail}, in {name}" if fault.detail else f"in {name}")


_FORMATS: dict[str, Callable[[BinaryIO, Path], Source]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".tab": _tsv,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": partial(_binary, "Parquet"),
    ".arrow": partial(_binary, "Arrow"),
}

FORMATS = tuple(_FORMATS)
"""Suffixes of the formats, in lower case, without that of a compression."""
