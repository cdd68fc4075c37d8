"""The columns of a table that are read: its first row as header or data, and which are source, features and target.

One rule, for every verb, HTTP and Python (`Columns.choose`):

1. The columns that are set, by name or position from 0.
2. The columns that a model, or the table to train on, was read with: by name, wherever they are; or by position in a
   table that has as many columns and no header, or two columns of other names.
3. `source` and `target`; else a usual pair of names; else the only two that can be meant. With more, an error.

Names are compared without case and surrounding white space.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from glassformer.data.cells import Json
from glassformer.data.column_settings import ColumnName, named_features
from glassformer.data.headers import (
    KIND_PAIRS,
    ROLE_PAIRS,
    are_reversed,
    folded,
    heads_numbers,
    is_index,
    is_no_text,
    names_usual,
)
from glassformer.data.open_table import OpenTable
from glassformer.errors import ColumnError, TableError, UsageError, counted, nearest, quoted, shortened
from glassformer.settings import DataSettings
from glassformer.storage.files import shown
from glassformer.storage.records import TakenColumn, TakenColumns
from glassformer.text.inputs import Inputs, inputs_of

_MAX_DIGITS = 20  # of a position; more are no column of any table, and Python does not convert thousands of them
_SHOWN_VALUES = 3  # of a column, in a message
_SHOWN_COLUMNS = 20
TRAINING = "the training"


@dataclass(frozen=True)
class Columns:
    """The columns of one open table: their names, if any, and the source of the names."""

    table: str
    source: OpenTable
    names: tuple[str, ...] | None
    header: bool
    guessed: bool  # the header was detected from the cells only

    @classmethod
    def of(
        cls,
        source: OpenTable,
        columns: Iterable[ColumnName],
        header: str,
        table: str,
        *,
        like: TakenColumns | None = None,
        live: bool = False,
    ) -> Columns:
        """Create the columns of a table. `columns` are set by the user; for the others, `like` says which are read.

        `live`: rows after the first may be yet to come. Raises TableError when `header` is "yes" and the first row is
        damaged.
        """
        if source.names is not None:
            names = tuple(name.strip() for name in source.names)
            return cls(table, source, names, source.format != "parallel text", False)
        if header == "yes" and source.first_fault:
            raise TableError(
                "the header is damaged",
                where=table,
                got=str(source.first_fault),
                expected=source.advice,
                hint="correct the first row",
            )
        is_header, guessed = _is_header(source, columns, like, header, live=live)
        header_names = tuple(cell.strip() for cell in source.first) if is_header else None
        return cls(table, source, header_names, is_header, guessed)

    @property
    def consumed(self) -> bool:
        """Whether the first row is the header, and not data."""
        return self.header and bool(self.source.first)

    # The rule

    def choose(self, data: DataSettings, like: TakenColumns | None = None, origin: str = TRAINING) -> TakenColumns:
        """Return the columns that are read; `like` are those of `origin`, for what is not set.

        Raises ColumnError, or TableError for a table of one column.
        """
        if self.source.width < 2:
            raise self._one_column()
        feature_columns = named_features(data.features, self.names or ())
        features = [(self.position(column, is_feature=name is None), name) for name, column in feature_columns]
        sources = list(map(self.position, data.sources))
        target = None if data.target is None else self.position(data.target)
        if like is not None:
            set_names = {name for _, name in features}
            texts = [] if sources else [column for column in like.inputs if column.feature is None]
            unset = [column for column in like.inputs if column.feature is not None and column.feature not in set_names]
            columns = [*texts, *unset, *([like.target] if target is None else [])]
            same = self._positions_of(columns, like, origin) if columns else {}
            sources += [same[column] for column in texts]
            features += [(same[column], column.feature) for column in unset]
            order = [column.feature for column in like.inputs if column.feature is not None]
            features.sort(key=lambda feature: order.index(feature[1]) if feature[1] in order else len(order))
            target = same[like.target] if target is None else target
        positions = [*sources, *(at for at, _ in features), *([] if target is None else [target])]
        self._check_different(positions)
        if not sources or target is None:
            sources, target = self._default_pair(sources, target, positions)
        inputs = (
            *(self._taken(at) for at in sources),
            *(self._taken(at, name or self.name(at)) for at, name in features),
        )
        return TakenColumns(inputs=inputs, target=self._taken(target), width=self.source.width)

    def _taken(self, position: int, feature: str | None = None) -> TakenColumn:
        name = None if self.names is None else shown(self.names[position]) or None
        return TakenColumn(name=name, position=position, feature=None if feature is None else shown(feature))

    def _positions_of(self, columns: Sequence[TakenColumn], like: TakenColumns, origin: str) -> dict[TakenColumn, int]:
        """Return the position in this table of each column of another table. Raises ColumnError."""
        named_columns = [column for column in columns if column.name is not None]
        by_name = {column: at for column in named_columns if (at := self._position_of(column)) is not None}
        is_pair = tuple(columns) == like.all and len(columns) == 2
        usual = self._usual_pair(range(self.source.width)) if is_pair and not by_name else None
        positions = {column: column.position for column in columns}
        has_positions = self.source.width == like.width
        if by_name and len(by_name) == len(named_columns) and (has_positions or len(named_columns) == len(columns)):
            return positions | by_name
        if usual is not None and not named_columns:
            return dict(zip(columns, usual, strict=True))
        is_clear = self.names is None or self.source.width == 2
        if has_positions and not by_name and is_clear and usual in (None, tuple(positions.values())):
            if self.source.format != "parallel text" and (named_columns or self.names is not None):
                why = "the table has no header" if self.names is None else "the table has none of their names"
                listed = ", ".join(map(str, positions.values()))
                self.source.notes.append(f"the columns of {origin} are read by position, {listed}: {why}")
            return positions
        expected = f"{' · '.join(column.label for column in columns)}, of {counted(like.width, 'column')}"
        raise self._other_columns(origin, expected, "name the columns of this table with --source and --target")

    def _position_of(self, column: TakenColumn) -> int | None:
        """Return the position of a column with the name, or else the name of the feature."""
        position = self.find(column.name or "")
        return self.find(column.feature) if position is None and column.feature is not None else position

    def _default_pair(self, sources: list[int], target: int | None, taken: Sequence[int]) -> tuple[list[int], int]:
        """Return source and target where at least one of them is not set. Raises ColumnError."""
        free = [at for at in range(self.source.width) if at not in taken]
        n_missing = (not sources) + (target is None)
        if (pair := self._usual_pair(free, sources[0] if sources else None, target)) is not None:
            return sources or [pair[0]], pair[1]
        sample = self.source.sample()[self.consumed :] if len(free) >= n_missing else []
        self._check_not_nested(sample)
        candidates = [at for at in free if not is_no_text(self._header_name(at), [row[at] for row in sample])]
        if len(free) == n_missing and not any(
            is_index(name) for at in free if (name := self._header_name(at)) is not None
        ):
            candidates = free  # there is nothing else to mean
        if len(candidates) != n_missing:
            raise self._undecided(candidates, sources, target)
        if n_missing == 1:
            return sources or candidates, candidates[0] if target is None else target
        first, second = candidates
        if self.names is not None and are_reversed(self.names[first], self.names[second]):
            first, second = second, first
        return [first], second

    def _usual_pair(
        self, free: Sequence[int], source: int | None = None, target: int | None = None
    ) -> tuple[int, int] | None:
        """Return source and target by usual names; one of them may be set. None: there are none, or several."""
        if self.names is None:
            return None
        places: dict[str, list[int]] = {}
        for at in {*free, *(at for at in (source, target) if at is not None)}:
            places.setdefault(folded(self.names[at]), []).append(at)

        is_one_set = (source is None) != (target is None)  # the other one may be the first of the pair

        def matches(pairs: Iterable[tuple[str, str]]) -> Iterator[tuple[int, int]]:
            for names in pairs:
                for first, second in (names, names[::-1]) if is_one_set else (names,):
                    if first in places and second in places:
                        pair = self._only_position(first, places), self._only_position(second, places)
                        if source in (None, pair[0]) and target in (None, pair[1]):
                            yield pair

        if both_named := list(matches([("source", "target")])):
            return both_named[0]
        given, name = (source, "target") if target is None else (target, "source")
        if is_one_set and given is not None and name in places and (at := self._only_position(name, places)) != given:
            return (given, at) if target is None else (at, given)
        in_order = ((first, second) for first, second in matches(KIND_PAIRS) if first < second or is_one_set)
        usual = {*matches(ROLE_PAIRS), *in_order}
        return usual.pop() if len(usual) == 1 else None

    def _only_position(self, name: str, places: Mapping[str, list[int]]) -> int:
        if len(places[name]) > 1:
            raise self._repeated(name, places[name])
        return places[name][0]

    def _check_different(self, positions: Sequence[int]) -> None:
        """Raise ColumnError when a column is chosen twice."""
        twice = [at for number, at in enumerate(positions) if at in positions[:number]]
        if twice:
            raise ColumnError(
                "a column is given twice",
                where=self.table,
                got=self.label(twice[0]),
                expected=f"different columns of: {self._listed()}",
            )

    # Names and positions

    def inputs(self, taken: TakenColumns) -> Inputs:
        """Return the inputs of the columns, by name, or by position where the table has no names."""
        texts = [self.name(column.position) for column in taken.inputs if column.feature is None]
        try:
            return inputs_of(texts, [column.feature for column in taken.inputs if column.feature is not None])
        except UsageError as error:
            hint = "rename one of the columns, or name a feature: --feature NAME=COLUMN"
            raise ColumnError(error.what, where=self.table, got=error.got, hint=hint) from None

    def name(self, position: int) -> str:
        """Return the name of a column, or its position where the table has no names, or this one is empty."""
        return self._header_name(position) or str(position)

    def _header_name(self, position: int) -> str | None:
        return None if self.names is None else self.names[position]

    def find(self, name: str) -> int | None:
        """Return the position of the column of a name, or None. Raises ColumnError where several have it.

        The same spelling has priority over another one.
        """
        for spelling in (str.strip, folded):
            positions = [at for at, column in enumerate(self.names or ()) if spelling(column) == spelling(name) != ""]
            if len(positions) > 1:
                raise self._repeated(name, positions)
            if positions:
                return positions[0]
        return None

    def position(self, column: ColumnName, *, is_feature: bool = False) -> int:
        """Return the position (from 0) of a column given by name or position. Raises ColumnError."""
        if isinstance(column, str) and (at := self.find(column)) is not None:
            return at
        name, position = shortened(str(column)), _as_position(column)
        if position is not None:
            if 0 <= position < self.source.width:
                return position
            raise ColumnError(
                f"there is no column {name}",
                where=self.table,
                got=f"{counted(self.source.width, 'column')}: {self._listed()}",
                expected=f"a position from 0 to {self.source.width - 1}" if self.source.width > 1 else "position 0",
            )
        if self.names is None:
            raise ColumnError(
                f"there is no column {name!r}, because the first row was not read as a header",
                where=self.table,
                got=f"the first row {self._listed()}",
                expected=f"a position from 0 to {self.source.width - 1}",
                hint="if the first row is a header, use --header and one of its names"
                + (f"; otherwise --feature {name}=POSITION" if is_feature else ""),
            )
        raise ColumnError(f"there is no column {name!r}", where=self.table, hint=nearest(name, self.names))

    def position_like(self, column: ColumnName, like: TakenColumns | None) -> int:
        """Return the position of a column; in a table without a header also by the name of an input of `like`.

        A number is a position in `like`, which has no header: in a table of another form it could be another column.
        """
        if like is not None and isinstance(column, int):
            if self.names is None and self.source.width in (1, like.width):
                return column if self.source.width > 1 else 0
            hint = "name the column to translate: --column NAME (or a position from 0)"
            raise self._other_columns(TRAINING, f"{counted(like.width, 'column')} without a header", hint)
        if like is None or not isinstance(column, str) or self.find(column) is not None:
            return self.position(column)
        for taken in like.inputs:
            if folded(column) not in (folded(name) for name in (taken.name, taken.feature) if name):
                continue
            if self.names is not None:
                option = "--column NAME" if taken is like.inputs[0] else f"--feature {column}=NAME"
                hint = f"{nearest(column, self.names)}; {option} takes another one"
                raise ColumnError(f"there is no column {column!r} of {TRAINING}", where=self.table, hint=hint)
            if self.source.width == like.width:
                self.source.notes.append(f"the column {column} of {TRAINING} is read by position, {taken.position}")
                return taken.position
        return self.position(column)

    def label(self, position: int) -> str:
        """Return the name and position of a column, for messages."""
        return self._taken(position).label

    # Messages

    def _other_columns(self, origin: str, expected: str, hint: str) -> ColumnError:
        """Return the error for a table that does not have the columns of `origin`."""
        columns = f"{counted(self.source.width, 'column')}{'' if self.names else ' without a header'}"
        what, got = f"the table does not have the columns of {origin}", f"{columns}: {self._listed()}"
        return ColumnError(what, where=self.table, got=got, expected=expected, hint=hint)

    def _listed(self) -> str:
        return " | ".join(map(shortened, self.names or self.source.first))

    def _repeated(self, name: str, positions: Sequence[int]) -> ColumnError:
        return ColumnError(
            f"{len(positions)} columns are named {name.strip()!r}",
            where=self.table,
            got=self._listed(),
            hint=f"give its position instead, for example {positions[0]} for the first of them",
        )

    def _undecided(self, possible: Sequence[int], sources: Sequence[int], target: int | None) -> ColumnError:
        """Return the error for a table whose columns do not say which are source and target."""
        sample, columns = self.source.sample()[self.consumed :], range(self.source.width)[:_SHOWN_COLUMNS]
        shown = sample[:_SHOWN_VALUES]
        values = [f"{self.label(at)}: {', '.join(quoted(shortened(row[at], 30)) for row in shown)}" for at in columns]
        further = [f"and {self.source.width - _SHOWN_COLUMNS:,} more"] if self.source.width > _SHOWN_COLUMNS else []
        missing = [role for role, is_set in (("source", sources), ("target", target is not None)) if not is_set]
        by_variety = sorted(possible, key=lambda at: -len({row[at] for row in sample}))  # a category has few values
        likely = sorted(by_variety[: len(missing)])
        options = " ".join(f"--{role} {_argument(self.name(at))}" for role, at in zip(missing, likely, strict=False))
        hint = f"name them, for example: {options}" if len(possible) >= len(missing) else "give a column for each"
        what = (
            f"the table does not say which of its {self.source.width} columns is the {' and which the '.join(missing)}"
        )
        if len(missing) == 1:
            what = f"the {'source' if sources else 'target'} column is set, but the {missing[0]} column is not"
        return ColumnError(
            what,
            where=self.table,
            got="\n       ".join((*values, *further)),
            expected="columns named source and target, a usual pair of names, or two columns of text",
            hint=hint,
        )

    def _check_not_nested(self, sample: Sequence[Sequence[str]]) -> None:
        """Raise TableError for a column of objects: source and target are probably inside them."""
        for at, cells in enumerate(zip(*sample, strict=True)):
            is_nested = all(isinstance(cell, Json) and cell.startswith("{") for cell in cells)
            if self.source.unnest is not None and is_nested:
                raise TableError(
                    f"the values of the column {self.name(at)!r} are objects, and not text",
                    where=self.table,
                    got=shortened(cells[0]),
                    expected="a column for the source and one for the target",
                    hint=self.source.unnest(self.name(at)),
                )

    def _one_column(self) -> TableError:
        self._check_not_nested(self.source.sample())
        return TableError(
            "the table has one column, and pairs need two",
            where=self.table,
            got=f"the first row {self._listed()}",
            hint="give a table with a column for the source and one for the target",
        )


def _argument(name: str) -> str:
    return name if name.isidentifier() or name.isdigit() else repr(name)


def _as_position(column: ColumnName) -> int | None:
    """Return the position of a column, or None where it is given by name, or not given."""
    if column is None or isinstance(column, int):
        return column
    return int((column.lstrip("0") or "0")[:_MAX_DIGITS]) if column.isascii() and column.isdigit() else None


def _is_header(
    source: OpenTable, columns: Iterable[ColumnName], like: TakenColumns | None, header: str, *, live: bool
) -> tuple[bool, bool]:
    """Return whether the first row is a header, and whether that was guessed.

    It is not a guess when `header` is "yes" or "no", or when the first row contains a name in `columns` or all names in
    `like`. Otherwise the cells of the first row decide, and whether numbers of rows are below one of them.
    """
    if header != "auto":
        return header == "yes", False
    cells = {folded(cell) for cell in source.first}
    names = [folded(name) for name in columns if isinstance(name, str) and _as_position(name) is None]
    trained = [folded(column.name) for column in like.all if column.name is not None] if like else []
    if not cells.isdisjoint(names) or (trained and cells.issuperset(trained)):
        return True, False
    if names_usual(source.first) or not cells.isdisjoint(trained):
        return True, True
    return not live and heads_numbers(source.first, source.sample()[1:]), True
