"""Tables as a program gives them: a path, pairs, rows as mappings, or a frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from glassformer.data.columns import named_features
from glassformer.data.frames import source_of_frame
from glassformer.data.ledger import Ledger
from glassformer.data.pairs import members, text_pair
from glassformer.data.rows import InputRow
from glassformer.data.tables import Table, read_source, read_table, usable_pairs
from glassformer.errors import UsageError, quoted
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import Inputs, cells_of_values, compose, inputs_of

Given = Table | str | Path | Iterable[Any]
"""A table, its path, pairs of source and target, a list of mappings, or a frame: pandas, polars, `datasets`, Arrow."""


def read_given(given: Given, data: DataSettings) -> Table:
    """Return a table. Raises the errors of `read_table` and of `as_table`."""
    table = read_columns(given, lambda: data)
    return as_table(given, data) if table is None else table  # type: ignore[arg-type]  # it is no path


def read_columns(given: Given, data: Callable[[], DataSettings]) -> Table | None:
    """Return what has columns as a table, and None for pairs. Raises the errors of `read_table`."""
    if isinstance(given, Table):
        return given
    if isinstance(given, str | Path):
        return read_table(given, data())
    source = source_of_frame(given)
    return None if source is None else read_source(source, data())


def as_table(pairs: Table | Iterable[tuple[Any, str]], data: DataSettings | None = None) -> Table:
    """Return pairs from Python as a Table, as `read_table` would. Raises UsageError for what is not a pair.

    A source is a text, or a mapping of several inputs by name; `data` says which of them are features.
    """
    if isinstance(pairs, Table):
        return pairs
    rows, ledger = members(pairs), Ledger()
    first = next(rows, None)
    inputs, name_of = _inputs_of(*first[:2], data or DataSettings()) if first else ((), {})
    given = _input_rows(chain([first] if first else [], rows), inputs, name_of, ledger)
    kept = dict(usable_pairs(given, inputs, "(pairs)", ledger))
    return Table(
        path="(pairs)",
        pairs=list(kept.values()),
        rows=list(kept),
        columns=None,
        taken=(" + ".join(one.name for one in inputs) or "source", "target"),
        header=False,
        format="python",
        ledger=ledger,
        inputs=inputs,
    )


def _inputs_of(where: str, source: Any, data: DataSettings) -> tuple[Inputs, dict[str, str]]:
    """Return the inputs, as the source of the first pair has them, and the name of each feature by its key."""
    keys = list(map(str, source)) if isinstance(source, Mapping) else []
    name_of = {str(key): name or str(key) for name, key in named_features(data.features, keys)}
    if isinstance(source, Mapping):
        rest = [key for key in keys if key not in name_of]
        return inputs_of([str(name) for name in data.sources] or rest, list(name_of.values())), name_of
    if name_of:
        raise UsageError(
            "data.features names inputs, and a source is one text",
            where=where,
            got=quoted(source),
            expected=f"a mapping with the text and: {', '.join(name_of)}",
        )
    return (), {}


def _input_rows(
    pairs: Iterable[tuple[str, Any, Any]], inputs: Inputs, name_of: Mapping[str, str], ledger: Ledger
) -> Iterator[InputRow]:
    """Yield the pairs as rows of cells. Raises UsageError for a source that does not have the inputs."""
    for number, (where, source, target) in enumerate(pairs, 1):
        cells = [source]
        if inputs or isinstance(source, Mapping):
            if isinstance(source, Mapping):
                source = {name_of.get(str(key), key): cell for key, cell in source.items()}
            cells = cells_of_values(source, inputs, where)
        text_pair(where, compose(cells) if inputs else source, target)
        ledger.read, ledger.kept = number, ledger.kept + 1
        yield InputRow(number, None, (*cells, target))
