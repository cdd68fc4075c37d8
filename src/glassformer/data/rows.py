"""The rows of a table, or the lines of a text, one at a time: from a file, or as they come on a stream.

    with open_columns("table.csv", ["word", "id"], DataSettings()) as opened:
        for row in opened.rows: ...

Nothing is kept, so a table may be larger than the memory, and a stream may have no end.
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from glassformer.data.cells import Kind
from glassformer.data.column_settings import ColumnName
from glassformer.data.columns import Columns
from glassformer.data.delimited import Row
from glassformer.data.formats import open_source, open_stream
from glassformer.data.ledger import Ledger
from glassformer.data.lines import Lines, open_bytes, system_errors
from glassformer.data.open_table import damage
from glassformer.data.unreadable import HEAD_BYTES, check_bytes
from glassformer.errors import TableError, shortened
from glassformer.settings import DataSettings
from glassformer.storage.records import TakenColumns

if TYPE_CHECKING:
    from glassformer.data.tables import Table

PLAIN = "plain text"
"""The format of lines."""

_CELLS_OF_FIRST_ROW = 8


@dataclass(frozen=True)
class OpenRows:
    """An open input: what its columns are, and its rows, which can be read once.

    `taken` are the labels of the chosen columns, `names` their names (column_0, … without a header). The other fields
    are those of `Table`. `ledger` has the rows that were read so far, `notes` say what is unusual until then.
    """

    path: str
    format: str
    taken: tuple[str, ...]
    names: tuple[str, ...]
    header: bool
    first: tuple[str, ...]
    header_guessed: bool
    advice: str
    ledger: Ledger
    notes: list[str] = field(default_factory=list)
    rows: Iterator[Row] = field(default_factory=lambda: iter(()))


@contextmanager
def open_columns(
    source: str | BinaryIO,
    columns: Sequence[ColumnName],
    data: DataSettings,
    *,
    kinds: Sequence[Kind] = (),
    name: str = "standard input",
    like: TakenColumns | None = None,
) -> Iterator[OpenRows]:
    """Open the chosen columns of the table at a path, or of the stream called `name`.

    `kinds` are the kinds of cells of the columns, by default text. `like` are the columns of a model; a table without
    their names may be asked for them by name.
    Raises the errors of `read_table`, but none for damaged rows: `check_rows` raises that.
    """

    def read() -> Generator[OpenRows | Row]:
        with ExitStack() as stack:
            path = source if isinstance(source, str) else name
            if isinstance(source, str):
                table = stack.enter_context(open_source(source))
            else:
                stack.enter_context(system_errors(name))
                sought = [column for column in columns if isinstance(column, str) and not column.isdigit()]
                table = open_stream(source, name, sought)
            if not table.width:
                raise TableError("the table has no rows", where=path)
            layout = Columns.of(table, columns, data.header, path, like=like, live=not isinstance(source, str))
            take = tuple(layout.position_like(column, like) for column in columns)
            opened = OpenRows(
                path,
                table.format,
                tuple(layout.label(position) for position in take),
                tuple(layout.name(position) if layout.names else f"column_{position}" for position in take),
                layout.header,
                table.first,
                layout.guessed,
                table.advice,
                Ledger(),
                table.notes,
            )
            yield opened
            yield from table.scan(take, layout.consumed, path, opened.ledger, kinds)

    with _reading(read()) as opened:
        yield opened


@contextmanager
def open_lines(source: str | BinaryIO, name: str = "standard input") -> Iterator[OpenRows]:
    r"""Open a plain text at a path (also .gz, .zst), or a stream: each line is a row of one cell.

    Lines end only at \n or \r\n; a last line without an end counts. A byte order mark is dropped. Raises TableError for
    a file that cannot be read.
    """

    def read() -> Generator[OpenRows | Row]:
        path = source if isinstance(source, str) else name
        with system_errors(path), ExitStack() as stack:
            stream = stack.enter_context(open_bytes(Path(source))) if isinstance(source, str) else source
            opened = OpenRows(path, PLAIN, ("line",), ("line",), False, (), False, "UTF-8 text", Ledger())
            yield opened
            if isinstance(source, str) and isinstance(stream, io.BufferedReader):
                check_bytes(stream.peek(HEAD_BYTES), Path(source), suffix=".txt")
            for number, text, fault in Lines(stream, path).numbered():
                opened.ledger.read = number
                yield Row(number, () if fault else (text,), fault, number)

    with _reading(read()) as opened:
        yield opened


@contextmanager
def _reading(read: Generator[OpenRows | Row]) -> Iterator[OpenRows]:
    """Take the first item, and the further items as its rows. The caller's own errors are not errors of the input."""
    try:
        opened = next(read)
        assert isinstance(opened, OpenRows)
        yield replace(opened, rows=cast(Iterator[Row], read))
    finally:
        with suppress(ValueError):  # a thread that waits for a stream is inside
            read.close()


