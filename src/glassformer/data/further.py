"""The further columns of a table: what is known of each row besides its pair."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from glassformer.data.columns import Columns
from glassformer.data.formats import open_source
from glassformer.data.ledger import Ledger
from glassformer.data.tables import Table
from glassformer.paper.settings import DataSettings


def further_columns(table: Table, max_values: int) -> dict[str, list[str]]:
    """Return the cell of each kept pair in every column that is no text of the source and not the target, by its name.

    Features are among them; columns with one value, or with more than `max_values`, are not. The file is read again, so
    a table from Python has none.
    """
    if table.format == "python":
        return {}
    rows: list[Mapping[str, str]] = []
    for path, indices in table.by_file():
        rows += _further_cells(path, {table.rows[i] for i in indices}, table)
    found = {name: [row.get(name, "") for row in rows] for name in (rows[0] if rows else ())}
    return {name: cells for name, cells in found.items() if 1 < len(set(cells)) <= max_values}


def _further_cells(path: str, kept: Set[int], table: Table) -> Iterator[Mapping[str, str]]:
    """Yield the cells of the further columns of some rows of a file, by name; where two share it, with the position."""
    with open_source(path) as source:
        columns = Columns.of(source, (), table.header_setting, path, like=table.taken)
        taken = columns.choose(DataSettings(), table.taken)
        texts = [column.position for column in taken.all if column.feature is None]
        others = [at for at in range(source.width) if at not in texts]
        own = [name for name in columns.names or () if (columns.names or ()).count(name) == 1]
        labels = [name if (name := columns.name(at)) in own else columns.label(at) for at in others]
        for row in source.scan(others, columns.consumed, path, Ledger(), ["any"] * len(others)):
            if row.number in kept:  # a damaged cell of a further column is no fault of the pair
                yield dict(zip(labels, row.cells or [""] * len(labels), strict=True))
