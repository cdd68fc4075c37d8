"""The choice of the source and target columns of a table, and of its first row as header or data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from glassformer.data.formats import Source
from glassformer.errors import ColumnError, TableError, nearest, shortened
from glassformer.settings import DataSettings

ColumnName = str | int | None  # by name, by position from 0, or not given

# A first row with two of these among its cells is read as a header.
_USUAL_NAME_LIST = """
    source target src tgt trg x y input output inputs outputs text label labels from to question answer
    query response prompt completion instruction word words pron pronunciation phoneme phonemes phone
    phones grapheme graphemes transcription ipa spelling transliteration translation translated original
    reference hypothesis command commands action actions sentence sentences logical_form lf form lemma
    name date iso human machine id index split category source_text target_text input_text output_text
    arabic bulgarian chinese czech danish dutch english finnish french german greek hebrew hindi hungarian
    italian japanese korean latin norwegian polish portuguese romanian russian spanish swedish turkish
    ukrainian en de fr nl es it pt ru zh ja ko ar tr pl sv da fi cs el he hi hu uk ro bg la
"""
_USUAL_NAMES = frozenset(_USUAL_NAME_LIST.split())

_MAX_POSITION_DIGITS = 20


@dataclass(frozen=True)
class Columns:
    """The columns of one open table: their names, if any, and the source of the names."""

    table: str
    names: tuple[str, ...] | None
    first: tuple[str, ...]
    width: int
    header: bool
    consumed: bool  # the first row is the header, and not data
    guessed: bool  # the header was detected from the cells of the first row only

    @classmethod
    def of(cls, source: Source, requested: Sequence[ColumnName], header: str, table: str) -> Columns:
        """Create the columns of a table. Raises TableError when `header` is "yes" and the first row is damaged."""
        if source.names is not None:
            own = source.format != "parallel text"
            return cls(table, source.names, (), source.width, header=own, consumed=False, guessed=False)
        if header == "yes" and source.first_fault:
            raise TableError(
                "the header is damaged",
                where=table,
                got=str(source.first_fault),
                expected=source.advice,
                hint="correct the first row",
            )
        found, guessed = _is_header(source.first, requested, header)
        names = source.first if found else None
        return cls(table, names, source.first, source.width, header=found, consumed=found, guessed=guessed)

    def pair(self, data: DataSettings) -> tuple[int, int]:
        """Return the positions of source and target. Raises ColumnError, or TableError for a table of one column."""
        if self.width < 2:
            raise self._one_column()
        if data.source is None and data.target is None:
            called = {"source", "target"} <= set(self.names or ())
            return (self.position("source"), self.position("target")) if called else (0, 1)
        if data.source is None:
            target = self.position(data.target)
            return self._other(target, "target", "source"), target
        if data.target is None:
            source = self.position(data.source)
            return source, self._other(source, "source", "target")
        source, target = self.position(data.source), self.position(data.target)
        if source == target:
            raise ColumnError(
                "source and target are the same column",
                where=self.table,
                got=self.label(source),
                expected=f"two different columns of: {self._listed()}",
            )
        return source, target

    def position(self, column: ColumnName) -> int:
        """Return the position (from 0) of a column given by name or position. Raises ColumnError."""
        names = self.names or ()
        if isinstance(column, str) and column in names:
            if names.count(column) > 1:
                raise ColumnError(
                    f"{names.count(column)} columns are named {column!r}",
                    where=self.table,
                    got=self._listed(),
                    hint=f"give its position instead, for example {names.index(column)} for the first of them",
                )
            return names.index(column)
        if _is_position(column):
            position = _as_position(column)
            if position is not None and 0 <= position < self.width:
                return position
            raise ColumnError(
                f"there is no column {_shortened_position(column)}",
                where=self.table,
                got=f"{self.width} {'column' if self.width == 1 else 'columns'}: {self._listed()}",
                expected=f"a position from 0 to {self.width - 1}" if self.width > 1 else "position 0",
            )
        if self.names is None:
            raise ColumnError(
                f"there is no column {shortened(str(column))!r}, because the first row was not read as a header",
                where=self.table,
                got=f"the first row {self._listed()}",
                expected=f"a position from 0 to {self.width - 1}",
                hint="if the first row is a header, use --header and one of its names",
            )
        name = shortened(str(column))
        raise ColumnError(f"there is no column {name!r}", where=self.table, hint=nearest(name, names))

    def _other(self, known: int, given: str, missing: str) -> int:
        """Return the other column of a table with two. Raises ColumnError for a table with more."""
        if self.width == 2:
            return 1 - known
        raise ColumnError(
            f"the {given} column is set, but the {missing} column is not",
            where=self.table,
            got=f"{self.width} columns: {self._listed()}",
            hint=f"set it with --{missing}",
        )

    def label(self, position: int) -> str:
        """Return the name and position of a column, for messages."""
        return f"column {position}" if self.names is None else f"{self.names[position]} (column {position})"

    def _listed(self) -> str:
        return " | ".join(map(shortened, self.names or self.first))

    def _one_column(self) -> TableError:
        cell = self._listed()
        hint = "give a table with a column for the source and one for the target"
        for sign, name, advice in (
            ("\t", "tabs", "name the file .tsv"),
            (";", "semicolons", "save it with commas"),
        ):
            if sign in cell:
                hint = f"its cells seem to be separated by {name}: {advice}"
        return TableError(
            "the table has one column, and pairs need two",
            where=self.table,
            got=f"the first row {cell}",
            hint=hint,
        )


def _is_position(column: ColumnName) -> TypeGuard[int | str]:
    return isinstance(column, int) or (column is not None and column.isascii() and column.isdigit())


def _as_position(column: int | str) -> int | None:
    """Return a position as a number; None for more digits than any table has columns."""
    if isinstance(column, int):
        return column
    digits = column.lstrip("0") or "0"
    return int(digits) if len(digits) <= _MAX_POSITION_DIGITS else None


def _shortened_position(column: int | str) -> str:
    """Return a position for a message, shortened: Python does not convert integers of thousands of digits."""
    if isinstance(column, int):
        too_long = abs(column) >= 10**_MAX_POSITION_DIGITS
        return f"with a position of more than {_MAX_POSITION_DIGITS} digits" if too_long else str(column)
    digits = column.lstrip("0") or "0"
    if len(digits) <= _MAX_POSITION_DIGITS:
        return digits
    return f"{digits[:_MAX_POSITION_DIGITS]}… ({len(digits):,} digits)"


def _is_header(first: tuple[str, ...], requested: Sequence[ColumnName], header: str) -> tuple[bool, bool]:
    """Return whether the first row is a header, and whether that was guessed.

    It is not a guess when `header` is "yes" or "no", or when the first row contains all requested names. Otherwise the
    cells of the first row decide.
    """
    if header != "auto":
        return header == "yes", False
    names = [column for column in requested if isinstance(column, str) and not _is_position(column)]
    if names and all(name in first for name in names):
        return True, False
    cells = [cell.strip().lower() for cell in first]
    distinct = len(set(cells)) == len(cells) and all(cells)
    return distinct and len(_USUAL_NAMES.intersection(cells)) >= 2, True
