"""CSV of any size and with any damage: the cells are those of the csv module, and no damage takes whole rows along.

The oracles are the csv module, without its limit, and rows put together by hand.
"""

from __future__ import annotations

import csv
import io
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data import delimited
from glassformer.data.delimited import csv_rows
from glassformer.data.lines import Lines
from glassformer.data.tables import read_table
from glassformer.settings import DataSettings
from tests.data.columns import entries_of, put

MODULE_LIMIT = 131_072  # characters of a cell: the csv module's own limit, unless somebody changes it
STOP = DataSettings(header="no")
SKIP = DataSettings(header="no", bad_rows="skip")


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def written(rows, **options) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue()


def by_the_csv_module(text: str) -> list[tuple[str, ...]]:
    before = csv.field_size_limit(2**31 - 1)
    try:
        return [tuple(row) for row in csv.reader(io.StringIO(text, newline=""), strict=True)]
    finally:
        csv.field_size_limit(before)


# Cells of any size

LARGE_CELLS = {
    "one more": "x" * (MODULE_LIMIT + 1),
    "lines that end in \\r\\n": f"a,b{'x' * 60}\r\n" * 2_200,
    "doubled quotes": f'say "yes", "no{"x" * 60}"\n' * 1_800,
    "nothing but quotes": '"' * 140_000,
}


@pytest.mark.parametrize("name", LARGE_CELLS)
def test_a_valid_cell_is_a_cell_whatever_its_size(folder, name):
    large = LARGE_CELLS[name]
    rows = [("1", "a"), ("2", large), (large, "b"), ("4", "d"), (large + "5", large + "e"), ("6", "f")]
    text = written(rows)
    assert by_the_csv_module(text) == rows
    path = put(folder, "a.csv", text)
    table = read_table(path, STOP)
    assert table.pairs == rows
    assert table.ledger.counts() == {"read": 6, "kept": 6}
    skipping = read_table(put(folder, "a.csv", f'{text}3,"b"c\n{text}'), SKIP)
    assert (skipping.pairs, entries_of(skipping.ledger)[0][2]) == (rows * 2, "text after a closing quote")


# Quotes that are never closed


def test_bytes_that_are_not_utf8_are_still_named_after_they_were_read_again(folder, monkeypatch):
    monkeypatch.setattr(delimited, "MAX_ROW_CHARACTERS", 100)
    path = folder / "bytes.csv"
    path.write_bytes(b'1,"a\n' + b"2,b\n" * 50 + b"3,\xff\n" + b"\xef\xbb\xbf4,d\n" * 2)
    table = read_table(path, SKIP)
    assert entries_of(table.ledger) == [
        (1, 1, "unclosed quote"),
        (52, 52, "not UTF-8 (byte 0xff at offset 207 of the file)"),
    ]
    assert table.pairs == [*[("2", "b")] * 50, *[("\ufeff4", "d")] * 2]


cells = st.text('",\r\nab é\x0b\x85\u2028', min_size=1, max_size=9).filter(str.strip)
large = st.builds(lambda cell, times: cell * times, cells, st.sampled_from([1, 1, 1, 8, 40]))
tables = st.lists(st.tuples(large, large), min_size=1, max_size=8)


@settings(max_examples=30)
@given(tables, st.booleans())
def test_all_rows_of_a_valid_table_are_kept_except_those_that_are_too_long(rows, all_quoted):
    quoting, end = (csv.QUOTE_ALL, "\n") if all_quoted else (csv.QUOTE_MINIMAL, "\r\n")
    text = written(rows, quoting=quoting, lineterminator=end)
    assert by_the_csv_module(text) == rows
    too_long = [len(written([row], quoting=quoting, lineterminator=end)) > 100 for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "MAX_ROW_CHARACTERS", 100)
        found = list(csv_rows(Lines(io.BytesIO(text.encode()), "a.csv", lone_cr=True), []))
    assert [bool(row.fault) for row in found] == too_long
    assert [tuple(row.cells) for row in found] == [
        () if long else row for row, long in zip(rows, too_long, strict=True)
    ]


plain = st.text("ab é", min_size=1, max_size=9)
damage = st.sampled_from(['"', 'x,"', 'x,"y', '"x,y', 'x,"""', 'x,""""y', 'x,"y"z'])


@settings(max_examples=30)
@given(st.lists(st.tuples(plain, plain) | damage, min_size=1, max_size=40), st.sampled_from([5, 30, 2**24]))
def test_every_line_is_a_row_or_in_a_row_or_in_a_damaged_one(rows, limit):
    """Whatever is wrong, and wherever memory ends: no line is left out, none is read as two rows."""
    text = "".join((row if isinstance(row, str) else ",".join(row)) + "\n" for row in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "MAX_ROW_CHARACTERS", limit)
        found = list(csv_rows(Lines(io.BytesIO(text.encode()), "a.csv", lone_cr=True), []))
    starts = [row.line or 0 for row in found] + [len(rows) + 1]
    assert starts[0] == 1
    assert starts == sorted(set(starts))
    lines = text.splitlines(keepends=True)
    for row, start, stop in zip(found, starts, starts[1:], strict=False):
        own = "".join(lines[start - 1 : stop - 1])
        if not row.fault:
            assert [tuple(row.cells)] == by_the_csv_module(own)
        elif row.fault.reason == "row too long":
            assert len(own) > limit
            assert len(by_the_csv_module(own)) == 1
        else:
            with pytest.raises(csv.Error):
                by_the_csv_module(own)


# Time

PATHOLOGICAL = """
import io
from glassformer.data import delimited
from glassformer.data.lines import Lines

for text in (
    '"a\\n' * 20_000,  # an unclosed quote in every line
    ('"a\\n' + 'b,""\\n' * 99) * 200,  # in every hundredth
    ('x,' + 3 * '"' + '\\n') * 20_001,  # three quotes in every line
    'x,"y"z\\n' * 20_000,  # text after a closing quote in every line
    '"' * 200_001,
):
    for delimited.MAX_ROW_CHARACTERS in (60, 2**24):
        rows = list(delimited.csv_rows(Lines(io.BytesIO(text.encode()), "a.csv", lone_cr=True), []))
        assert any(row.fault for row in rows)
"""


@pytest.mark.medium
def test_time_grows_no_faster_than_the_file():
    """Twice or three times the work of reading would do; a quadratic one would take many minutes."""
    subprocess.run([sys.executable, "-c", PATHOLOGICAL], check=True, timeout=50)
