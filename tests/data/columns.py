"""A column, or the lines, of an input that is read row by row: as lists, which tests compare."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from glassformer.data.rows import OpenRows, check_rows, open_columns, open_lines
from glassformer.paper.settings import DataSettings


class Column(NamedTuple):
    """The cells of a column, one for each row, and how it was read."""

    cells: list[str]
    taken: str
    opened: OpenRows

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened, name)


def read_column(path: str | Path, column: str | int, data: DataSettings) -> Column:
    with open_columns(str(path), [column], data) as opened:
        rows = list(opened.rows)
        if data.bad_rows == "stop":
            check_rows(opened, rows)
    return Column([row.cells[0] if row.cells else "" for row in rows], opened.taken[0], opened)


def read_lines(source: str | Path | BinaryIO) -> list[str]:
    with open_lines(str(source) if isinstance(source, str | Path) else source, "the input") as opened:
        rows = list(opened.rows)
        check_rows(opened, rows)
    return [row.cells[0] for row in rows]
