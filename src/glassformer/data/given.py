"""Tables as a program gives them: a path, pairs, rows as mappings, or a frame.

Frames are those of pandas, polars, `datasets` and Arrow. None of these libraries is imported: they are recognized by
what they can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from glassformer.data.cells import arrow_values
from glassformer.data.columns import named_features
from glassformer.data.formats import Source, typed
from glassformer.data.ledger import Ledger
from glassformer.data.lines import pyarrow
from glassformer.data.pairs import Pair, members, text_pair
from glassformer.data.tables import Table, cell_fault, read_source, read_table
from glassformer.errors import UsageError, quoted
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import Inputs, cells_of_values, compose, inputs_of

_BATCH = 1000

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


def as_table(pairs: Iterable[tuple[Any, str]], data: DataSettings | None = None) -> Table:
    """Return pairs from Python as a Table, as `read_table` would. Raises UsageError for what is not a pair.

    A source is a text, or a mapping of several inputs by name; `data` says which of them are features.
    """
    given, ledger = members(pairs), Ledger()
    first = next(given, None)
    inputs, name_of = _inputs_of(*first[:2], data or DataSettings()) if first else ((), {})
    kept: dict[int, Pair] = {}
    for number, (where, source, target) in enumerate(chain([first] if first else [], given), 1):
        cells = _cells_of(source, inputs, name_of, where)
        pair = text_pair(where, compose(cells) if inputs else source, target)
        ledger.read, ledger.kept = number, ledger.kept + 1
        if fault := cell_fault((*cells, target), inputs):
            ledger.drop(number, "(pairs)", fault)
        else:
            kept[number] = pair
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


def _cells_of(source: Any, inputs: Inputs, name_of: Mapping[str, str], where: str) -> list[Any]:
    """Return the cells of a source. Raises UsageError for one that does not have the inputs."""
    if not inputs and not isinstance(source, Mapping):
        return [source]
    if isinstance(source, Mapping):
        source = {name_of.get(str(key), key): cell for key, cell in source.items()}
    return cells_of_values(source, inputs, where)


# Frames


def source_of_frame(frame: Any) -> Source | None:
    """Return the table of a frame, or None for any other value. Raises UsageError for one that has several tables."""
    if isinstance(frame, type):
        return None
    found = _columns_and_rows(frame)
    if found is None:
        return None
    return typed("python", *found, advice="the values used are text or numbers, none of them missing")


def _columns_and_rows(frame: Any) -> tuple[tuple[str, ...], Callable[[Sequence[int]], Iterator[Any]]] | None:
    """Return the names of the columns, and a function that yields the values of some columns, row by row."""
    if hasattr(frame, "itertuples") and hasattr(frame, "iloc"):  # pandas
        names = tuple(map(str, frame.columns))
        return names, lambda take: frame.iloc[:, list(take)].itertuples(index=False, name=None)
    if hasattr(frame, "collect_schema") and hasattr(frame, "sink_parquet") and not hasattr(frame, "iter_rows"):
        raise UsageError("a lazy frame has no rows yet", got=quoted(type(frame).__name__), hint="call its collect()")
    if hasattr(frame, "iter_rows") and hasattr(frame, "columns"):  # polars
        return tuple(frame.columns), lambda take: frame[:, list(take)].iter_rows()
    if hasattr(frame, "with_format") and hasattr(frame, "column_names"):  # datasets
        return _of_dataset(frame)
    if isinstance(frame, list | tuple) and frame and isinstance(frame[0], Mapping):
        keys = list(frame[0])
        return tuple(map(str, keys)), lambda take: (_values_of(row, [keys[i] for i in take]) for row in frame)
    if hasattr(frame, "__arrow_c_stream__"):  # a table or a reader of pyarrow, a relation of duckdb, …
        reader = pyarrow("reading Arrow").RecordBatchReader.from_stream(frame)
        return tuple(reader.schema.names), lambda take: _rows(
            [arrow_values(batch.column(i)) for i in take] for batch in reader
        )
    return None


def _values_of(row: Any, keys: Sequence[Any]) -> list[Any]:
    """Return the values of a mapping. Raises UsageError for a row that is none."""
    if not isinstance(row, Mapping):
        raise UsageError("a row of a list of mappings is not a mapping", got=quoted(row))
    return [row.get(key) for key in keys]


def _of_dataset(dataset: Any) -> tuple[tuple[str, ...], Callable[[Sequence[int]], Iterator[Any]]]:
    names = dataset.column_names
    if isinstance(names, dict):
        raise UsageError(
            "this is a dictionary of data sets, not a table",
            got=", ".join(map(str, names)),
            hint=f"give one of them, for example dataset[{next(iter(names), 'train')!r}]",
        )
    plain = dataset.with_format(None)
    if names is None:  # a data set that is streamed knows its columns when its first row is there
        rows = iter(plain)
        first = next(rows, None) or {}
        names = list(first)
        plain_rows = chain([first] if first else [], rows)
        return tuple(names), lambda take: ([row.get(names[i]) for i in take] for row in plain_rows)
    return tuple(names), lambda take: _rows(
        [batch[names[i]] for i in take] for batch in plain.select_columns([names[i] for i in take]).iter(_BATCH)
    )


def _rows(batches: Iterator[list[list[Any]]]) -> Iterator[Any]:
    for columns in batches:
        yield from zip(*columns, strict=True)
