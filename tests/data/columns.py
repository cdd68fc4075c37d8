"""New files, and what was read of them as lists, which tests compare."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from glassformer.data.ledger import Fault, Ledger
from glassformer.data.rows import OpenRows, check_rows, open_columns, open_lines
from glassformer.settings import DataSettings

scratch = itertools.count()


def put(folder: Path, name: str, content: str | bytes) -> Path:
    """A new file with these bytes (or this text as UTF-8), in a folder of its own."""
    path = folder / str(next(scratch)) / name
    path.parent.mkdir()
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def entries_of(ledger: Ledger) -> list[tuple[int, int | None, str]]:
    """Row, line, and reason with its detail."""
    return [(entry.row, entry.line, str(Fault(entry.reason, entry.detail))) for entry in ledger.entries]


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
