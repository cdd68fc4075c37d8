"""An open table before any column is chosen, and its rows, one at a time, with the faults found in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from glassformer.data.cells import Kind
from glassformer.data.delimited import Row
from glassformer.data.ledger import Fault, Ledger, Reason
from glassformer.data.lines import to_utf8
from glassformer.errors import TableError, counted

SAMPLE_ROWS = 100
"""Rows that are looked at before a table is read, to decide what its columns are."""

_NAMED_FAULTS = 10


ReadRows = Callable[[Sequence[int], bool, Sequence[Kind]], Iterator[Row]]
"""A function that yields the cells at some positions of every row, without the first row if that is a header.

The kinds of the cells are empty for text; only formats whose values have types need them.
"""


@dataclass(frozen=True)
class OpenTable:
    """An open table, before any column is chosen.

    `names` are the column names if the format contains them. Otherwise `first` is the first undamaged row, which may
    be a header, and `first_fault` is the first fault before it. `width` is the number of columns, 0 for none.
    `rows` can be called once; `sample` returns the cells of all columns of the first rows, `first` among them, and can
    be called before. `advice` describes a valid row. `notes` say how the file was read, and grow until its last row.
    `unnest` returns how a column of objects becomes columns, in a format that has objects.
    `separator` is that of CSV and TSV, and `is_stated` whether the first line states it.
    """

    format: str
    rows: ReadRows
    width: int
    names: tuple[str, ...] | None = None
    first: tuple[str, ...] = ()
    first_fault: Fault | None = None
    advice: str = ""
    sample: Callable[[], Sequence[Sequence[str]]] = list
    notes: list[str] = field(default_factory=list)
    unnest: Callable[[str], str] | None = None
    separator: str = ","
    is_stated: bool = False

    def scan(
        self, take: Sequence[int], header: bool, path: str, ledger: Ledger, kinds: Sequence[Kind] = ()
    ) -> Iterator[Row]:
        """Yield the rows with the cells at the positions `take`; each is counted in the ledger first."""
        for number, row in enumerate(self.rows(take, header, kinds), 1):
            ledger.read = number
            if row.cells:
                ledger.kept += 1
            else:
                ledger.add(number, row.line, path, *(row.fault or Fault(Reason.BLANK_LINE)))
            yield Row(row.line, row.cells, row.fault, number)


def damage(damaged: Sequence[Row], where: str, *, expected: str, hint: str, unit: str = "row") -> TableError:
    """Return the error for damaged rows, which names the first of them; `unit` is "row", or "line" of a text."""
    messages = [
        f"{f'row {row.number}' if row.line is None else f'line {row.line}'}: {row.fault}"
        for row in damaged[:_NAMED_FAULTS]
    ]
    further = [f"and {len(damaged) - _NAMED_FAULTS:,} more"] if len(damaged) > _NAMED_FAULTS else []
    reasons = {row.fault.reason for row in damaged if row.fault}
    if reasons <= {Reason.NOT_UTF8, Reason.NUL}:
        expected = "text in UTF-8, without NUL characters"
    if reasons == {Reason.NOT_UTF8}:
        hint = (
            "if it is from Excel or an older Windows program, its encoding is probably Windows-1252 (Latin-1): save it "
            f"as 'CSV UTF-8', or {to_utf8(where, 'WINDOWS-1252')}; {hint}"
        )
    return TableError(
        f"the {'table' if unit == 'row' else 'text'} has {counted(len(damaged), f'damaged {unit}')}",
        where=where,
        got="\n       ".join(messages + further),
        expected=expected,
        hint=hint,
    )
