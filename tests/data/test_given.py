"""Pairs and frames from Python: the rows, the columns and the ledger that a file with the same values has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from glassformer.data.given import source_of_frame
from glassformer.data.ledger import Reason
from glassformer.data.pairs import check_text, checked_pairs, checked_texts
from glassformer.data.tables import Pair, Table, read_source, read_table
from glassformer.errors import TableError, UsageError
from glassformer.planning.plan import plan
from glassformer.settings import DataSettings

VALUES: dict[str, list[Any]] = {
    "id": [1, 2, 3, 4, 5, 6],
    "word": ["one", "two", None, " ", "five", "six"],
    "ipa": ["wʌn", "tu", "θɹi", "fɔɹ", float("nan"), ["no", "text"]],
}
SKIP = DataSettings(source="word", target="ipa", bad_rows="skip")
ENTRIES = [(3, "missing value"), (4, "empty source"), (5, "missing value"), (6, "value that is not text")]


class _Na:
    """NA of pandas: neither equal nor unequal to anything."""

    def __eq__(self, other: object) -> Any:
        return self

    __ne__ = __eq__

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")


_Na.__name__ = "NAType"


class Pandas:
    """What is used of a frame of pandas."""

    def __init__(self, values: dict[str, list[Any]] = VALUES) -> None:
        self.columns, self._values = list(values), list(values.values())

    @property
    def iloc(self) -> Pandas:
        return self

    def __getitem__(self, index: tuple[slice, list[int]]) -> Pandas:
        return Pandas({str(i): self._values[i] for i in index[1]})

    def itertuples(self, *, index: bool, name: None) -> Iterator[tuple[Any, ...]]:
        assert index is False
        return zip(*self._values, strict=True)


class Datasets:
    """What is used of a data set of `datasets`."""

    def __init__(self, names: Sequence[str] | dict[str, Any] | None = tuple(VALUES)) -> None:
        self.column_names = names

    def with_format(self, _: None) -> Datasets:
        return self

    def select_columns(self, names: list[str]) -> Datasets:
        return Datasets(names)

    def iter(self, size: int) -> Iterator[dict[str, list[Any]]]:
        assert size > 0
        for start in (0, 4):
            yield {name: VALUES[name][start : start + 4] for name in self.column_names or ()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(VALUES, row, strict=True)) for row in zip(*VALUES.values(), strict=True))


def read(frame: Any, data: DataSettings = SKIP) -> Table:
    source = source_of_frame(frame)
    assert source is not None
    return read_source(source, data)


@pytest.mark.parametrize("frame", [Pandas(), Datasets(), Datasets(None)])
def test_a_frame_keeps_its_texts_and_lists_every_other_row(frame):
    table = read(frame)
    assert list(table.pairs) == [("one", "wʌn"), ("two", "tu")]
    assert list(table.rows) == [1, 2]
    assert [(entry.row, str(entry.reason)) for entry in table.ledger.entries] == ENTRIES
    assert (table.ledger.read, table.ledger.kept) == (6, 2)
    assert table.labels == ("word (column 1)", "ipa (column 2)")


def test_numbers_are_text_and_na_is_missing():
    values: dict[str, list[Any]] = {"a": [1, 2.5, True, "x"], "b": ["p", "q", "r", _Na()]}
    table = read(Pandas(values), DataSettings(bad_rows="skip"))
    assert list(table.pairs) == [("1", "p"), ("2.5", "q"), ("true", "r")]
    assert [str(entry.reason) for entry in table.ledger.entries] == ["missing value"]


def test_a_missing_value_goes_to_the_ledger_and_another_value_stops():
    with pytest.raises(TableError, match=r"1 damaged row\n.*\n.*row 6: value that is not text"):
        read(Pandas(), SKIP.model_copy(update={"bad_rows": "stop"}))


def test_a_dictionary_of_data_sets_is_refused():
    with pytest.raises(UsageError, match=r"dataset\['train'\]"):
        source_of_frame(Datasets({"train": [], "test": []}))


def test_a_list_of_mappings_is_a_table():
    rows = [{"id": 1, "target": "b", "source": "a"}, {"source": 2.5, "target": "c"}, {"source": "d"}]
    table = read(rows, DataSettings(bad_rows="skip"))
    assert [tuple(pair) for pair in table.pairs] == [("a", "b"), ("2.5", "c")]
    assert table.ledger.entries[0].reason == Reason.MISSING_VALUE
    with pytest.raises(UsageError, match="is not a mapping"):
        read([{"source": "a", "target": "b"}, ("c", "d")], DataSettings())


@pytest.mark.parametrize("value", [[("a", "b")], {"a": "b"}, iter(()), None, dict, Table])
def test_other_values_are_no_frames(value):
    assert source_of_frame(value) is None


def test_a_frame_is_trained_on(tmp_path):
    frame = Pandas({"word": [f"w{i}" for i in range(30)], "ipa": [f"i{i}" for i in range(30)]})
    planned = plan(frame, tmp_path / "run", overrides={"data.source": "word", "data.target": "ipa"})
    assert planned.table.ledger.kept == 30
    assert planned.prepared.data.column_labels == ("word (column 0)", "ipa (column 1)")


# Arrow


@pytest.mark.parametrize("kind", ["stream", "file", "compressed"])
def test_a_folder_of_arrow_files_is_a_table_as_datasets_saves_it(tmp_path: Path, kind: str):
    table = pa.table({"word": ["a", None, "c"], "ipa": ["x", "y", "z"]})
    for number in (0, 1):
        name = f"data-0000{number}-of-00002.arrow" + (".gz" if kind == "compressed" else "")
        new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
        with pa.output_stream(tmp_path / name) as stream, new(stream, table.schema) as writer:
            writer.write_table(table)
    (tmp_path / "state.json").write_text("{}")
    found = read_table(tmp_path, SKIP)
    assert list(found.pairs) == [("a", "x"), ("c", "z")] * 2
    assert list(found.rows) == [1, 3, 1, 3]
    assert [(entry.row, str(entry.reason)) for entry in found.ledger.entries] == [(2, "missing value")] * 2


@pytest.mark.parametrize(
    ("name", "build"), [("pandas", "DataFrame"), ("datasets", "Dataset.from_dict"), ("pyarrow", "table")]
)
def test_the_frames_of_the_libraries_are_read(name: str, build: str):
    values = {"word": ["a", None, "c"], "ipa": ["x", "y", "z"]}
    table = read(attrgetter(build)(pytest.importorskip(name))(values))
    assert list(table.pairs) == [("a", "x"), ("c", "z")]
    assert [(entry.row, str(entry.reason)) for entry in table.ledger.entries] == [(2, "missing value")]


# Pairs and texts: what is not text is named by its row


def test_any_pair_of_two_texts_is_accepted():
    expected = [Pair("a", "b"), Pair("c", "")]
    array = np.array([["a", "b"], ["c", ""]])
    for pairs in (expected, [["a", "b"], ["c", ""]], (pair for pair in expected), {("a", "b"): 1, ("c", ""): 2}, array):
        assert list(checked_pairs(pairs)) == expected


NO_PAIRS = ["cd", b"cd", None, ("c",), ("c", "d", "e"), ("c", None), (1, "d"), [], [["c"], ["d"]], {"c": "d", "e": "f"}]


@pytest.mark.parametrize("pair", [*NO_PAIRS, frozenset("cd")], ids=lambda pair: type(pair).__name__)
def test_a_pair_that_is_not_two_texts_is_an_error_with_its_row(pair):
    with pytest.raises(UsageError, match="row 2 of the pairs is not a pair") as caught:
        list(checked_pairs([("a", "b"), pair]))
    assert caught.value.got
    assert len(caught.value.got) <= 80
    assert caught.value.expected == "a source and a target, both text: (source, target)"


@pytest.mark.parametrize("values", ["ab", b"ab", None, 3, 2.5, object()], ids=lambda values: repr(values)[:20])
def test_values_that_are_not_iterable_or_are_text_are_an_error(values):
    with pytest.raises(UsageError, match="the pairs are not a list"):
        list(checked_pairs(values))
    with pytest.raises(UsageError, match="the prefixes are not a list"):
        checked_texts(values, "prefixes")


@pytest.mark.parametrize("text", [None, 3, b"a", float("nan"), ["a"]])
def test_a_value_that_is_not_text_is_an_error(text):
    with pytest.raises(UsageError, match="row 2 of the texts is not text"):
        checked_texts(["a", text], "texts")
    with pytest.raises(UsageError, match="the target is not text"):
        check_text(text, "target")
    assert checked_texts(("a", ""), "texts") == ["a", ""]