def check_rows(opened: OpenRows, rows: Sequence[Row]) -> None:
    """Raise TableError when any of the rows is damaged; the first ten are named."""
    unit, hint = "row", "correct them, or leave them empty with --ledger FILE, which lists them"
    if opened.format == PLAIN:
        unit, hint = "line", "save the text as UTF-8"
    if damaged := [row for row in rows if row.fault]:
        raise damage(damaged, opened.path, expected=opened.advice, hint=hint, unit=unit)


def cells_of_column(table: Table, column: str) -> list[str]:
    """Return the cell of another column for each kept pair of a table.

    Raises ColumnError for a column that is not there, TableError for a kept row without text in the column.
    """
    cells: list[str] = []
    data = DataSettings(header=table.header_setting)
    for path, indices in table.by_file():
        with open_columns(path, [column], data, kinds=["optional"], like=table.taken) as opened:
            cell_of_row = {row.number: row.cells[0] for row in opened.rows if row.cells}
        cells += [cell_of_row.get(table.rows[i], "") for i in indices]
    if empty := [table.location(index) for index, cell in enumerate(cells) if not cell.strip()]:
        raise TableError(
            f"the column {column} is empty in {len(empty):,} rows that are kept",
            where=table.path,
            got=", ".join(empty[:3]) + ("" if len(empty) <= 3 else ", …"),
            expected="text in each row",
        )
    return cells


def further_columns(table: Table, max_values: int) -> dict[str, list[str]]:
    """Return the cell of each kept pair in every column except the source texts and the target, by the column's name.

    Features are among them; columns with one value, or with more than `max_values`, are not. The file is read again, so
    a table from Python has none.
    """
    if table.format == "python":
        return {}
    rows: list[Mapping[str, str]] = []
    for path, indices in table.by_file():
        rows += _further_cells(path, {table.rows[i] for i in indices}, table)
    cells_by_name = {name: [row.get(name, "") for row in rows] for name in (rows[0] if rows else ())}
    return {name: cells for name, cells in cells_by_name.items() if 1 < len(set(cells)) <= max_values}


def _further_cells(path: str, kept_rows: Set[int], table: Table) -> Iterator[Mapping[str, str]]:
    """Yield the cells of the further columns of some rows of a file, by name; equal names with their positions."""
    with open_source(path) as source:
        columns = Columns.of(source, (), table.header_setting, path, like=table.taken)
        taken = columns.choose(DataSettings(), table.taken)
        texts = [column.position for column in taken.all if column.feature is None]
        further = [at for at in range(source.width) if at not in texts]
        unique_names = [name for name in columns.names or () if (columns.names or ()).count(name) == 1]
        labels = [name if (name := columns.name(at)) in unique_names else columns.label(at) for at in further]
        for row in source.scan(further, columns.consumed, path, Ledger(), ["any"] * len(further)):
            if row.number in kept_rows:  # a damaged cell of a further column is no fault of the pair
                yield dict(zip(labels, row.cells or [""] * len(labels), strict=True))


def first_row_note(table: Table | OpenRows) -> str:
    """Return a note on how the first row was read (header or data); "" in a format with column names."""
    if not table.first:
        return ""
    cells = [repr(shortened(cell)) for cell in table.first[:_CELLS_OF_FIRST_ROW]]
    shown = " | ".join([*cells, "…"] if len(table.first) > len(cells) else cells)
    role, option = ("a header", "--no-header") if table.header else ("data", "--header")
    otherwise = f" (otherwise: {option})" if table.header_guessed else ""
    return f"the first row was read as {role}: {shown}{otherwise}"
