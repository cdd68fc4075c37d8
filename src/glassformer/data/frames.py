"""Tables from Python that know their columns: frames of pandas and polars, `datasets`, Arrow, and lists of mappings.

None of these libraries is imported: they are recognized by what they can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from glassformer.data.cells import arrow_values
from glassformer.data.formats import Source, typed
from glassformer.data.lines import pyarrow
from glassformer.errors import UsageError, quoted

_BATCH = 1000


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
