"""What was trained is what is evaluated: columns are found again by name, wherever they are, or by position."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data.extracts import write_parts
from glassformer.data.headers import KIND_PAIRS, ROLE_PAIRS
from glassformer.data.rows import cells_of_column
from glassformer.data.splits import split
from glassformer.data.tables import Table, read_table
from glassformer.errors import ColumnError, TableError
from glassformer.settings import DataSettings
from tests.cases import PAIRS

NAMES = st.text(st.characters(categories=("L", "N", "Zs")), min_size=1, max_size=8).filter(
    lambda name: name == name.strip() and not name.isdigit()
)
X, Y = map(list, zip(*PAIRS, strict=True))
NUMBERS = [str(row) for row in range(len(PAIRS))]
INDEX = st.sampled_from([None, "", "id", "Unnamed: 0", "__index_level_0__"])


def written(columns: list[tuple[str, list[str]]], *, header: bool = True) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(
        [*([[name for name, _ in columns]] if header else []), *zip(*(cells for _, cells in columns), strict=True)]
    )
    return text.getvalue()


def read(folder: str | Path, text: str, like: Table | None = None, **data: object) -> Table:
    path = Path(folder) / "a.csv"
    path.write_text(text, encoding="utf-8")
    return read_table(path, DataSettings(**data), None if like is None else like.taken)


@st.composite
def headers(draw: st.DrawFn) -> tuple[list[tuple[str, list[str]]], list[tuple[str, list[str]]], str, str]:
    """Columns to train on, those to evaluate on, and the names of source and target in the first."""
    names = draw(st.lists(NAMES, min_size=2, max_size=5, unique_by=str.casefold))
    source, target = draw(st.permutations(names))[:2]
    texts = {source: X, target: Y}

    def table(change: st.SearchStrategy[str]) -> list[tuple[str, list[str]]]:
        columns = [
            (draw(change)(name), texts.get(name, [f"{name}{row % 7}" for row in range(len(PAIRS))])) for name in names
        ]
        columns = draw(st.permutations(columns))
        index = draw(INDEX)
        return columns if index is None else [(index, NUMBERS), *columns]

    # Folding is compared, and not every letter has the same folded form in capitals.
    changes = [
        str,
        lambda name: f" {name} ",
        lambda name: name.upper() if name.upper().casefold() == name.casefold() else name,
    ]
    return table(st.just(str)), table(st.sampled_from(changes)), source, target


@settings(max_examples=25, deadline=None)
@given(headers())
def test_what_was_trained_is_what_is_evaluated(drawn):
    trained, evaluated, source, target = drawn
    with tempfile.TemporaryDirectory() as folder:
        table = read(folder, written(trained), source=source, target=target, header="yes")
        assert table.pairs == PAIRS
        assert read(folder, written(evaluated), like=table).pairs == PAIRS
        assert read(folder, written(trained, header=False), like=table).pairs == PAIRS  # by position
        without = [(name, cells) for name, cells in evaluated if name.strip().casefold() != target.casefold()]
        with pytest.raises((ColumnError, TableError), match=r"does not have the columns of the training|one column"):
            read(folder, written(without), like=table)


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([("source", "target"), *ROLE_PAIRS]), st.data())
def test_usual_names_are_found_in_any_order_and_case_beside_other_columns(names, data):
    others = data.draw(st.lists(NAMES, max_size=2, unique_by=str.casefold))
    known = {name for pair in (("source", "target"), *ROLE_PAIRS, *KIND_PAIRS) for name in pair}
    others = [name for name in others if name.casefold() not in known]
    columns = [*zip(names, (X, Y), strict=True)]
    columns += [(name, [f"{name}{row % 3}" for row in range(len(PAIRS))]) for name in others]
    index = data.draw(INDEX)
    columns += [] if index is None else [(index, NUMBERS)]
    change = data.draw(st.sampled_from([str, str.upper, str.capitalize]))
    shuffled = data.draw(st.permutations([(change(name), cells) for name, cells in columns]))
    with tempfile.TemporaryDirectory() as folder:
        assert read(folder, written(shuffled)).pairs == PAIRS


@pytest.mark.parametrize(("first", "second"), KIND_PAIRS)
def test_names_of_kinds_are_read_in_their_order(tmp_path, first, second):
    assert read(tmp_path, written([(first, X), ("note", X), (second, Y)])).pairs == PAIRS
    assert read(tmp_path, written([(second, X), (first, Y)])).pairs == PAIRS  # two columns, in their order
    with pytest.raises(ColumnError, match="which of its 3 columns"):
        read(tmp_path, written([(second, X), ("note", X), (first, Y)]))


def test_a_table_with_names_of_its_own_is_read_by_position_only_where_they_do_not_say_otherwise(tmp_path):
    trained = read(tmp_path, written([("word", X), ("pron", Y)]))
    by_position = read(tmp_path, written([("Wort", X), ("Laute", Y)]), like=trained, header="yes")
    assert by_position.pairs == PAIRS
    note = "the columns of the training are read by position, 0, 1: the table has none of their names"
    assert by_position.notes == (note,)
    with pytest.raises(ColumnError, match="does not have the columns"):
        read(tmp_path, written([("target", Y), ("source", X)]), like=trained)
    notes = read(tmp_path, written([("lemma", X), ("form", Y), ("note", X)]), source="lemma", target="form")
    with pytest.raises(ColumnError, match="does not have the columns"):
        read(tmp_path, written([("id", NUMBERS), ("word", X), ("plural", Y)]), like=notes)
    headless = read(tmp_path, written([("", X), ("", Y)], header=False))
    assert headless.labels == ("column 0", "column 1")
    assert read(tmp_path, written([("id", X), ("target", Y), ("source", X)]), like=headless).pairs == PAIRS


@pytest.mark.parametrize("other", [[], [("id", NUMBERS)], [("note", X)]])
@pytest.mark.parametrize(("first", "second"), [("source", "target"), *ROLE_PAIRS, *KIND_PAIRS])
def test_a_usual_pair_can_be_reversed_by_one_of_them(tmp_path, other, first, second):
    table = written([*other, (first, Y), (second, X)])
    assert read(tmp_path, table, source=second).pairs == PAIRS
    assert read(tmp_path, table, target=first).pairs == PAIRS


def test_a_name_that_is_wrong_beside_a_right_one_is_the_one_that_is_blamed(tmp_path):
    with pytest.raises(ColumnError, match="there is no column 'Plurall'") as caught:
        read(tmp_path, written([("Wort", X), ("Plural", Y)]), source="Wort", target="Plurall")
    assert caught.value.hint == "did you mean 'Plural'? valid: Wort, Plural"


@pytest.mark.parametrize("names", [("", "word"), ("Unnamed: 0", "word"), ("id", "source"), ("ID", "Wort")])
def test_the_numbers_of_rows_are_never_one_of_two_columns_unless_they_have_a_name(tmp_path, names):
    with pytest.raises(ColumnError, match="which of its 2 columns"):
        read(tmp_path, written([(names[0], NUMBERS), (names[1], X)]))
    assert read(tmp_path, written([("number", NUMBERS), ("words", Y)])).sources == NUMBERS


@pytest.mark.parametrize("mark", ["# ", "// ", "% ", "#"])
def test_text_that_begins_as_a_comment_does_is_text(tmp_path, mark):
    sources = [f"{mark}{x}" for x in X[:3]] + X[3:]
    assert read(tmp_path, written([("", sources), ("", Y)], header=False)).sources == sources


def test_a_folder_in_which_some_files_have_a_header_is_split_without_a_loss(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    columns = [("id", NUMBERS), ("word", X), ("pron", Y)]
    (folder / "a.csv").write_text(written([(name, cells[:20]) for name, cells in columns]))
    (folder / "b.csv").write_text(written([(name, cells[20:]) for name, cells in columns], header=False))
    table = read_table(folder, DataSettings())
    assert table.pairs == PAIRS
    assert cells_of_column(table, "0") == columns[0][1]
    write_parts(table, split(table.pairs, 0.3, 0, seed=1), tmp_path / "parts")
    parts = [read_table(tmp_path / "parts" / name, DataSettings()) for name in ("train", "valid")]
    assert sorted(pair for part in parts for pair in part.pairs) == sorted(PAIRS)


def test_text_in_braces_is_no_object(tmp_path):
    rows = [(f"{{{x}}}", y) for x, y in PAIRS]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"template": x, "result": y}) + "\n" for x, y in rows))
    assert read_table(path, DataSettings()).pairs == rows


RECORDS = [f"RX-{100_000 + 7 * row}" for row in range(len(PAIRS))]
KINDS = [f"kind {row % 3}" for row in range(len(PAIRS))]


def test_a_column_of_record_numbers_is_neither_and_what_is_above_it_is_a_header(tmp_path):
    assert read(tmp_path, written([("record", RECORDS), ("written", X), ("meant", Y)])).pairs == PAIRS
    columns = [("kind", KINDS), ("record", RECORDS), ("written", X), ("meant", Y)]
    with pytest.raises(ColumnError, match="which of its 4 columns") as caught:
        read(tmp_path, written(columns))
    assert caught.value.hint == "name them, for example: --source written --target meant"
    without = [(name, [cell if row else f"{name} {cell}" for row, cell in enumerate(cells)]) for name, cells in columns]
    assert read(tmp_path, written(columns[1:], header=False)).pairs == PAIRS  # the first row has a record number
    with pytest.raises(ColumnError, match="which of its 4 columns") as caught:
        read(tmp_path, written(without[:1] + without[2:] + [("more", X)], header=False))
    assert caught.value.hint == "name them, for example: --source 1 --target 2"
