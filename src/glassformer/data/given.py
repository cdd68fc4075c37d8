"""Tables as a program gives them: a path, pairs, rows as mappings, or a frame.

Frames are those of pandas, `datasets` and pyarrow. None of these libraries is imported: they are recognized by what
they can do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from glassformer.data.cells import arrow_values
from glassformer.data.column_settings import named_features
from glassformer.data.ledger import Ledger
from glassformer.data.open_table import SAMPLE_ROWS, OpenTable
from glassformer.data.pairs import Pair, members, text_pair
from glassformer.data.tables import Table, cell_fault, read_source, read_table
from glassformer.data.typed import typed
from glassformer.errors import UsageError, quoted
from glassformer.settings import DataSettings
from glassformer.storage.records import TakenColumns
from glassformer.text.inputs import Inputs, cells_of_values, compose, inputs_of, listed

_BATCH = 1000

Given = Table | str | Path | Iterable[Any]
"""A table, its path, pairs of source and target, a list of mappings, or a frame: pandas, `datasets`, pyarrow."""


def read_given(given: Given, data: DataSettings, like: TakenColumns | None = None) -> Table:
    """Return a table, with the columns of `read_table`. Raises the errors of `read_table` and of `as_table`."""
    table = read_columns(given, lambda: (data, like))
    return as_table(given, data) if table is None else table  # type: ignore[arg-type]  # it is no path


def read_like(table: Table, given: Given, data: DataSettings) -> Table:
    """Return another table, such as one to test on, with the columns and inputs of `table`.

    Raises the errors of `read_given`, and UsageError for other inputs.
    """
    if table.taken is not None:
        data = data.model_copy(update={"source": None, "features": (), "target": None})
    other = read_columns(given, lambda: (data, table.taken))
    if other is None:
        return as_table(given, data, table.inputs)  # type: ignore[arg-type]  # it is no path
    if len(other.inputs) != len(table.inputs):
        raise _other_inputs(other.path, other.inputs, table.inputs)
    return other


def _other_inputs(where: str, got: Inputs, expected: Inputs) -> UsageError:
    names = (listed(inputs) or "one text" for inputs in (got, expected))
    return UsageError("a table has other inputs than the first", where=where, got=next(names), expected=next(names))


def read_columns(given: Given, how: Callable[[], tuple[DataSettings, TakenColumns | None]]) -> Table | None:
    """Return what has columns as a table, and None for pairs. Raises the errors of `read_table`."""
    if isinstance(given, Table):
        return given
    if isinstance(given, str | Path):
        return read_table(given, *how())
    source = source_of_frame(given)
    return None if source is None else read_source(source, *how())


def as_table(pairs: Iterable[tuple[Any, str]], data: DataSettings | None = None, like: Inputs | None = None) -> Table:
    """Return pairs from Python as a Table, as `read_table` would. Raises UsageError for what is not a pair.

    A source is a text, or a mapping of several inputs by name; `data` says which of them are features, unless the
    inputs are to be those of another table (`like`), with the same names.
    """
    rows, ledger = members(pairs), Ledger()
    first = next(rows, None)
    inputs, name_of = _inputs_of(*first[:2], data or DataSettings()) if first else ((), {})
    if first and like is not None:
        if {input_.name for input_ in inputs} != {input_.name for input_ in like}:
            raise _other_inputs(first[0], inputs, like)
        inputs = like
    kept_pairs: dict[int, Pair] = {}
    for number, (where, source, target) in enumerate(chain([first] if first else [], rows), 1):
        cells = _cells_of(source, inputs, name_of, where)
        pair = text_pair(where, compose(cells) if inputs else source, target, inputs)
        ledger.read, ledger.kept = number, ledger.kept + 1
        if fault := cell_fault((*cells, target), inputs):
            ledger.drop(number, "(pairs)", fault)
        else:
            kept_pairs[number] = pair
    return Table(
        path="(pairs)",
        pairs=list(kept_pairs.values()),
        rows=list(kept_pairs),
        columns=None,
        taken=None,
        header=False,
        format="python",
        ledger=ledger,
        inputs=inputs,
    )


def _inputs_of(where: str, source: Any, data: DataSettings) -> tuple[Inputs, dict[str, str]]:
    """Return the inputs of the source of the first pair, and the name of each feature by its key."""
    keys = list(map(str, source)) if isinstance(source, Mapping) else []
    name_of = {str(key): name or str(key) for name, key in named_features(data.features, keys)}
    if isinstance(source, Mapping):
        texts = [key for key in keys if key not in name_of]
        return inputs_of([str(name) for name in data.sources] or texts, list(name_of.values())), name_of
    if name_of:
        raise UsageError(
            "data.features names inputs, and a source is one text",
            where=where,
            got=quoted(source),
            expected=f"a mapping with the text and: {', '.join(name_of)}",
        )
    return (), {}


def _cells_of(source: Any, inputs: Inputs, name_of: Mapping[str, str], where: str) -> Sequence[Any]:
    """Return the cells of a source. Raises UsageError for a source that does not have the inputs."""
    if not inputs and not isinstance(source, Mapping):
        return [source]
    if isinstance(source, Mapping):
        source = {name_of.get(str(key), key): cell for key, cell in source.items()}
    return cells_of_values(source, inputs, where)


# Frames


def source_of_frame(frame: Any) -> OpenTable | None:
    """Return the table of a frame, or None for any other value. Raises UsageError for a value with several tables."""
    if isinstance(frame, type):
        return None
    content = _columns_and_rows(frame)
    if content is None:
        return None
    return typed("python", *content, "the values used are text or numbers, none of them missing")


Rows = Callable[[Sequence[int]], Iterator[Any]]
"""A function that yields the values of some columns, row by row."""


def _columns_and_rows(frame: Any) -> tuple[tuple[str, ...], Rows] | None:
    """Return the names of the columns, and a function that yields the values of some columns."""
    if hasattr(frame, "itertuples") and hasattr(frame, "iloc"):  # pandas
        names = tuple(map(str, frame.columns))
        return names, lambda take: frame.iloc[:, list(take)].itertuples(index=False, name=None)
    if hasattr(frame, "with_format") and hasattr(frame, "column_names"):  # datasets
        return _of_dataset(frame)
    if isinstance(frame, list | tuple) and frame and isinstance(frame[0], Mapping):
        keys = list(dict.fromkeys(key for row in frame[:SAMPLE_ROWS] if isinstance(row, Mapping) for key in row))
        return tuple(map(str, keys)), lambda take: (_values_of(row, [keys[i] for i in take]) for row in frame)
    if hasattr(frame, "to_batches") and hasattr(frame, "schema"):  # pyarrow
        return tuple(frame.schema.names), lambda take: _rows(
            [arrow_values(batch.column(i)) for i in take] for batch in frame.to_batches()
        )
    return None


def _values_of(row: Any, keys: Sequence[Any]) -> list[Any]:
    """Return the values of a mapping. Raises UsageError for a row that is not a mapping."""
    if not isinstance(row, Mapping):
        raise UsageError("a row of a list of mappings is not a mapping", got=quoted(row))
    return [row.get(key) for key in keys]


def _of_dataset(dataset: Any) -> tuple[tuple[str, ...], Rows]:
    names = dataset.column_names
    if isinstance(names, dict):
        raise UsageError(
            "this is a dictionary of data sets, not a table",
            got=", ".join(map(str, names)),
            hint=f"give one of them, for example dataset[{next(iter(names), 'train')!r}]",
        )
    plain = dataset.with_format(None)
    if names is None:  # a data set that is streamed shows its columns in its rows
        names = list(dict.fromkeys(name for row in islice(plain, SAMPLE_ROWS) for name in row))
    return tuple(names), lambda take: _rows(
        [batch[names[i]] for i in take] for batch in plain.select_columns([names[i] for i in take]).iter(_BATCH)
    )


def _rows(batches: Iterable[list[list[Any]]]) -> Iterator[Any]:
    for columns in batches:
        yield from zip(*columns, strict=True)
