"""The input of a job: plain lines, or the columns of a table, from a file, a pipe or standard input."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from glassformer.data.cells import Kind
from glassformer.data.column_settings import ColumnName
from glassformer.data.delimited import Row
from glassformer.data.rows import OpenRows, check_rows, open_columns, open_lines
from glassformer.errors import UsageError
from glassformer.settings import DataSettings
from glassformer.storage.files import is_device
from glassformer.storage.records import TakenColumns
from glassformer.text.inputs import Inputs, SourceLike


class JobRow(NamedTuple):
    """One row of a job: its number from 1, its text (or inputs), the cells that are passed through, and its prefix."""

    number: int
    source: SourceLike
    kept: tuple[str, ...] = ()
    prefix: str = ""


@dataclass(frozen=True)
class JobInput:
    """What a job reads.

    `source` is a path, or a stream of bytes (standard input). Without `column` it is plain lines. `keep` are columns
    that are passed through. `inputs` are the inputs of a model that has several; `further` are the columns of all but
    the first, for plain lines their values. In the same way `prefix` is the column with the forced start of each
    answer, or the start of all. `trained` are the columns of the training of the model.
    """

    source: str | BinaryIO
    column: ColumnName = None
    inputs: Inputs = ()
    further: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    prefix: str | None = None
    data: DataSettings = DataSettings()  # noqa: RUF009, it is frozen
    trained: TakenColumns | None = None

    def __post_init__(self) -> None:
        if self.column is None and self.keep:
            raise UsageError("plain lines have no columns to keep", hint="--column NAME")

    @property
    def texts(self) -> tuple[ColumnName, ...]:
        """The columns whose cells are the text of a row."""
        return () if self.column is None else (self.column, *self.further)

    @property
    def arrives(self) -> bool:
        """Whether the rows come as a stream, such as standard input or a named pipe, which can be read once."""
        return not isinstance(self.source, str) or is_device(Path(self.source))

    def open(self) -> AbstractContextManager[OpenRows]:
        """Open the input. Raises TableError, ColumnError and MissingExtraError as `read_table` does."""
        if self.column is None:
            return open_lines(self.source)
        columns: list[tuple[ColumnName, Kind]] = [(self.column, "text")]
        columns += [(name, "optional") for name in self.further]
        columns += [(name, "any") for name in self.keep]
        columns += [(name, "optional") for name in (self.prefix,) if name is not None]
        names, kinds = [name for name, _ in columns], [kind for _, kind in columns]
        return open_columns(self.source, names, self.data, kinds=kinds, like=self.trained)

    def scan(self) -> OpenRows:
        """Read a file once from start to end, and return what it is, with the ledger of all its rows.

        Raises TableError when rows are damaged and `data.bad_rows` is "stop".
        """
        with self.open() as opened:
            damaged = [row for row in opened.rows if row.fault]
            if self.stops_at_damage:
                check_rows(opened, damaged)
        return replace(opened, rows=iter(()))

    @property
    def stops_at_damage(self) -> bool:
        """Whether a damaged row is an error, and not an empty row."""
        return self.column is None or self.data.bad_rows == "stop"

    def job_rows(self, opened: OpenRows, rows: Sequence[Row]) -> list[JobRow]:
        """Return rows as rows of a job; a blank or skipped row has empty cells.

        Raises TableError for damaged rows that are not skipped.
        """
        if self.stops_at_damage:
            check_rows(opened, rows)
        start, end = len(self.texts), len(self.texts) + len(self.keep)
        job_rows = []
        for row in rows:
            cells: Sequence[str] = row.cells or ("",) * max(end + 1, len(self.inputs))
            if self.column is None and row.cells:  # plain lines
                cells = [row.cells[0], *self.further]
            source: SourceLike = cells[0]
            if self.inputs:
                source = {input_.name: cell for input_, cell in zip(self.inputs, cells, strict=False)}
            prefix = self.prefix or "" if self.column is None or self.prefix is None else cells[end]
            job_rows.append(JobRow(row.number, source, tuple(cells[start:end]), prefix))
        return job_rows
