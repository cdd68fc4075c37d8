"""Cleaning against plain lists, and every row against the ledger."""

from __future__ import annotations

import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data.cleaning import clean, has_control, strip_controls
from glassformer.data.given import as_table
from glassformer.data.pairs import Pair
from glassformer.data.tables import Table, read_table
from glassformer.errors import TableError
from glassformer.settings import DataSettings
from glassformer.text.inputs import Cells


def tags(text: str) -> str:
    return "".join(chr(0xE0000 + ord(letter)) for letter in text)


ENGLAND, SCOTLAND = (f"\U0001f3f4{tags(region)}\U000e007f" for region in ("gbeng", "gbsct"))

quick = settings(max_examples=30)
texts = st.text("abé\u0301\u200b\n\t \x1fя", min_size=1, max_size=5).filter(lambda text: text.strip())
tables = st.lists(st.tuples(texts, texts), min_size=1, max_size=30)


def cleaned(pairs: list[tuple[str, str]], **chosen: object) -> Table:
    return clean(as_table(pairs), DataSettings(**chosen))


def dropped(table: Table) -> list[tuple[int, str, str]]:
    return [(entry.row, str(entry.reason), entry.detail) for entry in table.ledger.entries]


@quick
@given(tables)
def test_contradictions_and_duplicates_are_those_of_plain_counting(pairs):
    normal = [tuple(unicodedata.normalize("NFC", text) for text in pair) for pair in pairs]
    targets = {source: Counter(target for other, target in normal if other == source) for source, _ in normal}
    best = {}
    for source, counts in targets.items():
        (target, most), *others = counts.most_common(2)
        best[source] = None if others and others[0][1] == most else target
    expected = [row for row, (source, target) in enumerate(normal, 1) if best[source] == target]
    once = [row for row, pair in enumerate(normal, 1) if pair not in normal[: row - 1]]
    for chosen, rows in (
        ({"drop_contradictions": True}, expected),
        ({"drop_duplicates": True}, once),
        ({"drop_contradictions": True, "drop_duplicates": True}, sorted(set(expected) & set(once))),
    ):
        assert rows_left(pairs, **chosen) == rows


def rows_left(pairs, **chosen):
    try:
        return cleaned(pairs, **chosen).rows
    except TableError:
        return []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("zero\u200bwidth\xad\ufeff", "zerowidth"),
        ("two\r\nlines\tand\u2028more\n", "two lines and more"),
        ("\u200b\n x", " x"),
        ("می\u200cخواهم", "می\u200cخواهم"),  # a joiner that is a letter of the spelling
        ("bell\x07\x00", "bell"),
        (f"{ENGLAND}{SCOTLAND} \U0001f3f4 x", f"{ENGLAND}{SCOTLAND} \U0001f3f4 x"),
        (f"a{ENGLAND[1:]}\U000e0001{ENGLAND}", f"a{ENGLAND}"),
        (f"\U0001f3f4{tags('hidden words')}", f"\U0001f3f4{tags('hidden w')}"),
    ],
)
def test_control_characters_are_removed_and_line_breaks_become_spaces(text, expected):
    assert strip_controls(text) == expected
    assert has_control(text) == (text != expected)


def test_control_characters_are_removed_before_rows_are_compared():
    table = cleaned([("a\u200b", "1"), ("a", "1\x1f"), ("\u200b", "2")], strip_controls=True, drop_duplicates=True)
    assert table.pairs == [Pair("a", "1")]
    assert dropped(table) == [
        (3, "empty source", "without control characters"),
        (2, "duplicate", "the same as row 1"),
    ]
    assert table.ledger.changed == 1
    assert "1 kept without their control characters" in table.ledger.summary()


def test_each_input_of_a_source_is_cleaned(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("lemma,tags,form\nwa\u200blk,V;PST,walked\nwalk,V;PST,walked\ngo,\u200b,goes\n")
    data = DataSettings(source="lemma", features=["tags"], target="form", strip_controls=True, drop_duplicates=True)
    table = clean(read_table(path, data), data)
    assert table.pairs == [Pair(Cells(["walk", "V;PST"]), "walked")]
    assert dropped(table) == [
        (3, "empty feature", "without control characters"),
        (2, "duplicate", "the same as row 1"),
    ]


def test_an_error_says_when_no_row_is_left():
    with pytest.raises(TableError, match="no row of the table is left after cleaning") as caught:
        cleaned([("a", "1"), ("a", "2")], drop_contradictions=True)
    assert "2 × contradiction" in str(caught.value.got)


def test_a_dropped_row_of_a_folder_is_named_with_its_own_file(tmp_path):
    (folder := tmp_path / "tables").mkdir()
    (folder / "a.csv").write_text("source,target\na,b\na,b\nc,\u200bd\n")
    (folder / "b.csv").write_text("source,target\ne,f\na,b\ne,g\ne,f\n")
    data = DataSettings(drop_duplicates=True, drop_contradictions=True, strip_controls=True)
    table = clean(read_table(folder, data), data)
    assert [tuple(pair) for pair in table.pairs] == [("a", "b"), ("c", "d"), ("e", "f")]
    assert [(entry.row, Path(entry.file).name, entry.detail) for entry in table.ledger.entries] == [
        (2, "a.csv", f"the same as row 1 of {folder / 'a.csv'}"),
        (2, "b.csv", f"the same as row 1 of {folder / 'a.csv'}"),
        (3, "b.csv", "target of 1 of 3 rows with this source"),
        (4, "b.csv", f"the same as row 1 of {folder / 'b.csv'}"),
    ]
    assert (table.ledger.changed, table.ledger.kept, list(table.rows)) == (1, 3, [1, 3, 1])
    assert table.files == ((0, str(folder / "a.csv")), (2, str(folder / "b.csv")))
