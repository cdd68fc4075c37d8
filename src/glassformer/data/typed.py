"""Tables whose values have types: JSON Lines, Parquet, Arrow."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, BinaryIO

from glassformer.data.cells import FaultError, Json, Kind, arrow_values, json_text, text_row
from glassformer.data.delimited import Row
from glassformer.data.headers import folded
from glassformer.data.ledger import Fault, Reason
from glassformer.data.lines import COMPRESSIONS, Lines, corrupt, pyarrow
from glassformer.data.open_table import SAMPLE_ROWS, OpenTable

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


def json_lines(stream: Any, path: Path, sought: Sequence[str] | None = None) -> OpenTable:
    """Return a table of JSON objects, one a line. Its columns are the members of the first SAMPLE_ROWS objects.

    With `sought` objects are read only until they have members of these names, because more may be yet to come.
    """
    records = _json_records(Lines(stream, path, lone_cr=True))
    before: list[tuple[int, dict[str, Any] | None, Fault | None]] = []
    names: dict[str, None] = {}
    for record in records:
        before.append(record)
        names |= dict.fromkeys(record[1] or ())
        is_found = sought is not None and {*map(folded, sought)} <= {*map(folded, names)}
        if names and (is_found or len(before) >= SAMPLE_ROWS):
            break
    columns = tuple(names)

    def sample() -> list[list[str]]:
        objects = (members for _, members, _ in before if members)
        return [[_json_cell(members.get(name)) for name in columns] for members in objects]

    def rows(take: Sequence[int], _header: bool, kinds: Sequence[Kind]) -> Iterator[Row]:
        taken_names = [columns[i] for i in take]
        for line, members, fault in chain(before, records):
            if members is None:
                yield Row(line, (), fault)
                continue
            yield text_row([members.get(name) for name in taken_names], taken_names, line, kinds)

    advice = 'one object per line, as in {"source": "…", "target": "…"}; the values used are text or numbers'

    def unnest(name: str) -> str:
        return f"jq -c {quote('.' + json.dumps([name], ensure_ascii=False))} {quote(str(path))} > table.jsonl"

    return OpenTable("JSON Lines", rows, len(columns), columns, advice=advice, sample=sample, unnest=unnest)


def _json_cell(value: object) -> str:
    return "" if value is None else Json(json_text(value)) if isinstance(value, dict | list) else str(value)


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
    """Open a table in Parquet or Arrow. Return its schema, and a function that yields its record batches.

    Batches of Parquet have only the columns with these names; None: all. Arrow is what `datasets` saves: a stream of
    batches, or a file (Feather).
    """
    arrow = pyarrow(f"reading {form}")
    from pyarrow.ipc import open_file, open_stream
    from pyarrow.parquet import ParquetFile

    try:
        if form == "Parquet":  # which is read from its end
            file = ParquetFile(io.BytesIO(stream.read()) if path.suffix.lower() in COMPRESSIONS else stream)
        else:
            content = stream.read()
            file = (open_file if content.startswith(b"ARROW1") else open_stream)(content).read_all()
    except arrow.ArrowException as error:
        raise corrupt(str(path), error) from None

    def batches(names: list[str] | None) -> Iterator[Any]:
        try:
            yield from file.iter_batches(columns=names) if form == "Parquet" else file.to_batches()
        except arrow.ArrowException as error:
            raise corrupt(str(path), error) from None

    return file.schema_arrow if form == "Parquet" else file.schema, batches


def binary(form: str, stream: BinaryIO, path: Path) -> OpenTable:
    """Return a table in Parquet or Arrow."""
    schema, batches = record_batches(form, stream, path)
    names = tuple(schema.names)
    is_unique = len(set(names)) == len(names)  # else a name would be ambiguous

    def values(take: Sequence[int]) -> Iterator[Sequence[Any]]:
        for batch in batches([names[i] for i in take] if is_unique else None):
            columns = [batch.column(names[i] if is_unique else i) for i in take]
            yield from zip(*map(arrow_values, columns), strict=True)

    return typed(form, names, values, "the values used are text or numbers, none of them null")


def typed(
    form: str,
    names: tuple[str, ...],
    values: Callable[[Sequence[int]], Iterator[Sequence[Any]]],
    advice: str,
) -> OpenTable:
    """Return a source whose cells have types. `values` yields the values at some positions, row by row."""

    def rows(take: Sequence[int], _header: bool, kinds: Sequence[Kind]) -> Iterator[Row]:
        taken_names = [names[i] for i in take]
        return (text_row(row, taken_names, kinds=kinds) for row in values(take))

    def sample() -> list[list[str]]:
        return [[_json_cell(value) for value in row] for row in islice(values(range(len(names))), SAMPLE_ROWS)]

    return OpenTable(form, rows, len(names), names, advice=advice, sample=sample, unnest=_flattened)


def _flattened(_name: str) -> str:
    return "give the members of its objects as columns, for example by flatten() of pyarrow"
