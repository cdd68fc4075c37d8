"""Tables as a program gives them: a path, pairs, rows as mappings, or a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from glassformer.data.columns import named_features
from glassformer.data.frames import source_of_frame
from glassformer.data.large import read_any, read_source
from glassformer.data.ledger import Ledger, Reason
from glassformer.data.pairs import checked_pairs
from glassformer.data.tables import REASONS, Pair, Table
from glassformer.errors import UsageError, quoted
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import CellFault, Inputs, cells_of_values, compose, fault_of, inputs_of

Given = Table | str | Path | Iterable[Any]
"""A table, its path, pairs of source and target, a list of mappings, or a frame: pandas, polars, `datasets`, Arrow."""


def read_given(given: Given, data: DataSettings) -> Table:
    """Return a table. Raises the errors of `read_any` and of `as_table`."""
    table = read_columns(given, lambda: data)
    return as_table(given, data) if table is None else table  # type: ignore[arg-type]  # it is no path


def read_columns(given: Given, data: Callable[[], DataSettings]) -> Table | None:
    """Return what has columns as a table, and None for pairs. Raises the errors of `read_any`."""
    if isinstance(given, Table):
        return given
    if isinstance(given, str | Path):
        return read_any(given, data())
    source = source_of_frame(given)
    return None if source is None else read_source(source, data())


def as_table(pairs: Table | Iterable[tuple[Any, str]], data: DataSettings | None = None) -> Table:
    """Return pairs from Python as a Table, as `read_table` would. Raises UsageError for what is not a pair.

    A source is a text, or a mapping of several inputs by name; `data` says which of them are features.
    """
    if isinstance(pairs, Table):
        return pairs
    kept: dict[int, Pair] = {}
    ledger = Ledger()
    sources = _GivenSources(data or DataSettings())
    for row, pair in enumerate(checked_pairs(pairs, source_of=sources.source_of), 1):
        ledger.read = row
        if fault := sources.fault:
            ledger.add(row, None, "(pairs)", REASONS[fault.kind], repr(fault.name))
        elif pair.source.strip() and pair.target.strip():
            kept[row] = pair
        else:
            ledger.add(row, None, "(pairs)", Reason.EMPTY_TARGET if pair.source.strip() else Reason.EMPTY_SOURCE)
    ledger.kept = len(kept)
    return Table(
        path="(pairs)",
        pairs=list(kept.values()),
        rows=list(kept),
        columns=None,
        taken=(" + ".join(one.name for one in sources.inputs) or "source", "target"),
        header=False,
        format="python",
        ledger=ledger,
        inputs=sources.inputs,
    )


class _GivenSources:
    """The sources of pairs from Python: `fault` is that of the last one. The first one decides on the inputs."""

    def __init__(self, data: DataSettings) -> None:
        self.fault: CellFault | None = None
        self.inputs: Inputs = ()
        self._data, self._is_first = data, True
        self._name_of: dict[str, str] = {}  # key of a feature -> its name

    def source_of(self, values: Any, where: str) -> str:
        """Return the source of one row. Raises UsageError when it does not have the inputs of the first one."""
        if self._is_first:
            self._is_first = False
            self.inputs = self._decide(values, where)
        if not self.inputs and not isinstance(values, Mapping):
            return values  # type: ignore[no-any-return]  # checked by the caller
        if isinstance(values, Mapping):
            values = {self._name_of.get(str(name), name): cell for name, cell in values.items()}
        cells = cells_of_values(values, self.inputs, where)
        self.fault = fault_of(cells, self.inputs)
        return compose(cells)

    def _decide(self, values: Any, where: str) -> Inputs:
        keys = list(map(str, values)) if isinstance(values, Mapping) else []
        named = [(name or str(key), str(key)) for name, key in named_features(self._data.features, keys)]
        self._name_of = {key: name for name, key in named}
        if isinstance(values, Mapping):
            rest = [key for key in keys if key not in self._name_of]
            return inputs_of([str(name) for name in self._data.sources] or rest, [name for name, _ in named])
        if named:
            raise UsageError(
                "data.features names inputs, and a source is one text",
                where=where,
                got=quoted(values),
                expected=f"a mapping with the text and: {', '.join(self._name_of)}",
            )
        return ()
