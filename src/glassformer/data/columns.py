"""The choice of the source, feature and target columns of a table, and of its first row as header or data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from glassformer.data.formats import Source
from glassformer.errors import ColumnError, TableError, UsageError, counted, nearest, shortened
from glassformer.paper.settings import DataSettings
from glassformer.text.inputs import Inputs, assigned, inputs_of, named_values

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

_MAX_DIGITS = 20  # of a position; more are no column of any table, and Python does not convert thousands of them


class Chosen(NamedTuple):
    """The positions (from 0) of the columns that are read. A feature has a name, if it has not that of its column."""

    sources: tuple[int, ...]
    features: tuple[int, ...]
    target: int
    names: tuple[str | None, ...] = ()

    @property
    def all(self) -> tuple[int, ...]:
        """Sources, features and target: the order of the cells of a row."""
        return (*self.sources, *self.features, self.target)


@dataclass(frozen=True)
class Columns:
    """The columns of one open table: their names, if any, and the source of the names."""

    table: str
    names: tuple[str, ...] | None
    first: tuple[str, ...]
    width: int
    header: bool
    guessed: bool  # the header was detected from the cells of the first row only
    of_first_object: bool = False  # the names are the members of the first JSON object

    @classmethod
    def of(cls, source: Source, requested: Sequence[ColumnName], header: str, table: str) -> Columns:
        """Create the columns of a table. Raises TableError when `header` is "yes" and the first row is damaged."""
        if source.names is not None:
            own, is_json = source.format != "parallel text", source.format == "JSON Lines"
            return cls(table, source.names, (), source.width, own, False, is_json)
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
        return cls(table, names, source.first, source.width, found, guessed)

    @property
    def consumed(self) -> bool:
        """Whether the first row is the header, and not data."""
        return self.header and bool(self.first)

    def choose(self, data: DataSettings) -> Chosen:
        """Return the positions of sources, features and target.

        Raises ColumnError, or TableError for a table of one column. Columns that are not set are chosen from those that
        are no feature: source and target by their names, or else the first two.
        """
        if self.width < 2:
            raise self._one_column()
        given = list(named_features(data.features, self.names or ()))
        features = tuple(self.position(column, is_feature=name is None) for name, column in given)
        sources = tuple(map(self.position, data.sources))
        target = None if data.target is None else self.position(data.target)
        self._check_different(sources, features, target)
        if sources and target is None:
            target = self._other((*sources, *features), "source", "target")
        elif not sources and target is not None:
            sources = (self._other((target, *features), "target", "source"),)
        elif not sources:
            named = {"source", "target"} <= set(self.names or ())
            source, target = (self.position("source"), self.position("target")) if named else self._first_two(features)
            sources = (source,)
        assert target is not None
        self._check_different(sources, features, target)  # a default may be a feature
        return Chosen(sources, features, target, tuple(name for name, _ in given))

    def _first_two(self, features: Sequence[int]) -> tuple[int, int]:
        rest = [position for position in range(self.width) if position not in features]
        if len(rest) < 2:
            raise ColumnError(
                "no two columns are left for source and target",
                where=self.table,
                got=f"{self.width} columns, {len(set(features))} of them features: {self._listed()}",
                expected="a source, a target, and the features in further columns",
            )
        return rest[0], rest[1]

    def _check_different(self, sources: Sequence[int], features: Sequence[int], target: int | None) -> None:
        """Raise ColumnError when a column is chosen twice."""
        chosen = [*((at, "source") for at in sources), *((at, "feature") for at in features)]
        chosen += [] if target is None else [(target, "target")]
        roles: dict[int, str] = {}
        for at, role in chosen:
            if at in roles:
                other = roles[at]
                raise ColumnError(
                    f"a column is given twice as {role}"
                    if other == role
                    else f"{other} and {role} are the same column",
                    where=self.table,
                    got=self.label(at),
                    expected=f"different columns of: {self._listed()}",
                )
            roles[at] = role

    def inputs(self, chosen: Chosen) -> Inputs:
        """Return the inputs of the chosen columns, by name, or by position where the table has no names."""
        try:
            features = [name or self.name(at) for name, at in zip(chosen.names, chosen.features, strict=True)]
            return inputs_of([self.name(at) for at in chosen.sources], features)
        except UsageError as error:
            hint = "rename one of the columns, or name a feature: --feature NAME=COLUMN"
            raise ColumnError(error.what, where=self.table, got=error.got, hint=hint) from None

    def name(self, position: int) -> str:
        """Return the name of a column, or its position where the table has no names, or this one is empty."""
        return (self.names[position] if self.names is not None else "") or str(position)

    def position(self, column: ColumnName, *, is_feature: bool = False) -> int:
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
        name, position = shortened(str(column)), _as_position(column)
        if position is not None:
            if 0 <= position < self.width:
                return position
            raise ColumnError(
                f"there is no column {name}",
                where=self.table,
                got=f"{counted(self.width, 'column')}: {self._listed()}",
                expected=f"a position from 0 to {self.width - 1}" if self.width > 1 else "position 0",
            )
        if self.names is None:
            raise ColumnError(
                f"there is no column {name!r}, because the first row was not read as a header",
                where=self.table,
                got=f"the first row {self._listed()}",
                expected=f"a position from 0 to {self.width - 1}",
                hint="if the first row is a header, use --header and one of its names"
                + (f"; otherwise --feature {name}=POSITION" if is_feature else ""),
            )
        hint = nearest(name, names)
        if self.of_first_object:
            hint += "; the columns are the members of the first object: add one that it lacks as null"
        raise ColumnError(f"there is no column {name!r}", where=self.table, hint=hint)

    def _other(self, known: Sequence[int], given: str, missing: str) -> int:
        """Return the only column that is not known. Raises ColumnError when there are several, or none."""
        rest = [position for position in range(self.width) if position not in known]
        if len(rest) == 1:
            return rest[0]
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
        if "\t" in cell:
            hint = "its cells seem to be separated by tabs: name the file .tsv"
        elif ";" in cell:
            hint = "its cells seem to be separated by semicolons: save it with commas"
        return TableError(
            "the table has one column, and pairs need two",
            where=self.table,
            got=f"the first row {cell}",
            hint=hint,
        )


def requested(data: DataSettings, first: Sequence[str]) -> tuple[ColumnName, ...]:
    """Return the columns that are set, where the first row of the table has these cells."""
    return (*data.sources, *(column for _, column in named_features(data.features, first)), data.target)


def named_features(features: Iterable[str | int], names: Collection[str]) -> Iterator[tuple[str | None, str | int]]:
    """Yield name and column of each feature, NAME=COLUMN or a column alone, of a table with columns of these names."""
    for feature in features:
        name, column = assigned(str(feature), names)
        yield (None, feature) if column is None else (name, column)


def columns_of_model(inputs: Inputs, target: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data settings with which a table is read for a model with these inputs; `given` are those of the user.

    A column that is not given has the name that it was trained with. `target` is the label of the target column of the
    training table. A given feature is a name of the model, or NAME=COLUMN. Raises UsageError for an input that the
    model does not have, or that is given twice.
    """
    sources, features = given.get("source") or (), given.get("features") or ()
    sources = (sources,) if isinstance(sources, str) else sources
    if not inputs:
        if features or len(sources) > 1:
            raise UsageError(
                "this model has one input", got=", ".join(map(str, (*sources, *features))), expected="one --source"
            )
        return {**given}
    texts = [one.name for one in inputs if one.kind == "text"]
    if sources and len(sources) != len(texts):
        raise UsageError(
            f"this model has {counted(len(texts), 'source column')}",
            got=", ".join(map(str, sources)),
            expected=f"one --source for each of: {', '.join(texts)}",
        )
    named = named_values(inputs[len(texts) :], map(str, features), is_column=True)
    chosen = {"source": list(sources or texts), "features": list(named.values()), "target": _column_of(target)}
    return {**chosen, **{name: value for name, value in given.items() if name not in ("source", "features")}}


