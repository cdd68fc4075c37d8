"""The ledger: every row that was not kept, with the reason."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from glassformer.errors import TableError, counted
from glassformer.storage.files import atomic

_ROWS_IN_SUMMARY = 5

MAX_LEFT_OUT = 1_000_000
"""Number of rows left out after which a table is refused, if hardly any of its rows are kept."""


class Reason(StrEnum):
    """The reason why a row was not kept. The values are those of `ledger.jsonl`."""

    BLANK_LINE = "blank line"
    EMPTY_SOURCE = "empty source"
    EMPTY_TARGET = "empty target"
    EMPTY_FEATURE = "empty feature"
    SOURCE_TOO_LONG = "source too long"
    TARGET_TOO_LONG = "target too long"
    WRONG_NUMBER_OF_CELLS = "wrong number of cells"
    UNCLOSED_QUOTE = "unclosed quote"
    TEXT_AFTER_QUOTE = "text after a closing quote"
    ROW_TOO_LONG = "row too long"
    NOT_UTF8 = "not UTF-8"
    NUL = "NUL character"
    NOT_JSON = "not JSON"
    NOT_AN_OBJECT = "not a JSON object"
    NESTED_TOO_DEEPLY = "JSON nested too deeply"
    REPEATED_KEY = "repeated key"
    MISSING_VALUE = "missing value"
    NOT_TEXT = "value that is not text"
    LONE_SURROGATE = "lone surrogate"
    CONTRADICTION = "contradiction"
    DUPLICATE = "duplicate"


CLEANED = (Reason.CONTRADICTION, Reason.DUPLICATE)
"""The reasons of rows that were dropped by an option."""


class Fault(NamedTuple):
    """A fault of a row: the reason, and the detail of this row."""

    reason: Reason
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else str(self.reason)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One row that was not kept.

    `row` counts the rows of the table from 1, without the header. `line` is the line of the file, from 1, where the row
    starts; None in a format without lines, and for a row that was dropped after reading (too long, cleaned).
    `file` is the path of the table as given. `detail` completes the reason, as in "3 cells instead of 2", and may be
    empty.
    """

    row: int
    line: int | None
    file: str
    reason: Reason
    detail: str = ""


class Ledger:
    """The number of rows that were read and kept, and an entry for each row that was not kept.

    `add` does not change `read` and `kept`; `drop` is for a row that was counted as kept. `changed` is the number of
    kept rows whose texts were changed by an option.
    """

    def __init__(self) -> None:
        self.read = 0
        self.kept = 0
        self.changed = 0
        self.entries: list[LedgerEntry] = []

    def add(self, row: int, line: int | None, file: str, reason: Reason, detail: str = "") -> None:
        """Add an entry for one row. Raises TableError for the MAX_LEFT_OUTth, if hardly any row is kept."""
        self.entries.append(LedgerEntry(row, line, file, reason, detail))
        if len(self.entries) % MAX_LEFT_OUT == 0 and len(self.entries) > 10 * self.kept:
            what = "hardly any row of the table can be kept"
            raise TableError(what, where=file, got=f"up to row {row:,}: {self.summary()}")

    def drop(self, row: int, file: str, fault: Fault, line: int | None = None) -> None:
        """Add an entry for one row that was counted as kept."""
        self.kept -= 1
        self.add(row, line, file, *fault)

    def include(self, other: Ledger) -> None:
        """Add the counts and entries of another ledger."""
        self.read += other.read
        self.kept += other.kept
        self.changed += other.changed
        self.entries += other.entries

    def counts(self) -> dict[str, int]:
        """Return `read`, `kept`, and the number of entries of each reason, in order of appearance."""
        return {"read": self.read, "kept": self.kept} | {
            str(reason): len(rows) for reason, rows in self._rows_by_reason().items()
        }

    def summary(self) -> str:
        """Return the ledger as text: one line of counts, then one line for each reason."""
        lines = [f"{counted(self.read, 'row')} read, {self.kept:,} kept"]
        for reason, rows in self._rows_by_reason().items():
            row_numbers = ", ".join(str(row) for row in islice(rows, _ROWS_IN_SUMMARY))
            ellipsis = ", …" if len(rows) > _ROWS_IN_SUMMARY else ""
            lines.append(f"  {len(rows):,} × {reason} (row {row_numbers}{ellipsis})")
        if self.changed:
            lines.append(f"  {self.changed:,} kept without their control characters")
        return "\n".join(lines)

    def write(self, path: str | Path) -> None:
        """Write the entries as JSON Lines, one object with the fields of `LedgerEntry` per line.

        The file is written atomically. Raises RunError when it cannot be written.
        """
        # A file name that is not UTF-8 contains lone surrogates; written as \udcXX they are valid JSON.
        with (
            atomic(Path(path)) as temporary,
            temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file,
        ):
            file.writelines(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in self.entries)

    def _rows_by_reason(self) -> dict[Reason, list[int]]:
        rows: dict[Reason, list[int]] = {}
        for entry in self.entries:
            rows.setdefault(entry.reason, []).append(entry.row)
        return rows
