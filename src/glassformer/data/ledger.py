"""The ledger: every row that was not kept, each with its reason, so that nothing is dropped in silence."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from glassformer.files import atomic

_DETAIL = re.compile(r" \([^()]*\)")
_NUMBER = re.compile(r"(?<![\w-])\d+(?![\w-])")  # the 8 of UTF-8 is part of a word
_ROWS_IN_SUMMARY = 5


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One row that was not kept, or a fact about one that was.

    `row` counts the rows of the table from 1, the header left out (the line number for plain text). `line` is
    the physical line from 1 where the row starts, None where the format has none. `file` is the table's name
    as given.
    """

    row: int
    line: int | None
    reason: str
    file: str

    @property
    def kind(self) -> str:
        """The reason without what differs from row to row: numbers become N, details in brackets go."""
        return _NUMBER.sub("N", _DETAIL.sub("", self.reason))


class Ledger:
    """What became of every row: how many were read and kept, and an entry for each of the others.

    `add` leaves `read` and `kept` alone, because an entry may also tell of a row that was kept: who drops a
    row that was counted as kept also lowers `kept`.
    """

    def __init__(self) -> None:
        self.read = 0
        self.kept = 0
        self.entries: list[LedgerEntry] = []

    def add(self, row: int, line: int | None, reason: str, file: str) -> None:
        """Enter one row."""
        self.entries.append(LedgerEntry(row, line, reason, file))

    def include(self, other: Ledger) -> None:
        """Take over the counts and entries of another ledger."""
        self.read += other.read
        self.kept += other.kept
        self.entries += other.entries

    def counts(self) -> dict[str, int]:
        """`read`, `kept`, and the number of entries of each kind of reason, in order of appearance."""
        return {"read": self.read, "kept": self.kept} | {kind: len(rows) for kind, rows in self._kinds().items()}

    def summary(self) -> str:
        """The ledger for people: one line of counts, then one line for each kind of reason."""
        lines = [f"{self.read:,} {'row' if self.read == 1 else 'rows'} read, {self.kept:,} kept"]
        for kind, rows in self._kinds().items():
            named = ", ".join(str(row) for row in islice(rows, _ROWS_IN_SUMMARY))
            more = ", …" if len(rows) > _ROWS_IN_SUMMARY else ""
            lines.append(f"  {len(rows):,} × {kind} (row {named}{more})")
        return "\n".join(lines)

    def write(self, path: str | Path) -> None:
        """Write the entries as JSON Lines, one object with the fields of `LedgerEntry` a line.

        The file appears complete or not at all. Raises RunError when it cannot be written.
        """
        # A file name that is not UTF-8 reaches us with lone surrogates; written as \udcXX they are still JSON.
        with (
            atomic(Path(path)) as temporary,
            temporary.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file,
        ):
            file.writelines(json.dumps(asdict(entry), ensure_ascii=False) + "\n" for entry in self.entries)

    def _kinds(self) -> dict[str, list[int]]:
        """Kind of reason -> its rows."""
        kinds: dict[str, list[int]] = {}
        for entry in self.entries:
            kinds.setdefault(entry.kind, []).append(entry.row)
        return kinds