def trained_columns(inputs: Inputs, labels: tuple[str, str]) -> dict[str, Any]:
    """Return the data settings that read the columns that a model was trained on, which had these labels."""
    taken = [_column_of(label) for label in labels[0].split(" + ")]  # as the labels were joined
    if len(taken) != max(1, len(inputs)):
        return columns_of_model(inputs, labels[1], {})
    columns = zip(inputs, taken, strict=True) if inputs else ()
    features = [f"{one.name}={column}" for one, column in columns if one.kind == "feature"]
    return {"source": taken[: len(taken) - len(features)], "features": features, "target": _column_of(labels[1])}


def held_out_columns(inputs: Inputs, target: str) -> tuple[str, ...]:
    """Return the columns of the held-out rows of a model with several inputs; `target` is the label of its column."""
    names, name = [one.name for one in inputs], _column_of(target)
    return (*names, "target" if name in names else name)


def _column_of(label: str) -> str:
    """Return the name or position of a column from its label."""
    return label.rpartition(" (column ")[0] or label.removeprefix("column ")


def _as_position(column: ColumnName) -> int | None:
    """Return the position of a column, or None where it is given by name, or not given."""
    if column is None or isinstance(column, int):
        return column
    return int((column.lstrip("0") or "0")[:_MAX_DIGITS]) if column.isascii() and column.isdigit() else None


def _is_header(first: tuple[str, ...], requested: Sequence[ColumnName], header: str) -> tuple[bool, bool]:
    """Return whether the first row is a header, and whether that was guessed.

    It is not a guess when `header` is "yes" or "no", or when the first row contains all requested names. Otherwise the
    cells of the first row decide.
    """
    if header != "auto":
        return header == "yes", False
    names = [column for column in requested if isinstance(column, str) and _as_position(column) is None]
    if names and all(name in first for name in names):
        return True, False
    cells = [cell.strip().lower() for cell in first]
    distinct = len(set(cells)) == len(cells) and all(cells)
    return distinct and len(_USUAL_NAMES.intersection(cells)) >= 2, True
