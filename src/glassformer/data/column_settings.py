"""The columns of a table as settings: what a user sets, what a model asks for, and what is stored in a recipe."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from glassformer.errors import UsageError, counted
from glassformer.settings import DataSettings
from glassformer.storage.records import TakenColumns
from glassformer.text.inputs import Inputs, assigned, named_values

ColumnName = str | int | None  # by name, by position from 0, or not given


def requested(data: DataSettings, first: Sequence[str]) -> tuple[ColumnName, ...]:
    """Return the columns that are set, where the first row of the table has these cells."""
    return (*data.sources, *(column for _, column in named_features(data.features, first)), data.target)


def named_features(features: Iterable[str | int], names: Collection[str]) -> Iterator[tuple[str | None, str | int]]:
    """Yield name and column of each feature, NAME=COLUMN or a column alone, of a table with columns of these names."""
    for feature in features:
        name, column = assigned(str(feature), names)
        yield (None, feature) if column is None else (name, column)


def settings_of_model(inputs: Inputs, taken: TakenColumns | None, fields: Mapping[str, Any]) -> DataSettings:
    """Return how a table is read for a model with these inputs; `fields` are fields of DataSettings.

    A feature is a name of the model, or NAME=COLUMN. A model that was trained on pairs, without columns (`taken` is
    None), reads the columns named as its inputs. Raises UsageError for an input that the model does not have, or that
    is given twice.
    """
    sources, features = fields.get("source") or (), fields.get("features") or ()
    sources = (sources,) if isinstance(sources, str | int) else sources
    texts = [input_.name for input_ in inputs if input_.kind == "text"]
    n_texts = max(1, len(texts))
    if (features and not inputs) or (sources and len(sources) != n_texts):
        raise UsageError(
            f"this model has {counted(n_texts, 'source column')}" if inputs else "this model has one input",
            got=", ".join(map(str, (*sources, *features))),
            expected=f"one --source for each of: {', '.join(texts)}" if inputs else "one --source",
        )
    data = {name: value for name, value in fields.items() if name not in ("source", "features")}
    if sources:
        data["source"] = list(sources)
    elif taken is None and texts:
        data["source"] = texts
    if inputs and (features or taken is None):
        columns = named_values(inputs[n_texts:], map(str, features), is_column=True)
        given_names = {assigned(str(feature), columns)[0] for feature in features}
        data["features"] = [f"{name}={key}" for name, key in columns.items() if taken is None or name in given_names]
    return DataSettings(**data)


def settings_of(taken: TakenColumns) -> dict[str, Any]:
    """Return the columns as fields of DataSettings: by name, or by position where the table has no names."""
    return {
        "source": [column.key for column in taken.inputs if column.feature is None],
        "features": [
            column.feature if column.feature == column.key else f"{column.feature}={column.key}"
            for column in taken.inputs
            if column.feature is not None
        ],
        "target": taken.target.key,
    }


def held_out_columns(inputs: Inputs, taken: TakenColumns | None) -> tuple[str, ...]:
    """Return the columns of the held-out rows of a model with several inputs."""
    names, target = [input_.name for input_ in inputs], "target" if taken is None else str(taken.target.key)
    return (*names, "target" if target in names else target)
