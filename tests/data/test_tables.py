"""Tables of every format become the same pairs, and every row is accounted for.

The oracles are the writers: Python's csv and json modules, pyarrow, and bytes put together by hand.
"""

import csv
import gzip
import hashlib
import io
import json
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from glassformer.data import delimited, ledger, lines
from glassformer.data.pairs import Pair, fingerprint
from glassformer.data.tables import read_table
from glassformer.errors import ColumnError, MissingExtraError, TableError
from glassformer.settings import DataSettings
from tests.data.columns import entries_of, put, read_column, read_lines

ROWS = [
    *(("1845-01-05", "January 5, 1845"), ("1467-07-28", "July 28, 1467"), ("1468-01-11", "January 11, 1468")),
    *(("NA", "null"), ("nan", "None"), (" leading", "trailing "), ("true", "1.50"), ("N/A", "#N/A"), ("-", "''")),
]
HEADLESS = DataSettings(header="no")
SKIP = DataSettings(header="no", bad_rows="skip")


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def pairs_of(path, data=HEADLESS):
    return [tuple(pair) for pair in read_table(path, data).pairs]


def failure(kind, call, *arguments):
    with pytest.raises(kind) as caught:
        call(*arguments)
    assert "Traceback" not in str(caught.value)
    return caught.value


# --- Writing the same pairs in every format ---


def csv_bytes(rows, **options):
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue().encode()


def tsv_bytes(rows):
    return "".join(f"{source}\t{target}\n" for source, target in rows).encode()


def jsonl_bytes(rows, ascii_only=False):
    lines = (json.dumps({"source": one, "target": other}, ensure_ascii=ascii_only) for one, other in rows)
    return "".join(line + "\n" for line in lines).encode()


def parquet_of(columns):
    sink = io.BytesIO()
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), sink)
    return sink.getvalue()


def parquet_bytes(rows):
    return parquet_of({"source": [row[0] for row in rows], "target": [row[1] for row in rows]})


def zst_bytes(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def arrow_stream(rows):
    table, sink = pa.table({"source": [row[0] for row in rows], "target": [row[1] for row in rows]}), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    return sink.getvalue()


WRITERS = {"csv": csv_bytes, "tsv": tsv_bytes, "tab": tsv_bytes, "jsonl": jsonl_bytes, "ndjson": jsonl_bytes}
WRITERS["parquet"] = parquet_bytes
PACKERS = {"": bytes, ".gz": gzip.compress, ".zst": zst_bytes}
FORMAT_NAMES = {"csv": "CSV", "tsv": "TSV", "tab": "TSV", "jsonl": "JSON Lines", "ndjson": "JSON Lines"}
FORMAT_NAMES["parquet"] = "Parquet"


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_and_compression_gives_the_same_pairs(folder, suffix, packing):
    path = put(folder, f"pairs.{suffix}{packing}".upper(), PACKERS[packing](WRITERS[suffix](ROWS)))
    table = read_table(path, DataSettings())
    assert table.pairs == ROWS
    assert all(isinstance(pair, Pair) for pair in table.pairs)
    assert table.rows == list(range(1, len(ROWS) + 1))
    assert (table.format, table.path) == (FORMAT_NAMES[suffix], str(path))
    assert table.ledger.counts() == {"read": len(ROWS), "kept": len(ROWS)}
    named = suffix in ("jsonl", "ndjson", "parquet")
    assert (table.header, table.columns) == (named, ("source", "target") if named else None)
    assert table.labels == (("source (column 0)", "target (column 1)") if named else ("column 0", "column 1"))
    column = read_column(path, 1, DataSettings())
    assert column.cells == [row[1] for row in ROWS]
    for found in (table, column):  # a table with names of its own has no first row to guess
        assert (found.first, found.header_guessed) == ((() if named else ROWS[0]), not named)


@pytest.mark.parametrize("packing", PACKERS)
def test_two_parallel_text_files_are_one_table(folder, packing):
    pack = PACKERS[packing]
    one = put(folder, f"a.en{packing}", pack("\n".join(row[0] for row in ROWS).encode()))
    other = put(folder, f"a.de{packing}", pack("".join(row[1] + "\r\n" for row in ROWS).encode()))
    table = read_table(f"{one},{other}", DataSettings())
    assert table.pairs == ROWS
    assert (table.format, table.header, table.columns) == ("parallel text", False, (str(one), str(other)))
    assert table.labels == (f"{one} (column 0)", f"{other} (column 1)")
    assert pairs_of(f"{one},{other}", DataSettings(source=1, target=0)) == [row[::-1] for row in ROWS]
    assert read_lines(one) == [row[0] for row in ROWS]


@pytest.mark.parametrize("name", ["a[1]", "a?", "a*", "[a]{b}"])
def test_parallel_files_may_have_the_characters_of_a_pattern_in_their_names(folder, name):
    one, other = put(folder, f"{name}.en", "1\n2\n"), put(folder, f"{name}.de", "eins\nzwei\n")
    table = read_table(f"{one},{other}", DataSettings())
    assert (table.format, table.pairs) == ("parallel text", [("1", "eins"), ("2", "zwei")])
    for missing in (f"{one},{other}x", f"{one}x,{other}"):
        assert failure(TableError, read_table, missing, DataSettings()).what == "no file matches this pattern"


# --- Cells come back as they were written ---

hostile = st.text(
    st.sampled_from("\",;|\\'\r\n\t aNA0é\u2028\u0085\x0b\x0c\x1c\ufeff😀") | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
).filter(lambda text: text.strip() and "\0" not in text)
hostile_rows = st.lists(st.tuples(hostile, hostile), min_size=1, max_size=6)


@settings(max_examples=25)
@given(hostile_rows, st.booleans())
def test_cells_of_other_formats_are_read_as_written(folder, rows, ascii_only):
    assert pairs_of(put(folder, "pairs.jsonl", jsonl_bytes(rows, ascii_only))) == rows
    assert pairs_of(put(folder, "pairs.parquet", parquet_bytes(rows))) == rows
    lines = [tuple(cell.translate(dict(zip(b"\t\r\n", "TRL", strict=True))) for cell in row) for row in rows]
    lines = [tuple(cell.replace("\ufeff", "B") for cell in row) for row in lines]
    assert pairs_of(put(folder, "pairs.tsv", tsv_bytes(lines))) == lines
    one = put(folder, "a.x", "".join(row[0] + "\n" for row in lines))
    other = put(folder, "a.y", "\n".join(row[1] for row in lines))
    assert pairs_of(f"{one},{other}") == lines


def test_the_last_line_counts_without_its_end_and_blank_lines_count():
    lines = read_lines(io.BytesIO(b"\xef\xbb\xbfa\n\nb\x0bc\xe2\x80\xa8d\re\r\r\nf"))
    assert lines == ["a", "", "b\x0bc\u2028d\re\r", "f"]
    assert read_lines(io.BytesIO(b"\n")) == [""]


def test_values_of_json_and_parquet_keep_their_written_form_and_other_columns_are_left_alone(folder):
    lines = '{"x": 1.50, "y": -0}\n{"x": true, "y": 123456789012345678901}\r\n{"y": "a", "x": false, "z": [1]}\n'
    expected = [("1.50", "-0"), ("true", "123456789012345678901"), ("false", "a")]
    assert pairs_of(put(folder, "a.jsonl", lines)) == expected
    columns = {"id": [[1], []], "n": [7, 8], "flag": [True, False], "a.b": ["x", "y"]}
    path = put(folder, "a.parquet", parquet_of(columns))
    assert pairs_of(path, DataSettings(source="n", target="flag")) == [("7", "true"), ("8", "false")]
    assert pairs_of(path, DataSettings(source="a.b", target="1")) == [("x", "7"), ("y", "8")]
    twice = pa.Table.from_arrays([pa.array(["p"]), pa.array(["q"])], names=["x", "x"])
    assert pairs_of(put(folder, "b.parquet", parquet_of(twice))) == [("p", "q")]


# --- Headers and columns ---


@pytest.mark.parametrize(
    ("first", "data", "header", "guessed"),
    [
        ("source,target", {}, True, True),
        (" Word , IPA", {}, True, True),
        ("text,en,label", {}, True, True),
        ("woord,uitspraak", {}, False, True),
        ("woord,uitspraak", {"header": "yes"}, True, False),
        ("source,target", {"header": "no"}, False, False),
        ("woord,uitspraak", {"source": "woord", "target": "uitspraak"}, True, False),
        ("woord,uitspraak", {"source": "uitspraak", "target": 0}, True, False),
        ("source,source", {}, False, True),
        ("source,target,", {}, True, True),
        (",source,target", {}, True, True),
        ("0,1", {"source": "0", "target": "1"}, False, True),
        ("1845-01-05,1467-07-28", {}, False, True),
    ],
)
def test_a_header_is_recognized_or_set(folder, first, data, header, guessed):
    row = ",".join("abc"[: first.count(",") + 1])
    path = put(folder, "a.csv", f"{first}\n{row}\n")
    table = read_table(path, DataSettings(**data))
    assert (len(table.pairs), table.rows[0]) == (1 if header else 2, 1)
    column = read_column(path, data.get("source", 0), DataSettings(header=data.get("header", "auto")))
    assert column.ledger.read == column.ledger.kept == len(column.cells)
    for found in (table, column):
        assert (found.first, found.header, found.header_guessed) == (tuple(first.split(",")), header, guessed)
        assert (found.format, found.path) == ("CSV", str(path))


THREE = "id,source,target\n1,a,b\n"


@pytest.mark.parametrize(
    ("text", "data", "pair", "taken"),
    [
        ("id,source,2\ni,s,t\n", {"source": 2, "target": "0"}, ("t", "i"), ("2 (column 2)", "id (column 0)")),
        ("id,target,source\ni,t,s\n", {}, ("s", "t"), ("source (column 2)", "target (column 1)")),
        ("x,y\na,b\n", {"source": 1}, ("b", "a"), ("y (column 1)", "x (column 0)")),
        ("x,y\na,b\n", {"target": 0}, ("b", "a"), ("y (column 1)", "x (column 0)")),
        (THREE, {"source": "0" * 5000 + "1", "target": "0" * 5000}, ("a", "1"), ("source (column 1)", "id (column 0)")),
    ],
)
def test_columns_are_taken_by_name_or_position_or_are_source_and_target_or_what_is_left(
    folder, text, data, pair, taken
):
    table = read_table(put(folder, "a.csv", text), DataSettings(header="yes", **data))
    assert (table.pairs, table.labels) == ([pair], taken)


@pytest.mark.parametrize(
    ("text", "source", "target", "parts"),
    [
        (THREE, "sorce", "target", ("no column 'sorce'", "did you mean 'source'? valid: id, source, target")),
        (THREE, 3, 0, ("no column 3", "3 columns: id | source | target", "a position from 0 to 2")),
        (THREE, -1, 0, ("no column -1",)),
        (THREE, 1, "9" * 5000, (f"no column {'9' * 59}…\n",)),
        (THREE, "s" * 9999, 1, (f"no column '{'s' * 59}…'",)),
        (THREE, "source", 1, ("got: source (column 1)", "different columns of: id | source | target")),
        ("a,b,c\n1,x,y\n", "a", None, ("the source column is set, but the target column is not", "--target b")),
        ("a,b,c\n1,x,y\n", None, "a", ("the target column is set, but the source column is not", "--source b")),
        ("huis,h œy s\n", "woord", 1, ("no column 'woord', because", "got: the first row huis | h œy s", "--header")),
        ("x,x\na,b\n", "x", 1, ("2 columns are named 'x'", "give its position instead, for example 0")),
    ],
)
def test_a_missing_column_is_an_error_that_lists_the_columns(folder, text, source, target, parts):
    path = put(folder, "a.csv", text)
    error = failure(ColumnError, read_table, path, DataSettings(source=source, target=target))
    assert (error.where, [part for part in parts if part not in str(error)], error.exit_code) == (str(path), [], 2)


def test_a_member_that_the_first_json_object_lacks_is_a_column(folder):
    data = DataSettings(source="x", features=("tags",), target="y")
    table = read_table(put(folder, "a.jsonl", '{"x": "a", "y": "b"}\n{"x": "c", "y": "d", "tags": "N;V"}\n'), data)
    assert list(table.rows) == [2]
    assert entries_of(table.ledger) == [(1, 1, "missing value ('tags' is missing or null)")]


# --- Rows that are not kept ---


@pytest.mark.parametrize(
    ("name", "text", "rows", "entries"),
    [
        (
            "a.csv",
            'source,target\na,b\n,b\n\na, \n\u00a0,"\n"\nc,d\n\n',
            [1, 6],
            [*((2, 3, "empty source"), (3, 4, "blank line"), (4, 5, "empty target"), (5, 6, "empty source")),
             (7, 9, "blank line")],
        ),
        ("a.tsv", "\n\nsource\ttarget\na\tb\n", [3], [(1, 1, "blank line"), (2, 2, "blank line")]),
        ("a.jsonl", '{"x":"a","y":"b"}\n \n{"x":"c","y":"d"}', [1, 3], [(2, 2, "blank line")]),
        (
            "a.jsonl",
            '{"x":"a"}\n{"x":null,"y":"b"}\n{"x":"c","y":"d"}',
            [3],
            [(1, 1, "missing value ('y' is missing or null)"), (2, 2, "missing value ('x' is missing or null)")],
        ),
    ],
)  # fmt: skip
def test_empty_sides_and_blank_lines_go_to_the_ledger(folder, name, text, rows, entries):
    path = put(folder, name, text)
    table = read_table(path, DataSettings())
    assert (table.rows, entries_of(table.ledger)) == (rows, entries)
    assert (table.ledger.read, table.ledger.kept) == (len(rows) + len(entries), len(rows))
    assert {entry.file for entry in table.ledger.entries} == {str(path)}


def test_a_blank_line_of_parallel_files_is_an_empty_side_of_that_row(folder):
    one, other = put(folder, "a.en", "a\n\nc\n\n"), put(folder, "a.de", "x\ny\n\n\n")
    table = read_table(f"{one},{other}", DataSettings())
    assert (table.pairs, table.rows) == ([("a", "x")], [1])
    assert entries_of(table.ledger) == [(2, 2, "empty source"), (3, 3, "empty target"), (4, 4, "empty source")]


# --- Damaged rows ---

HOW_TO_SKIP = (
    "correct them, or skip them with --bad-rows skip; "
    "training then lists them in the ledger.jsonl of the run, evaluate and score in --ledger FILE"
)
WIDTH = "wrong number of cells ({} instead of 2)"
DAMAGE = [
    ("a.csv", b"1,a\n1845-01-05,January 5, 1845\n2,b\n", [(2, 2, WIDTH.format("3 cells"))], "1a2b"),
    ("a.csv", b'1,a\n2,"b\n3,c\n4,d\n', [(2, 2, "unclosed quote")], "1a3c4d"),
    ("a.csv", b'1,a\n2,"b\nb","\n3,c\n', [(2, 2, "unclosed quote (the quote opens in line 3)")], "1a3c"),
    ("a.csv", b'1,a\n"2"x,b\n3,c\n', [(2, 2, "text after a closing quote")], "1a3c"),
    ("a.csv", b'1,a\n"2\n2","b" \n3,c\n', [(2, 2, "text after a closing quote (the quote opens in line 3)")], "1a3c"),
    ("a.csv", b"1,a\n2,\xff\n3,c\n", [(2, 2, "not UTF-8 (byte 0xff at offset 6 of the file)")], "1a3c"),
    ("a.csv", b'1,a\n2,"b\n\xe9\n"\n3,c\n', [(2, 2, "not UTF-8 (byte 0xe9 at offset 9 of the file)")], "1a3c"),
    ("a.csv", b"1,a\n2,\0\n3,c\n", [(2, 2, "NUL character")], "1a3c"),
    (
        "a.tsv",
        b"1\ta\n2\n2\t\tb\n3\tc\n",
        [(2, 2, WIDTH.format("1 cell")), (3, 3, WIDTH.format("3 cells"))],
        "1a3c",
    ),
    ("a.tsv", b"\xef\xbb\xbf1\ta\n2\t\xc3(\n3\tc\n", [(2, 2, "not UTF-8 (byte 0xc3 at offset 9 of the file)")], "1a3c"),
    ("a.tsv", b"1\ta\n2\t\0\n3\tc\n", [(2, 2, "NUL character")], "1a3c"),
    ("a.tsv", b"\xff\xfa\n1\ta\n", [(1, 1, "not UTF-8 (byte 0xff at offset 0 of the file)")], "1a"),
]
DAMAGED_JSON = [
    ("{", "not JSON (Expecting property name enclosed in double quotes at character 2)"),
    ('["a", "b"]', "not a JSON object"),
    ('{"x": ["a"], "y": "b"}', "value that is not text (the type of 'x' is list)"),
    ('{"x": "a", "y": {}}', "value that is not text (the type of 'y' is dict)"),
    ('{"x": NaN, "y": "b"}', "not JSON (NaN is not a JSON value)"),
    ('{"x": "a", "x": "b", "y": "c"}', "repeated key ('x')"),
    ('{"x": "\\ud83d", "y": "b"}', "lone surrogate (U+D83D in 'x')"),
    ('{"x": "\\u0000", "y": "b"}', "NUL character (in 'x')"),
    ("[" * 100_000, "JSON nested too deeply"),
    ('{"x": "\0", "y": "b"}', "NUL character"),
]
DAMAGE += [
    ("a.jsonl", f'{{"x": "1", "y": "a"}}\n{line}\n{{"x": "3", "y": "c"}}\n'.encode(), [(2, 2, reason)], "1a3c")
    for line, reason in DAMAGED_JSON
]


@pytest.mark.parametrize(("name", "content", "damage", "kept"), DAMAGE)
def test_damaged_rows_stop_the_reading_or_go_to_the_ledger(folder, name, content, damage, kept):
    path = put(folder, name, content)
    error = failure(TableError, read_table, path, HEADLESS)
    assert error.what == f"the table has {len(damage)} damaged {'row' if len(damage) == 1 else 'rows'}"
    assert error.where == str(path)
    assert (error.hint or "").endswith(HOW_TO_SKIP)
    for _, line, reason in damage:
        assert f"line {line}: {reason}" in (error.got or "")
    table = read_table(path, SKIP)
    assert "".join(source + target for source, target in table.pairs) == kept
    assert entries_of(table.ledger) == damage
    assert table.ledger.counts()["read"] == len(table.pairs) + len(damage)


def test_ten_damaged_rows_are_named_and_the_others_counted(folder):
    error = failure(TableError, read_table, put(folder, "a.tsv", "a\tb\n" + "x\n" * 47), HEADLESS)
    assert error.what == "the table has 47 damaged rows"
    assert "cells are separated by one tab" in error.expected
    named = [line.strip() for line in (error.got or "").splitlines()]
    assert named == [f"line {n}: {WIDTH.format('1 cell')}" for n in range(2, 12)] + ["and 37 more"]


def test_a_damaged_first_row_set_as_header_stops_even_when_rows_are_skipped(folder):
    path = put(folder, "a.tsv", b"\xff\ttarget\na\tb\n")
    error = failure(TableError, read_table, path, DataSettings(header="yes", bad_rows="skip"))
    assert (error.what, error.hint) == ("the header is damaged", "correct the first row")
    assert error.got == "not UTF-8 (byte 0xff at offset 0 of the file)"


def test_damaged_parquet_cells_are_named_by_row(folder):
    starts, texts = pa.array([0, 1, 2, 3, 4, 5, 6], "int32").buffers()[1], pa.py_buffer(b"ab\xffdef")
    not_utf8 = pa.Array.from_buffers(pa.string(), 6, [None, starts, texts])
    columns = {"x": ["a", None, "c", "d\0", "e", "f"], "y": not_utf8}
    path = put(folder, "a.parquet", parquet_of(columns))
    error = failure(TableError, read_table, path, DataSettings())
    assert [line.strip() for line in (error.got or "").splitlines()] == [
        "row 3: value that is not text (the type of 'y' is bytes)",
        "row 4: NUL character (in 'x')",
    ]
    assert error.expected == "the values used are text or numbers, none of them null"
    table = read_table(path, SKIP)
    assert table.pairs == [("a", "a"), ("e", "e"), ("f", "f")]
    assert entries_of(table.ledger)[0] == (2, None, "missing value ('x' is missing or null)")
    late = pa.array([0, 2**53], pa.timestamp("ms"))  # a time that Python cannot represent
    path = put(folder, "b.parquet", parquet_of({"x": late, "y": ["a", "nan"]}))
    assert "row 2: value that is not text" in (failure(TableError, read_table, path, DataSettings()).got or "")
    path = put(folder, "c.parquet", parquet_of({"x": [1.5, float("nan")], "y": ["a", "nan"]}))
    assert entries_of(read_table(path, DataSettings()).ledger) == [(2, None, "missing value ('x' is NaN)")]


def test_a_damaged_line_of_parallel_files_names_the_file(folder):
    one, other = put(folder, "a.en", b"a\nb\nc\n"), put(folder, "a.de", b"x\n\xff\nz\n")
    reason = f"not UTF-8 (byte 0xff at offset 2 of the file, in {other})"
    assert failure(TableError, read_table, f"{one},{other}", DataSettings()).got == f"line 2: {reason}"
    table = read_table(f"{one},{other}", SKIP)
    assert (table.rows, entries_of(table.ledger)) == ([1, 3], [(2, 2, reason)])


def test_parallel_files_of_different_length_are_not_paired(folder):
    one, other = put(folder, "a.en", "a\n" * 1200), put(folder, "a.de", "x\n" * 1199)
    error = failure(TableError, read_table, f"{one},{other}", SKIP)
    assert error.what == "the two parallel files do not have the same number of lines, so they cannot be paired"
    assert (error.where, error.got) == (f"{one},{other}", f"1,200 lines in {one} and 1,199 lines in {other}")


def test_lines_that_are_not_text_are_named():
    error = failure(TableError, read_lines, io.BytesIO(b"a\n\xe9\n\0\n"))
    assert (error.what, error.where) == ("the text has 2 damaged lines", "the input")
    assert error.expected == "text in UTF-8, without NUL characters"
    named = [line.strip() for line in (error.got or "").splitlines()]
    assert named == ["line 2: not UTF-8 (byte 0xe9 at offset 2 of the file)", "line 3: NUL character"]
    assert error.hint == "save the text as UTF-8"


# --- One column ---


def test_a_column_has_one_cell_for_every_row(folder):
    column = read_column(put(folder, "a.csv", 'id,text\n1,a\n2,\n\n3,"b\nc"\n'), "text", DataSettings(header="yes"))
    assert column.cells == ["a", "", "", "b\nc"]
    assert column.ledger.counts() == {"read": 4, "kept": 3, "blank line": 1}
    column = read_column(put(folder, "b.csv", "text\na\n\nb\n"), "text", DataSettings())
    assert column.cells == ["a", "", "b"]  # in a table of one column a blank line is an empty cell
    assert column.ledger.counts() == {"read": 3, "kept": 3}
    assert read_column(put(folder, "c.csv", "text,id\n"), "text", DataSettings(header="yes")).cells == []


def test_a_damaged_row_of_a_column_is_an_error_or_an_empty_cell(folder):
    path = put(folder, "a.csv", "a,b\nc\nd,e\n")
    error = failure(TableError, read_column, path, 0, HEADLESS)
    assert error.got == f"line 2: {WIDTH.format('1 cell')}"
    assert 'a comma, a quote or a line break is in "double quotes"' in error.expected
    column = read_column(path, 0, SKIP)
    assert column.cells == ["a", "", "d"]
    assert entries_of(column.ledger) == [(2, 2, WIDTH.format("1 cell"))]


def test_a_column_or_a_row_that_is_not_there_is_an_error(folder):
    assert failure(TableError, read_column, put(folder, "a.csv", ""), 0, HEADLESS).what == "the table has no rows"
    error = failure(ColumnError, read_column, put(folder, "a.csv", "a\n"), 1, HEADLESS)
    assert (error.got, error.expected) == ("1 column: a", "position 0")


# --- Files ---


@pytest.mark.parametrize("name", ["a\0b.csv", "a.csv\0", "a.en,a\0.de", "a\ud800b.csv", "\ud800,a.de"])
def test_an_invalid_path_is_a_table_error(tmp_path, name):
    path = str(tmp_path / name)
    for call in (lambda: read_table(path, HEADLESS), lambda: read_column(path, 0, HEADLESS), lambda: read_lines(path)):
        error = failure(TableError, call)
        assert error.what == "no file can have this name"
        assert str(error).isascii()
        assert "\0" not in str(error)


def test_a_missing_file_is_an_error_that_names_similar_files(folder):
    path = put(folder, "pairs.csv", "a,b\n")
    error = failure(TableError, read_table, path.with_name("pair.csv"), DataSettings())
    assert (error.what, error.where) == ("there is no such file", str(path.with_name("pair.csv")))
    assert error.hint == "did you mean 'pairs.csv'?"
    assert failure(TableError, read_table, path.with_name("zzz.tsv"), DataSettings()).hint is None
    assert (
        failure(TableError, read_table, path.with_name(f"{'a' * 300}.csv"), DataSettings()).got == "File name too long"
    )
    nowhere = path.parent / "nowhere" / "pairs.csv"
    assert failure(TableError, read_lines, nowhere).hint == f"the folder {str(nowhere.parent)!r} does not exist"
    one = put(folder, "a.en", "a\n")
    error = failure(TableError, read_table, f"{one},{one.with_name('a.de')}", DataSettings())
    assert (error.where, error.hint) == (str(one.with_name("a.de")), "did you mean 'a.en'?")


def test_a_file_name_may_contain_a_comma(folder):
    path = put(folder, "a,b.csv", "a,b\n")
    assert pairs_of(path) == [("a", "b")]
    missing = failure(TableError, read_table, path.with_name("a,c.csv"), DataSettings())
    assert missing.where == str(path.with_name("a,c.csv"))
    one, other = put(folder, "x,y.en", "a\n"), put(folder, "z.de", "b\n")
    assert pairs_of(f"{one},{other}") == [("a", "b")]


def test_what_is_no_table_or_cannot_be_read_is_an_error(folder, monkeypatch):
    one, other = put(folder, "a.csv", "a,b\n"), put(folder, "b.csv", "c,d\n")
    error = failure(TableError, read_table, f"{one},{other}", DataSettings())
    assert error.what == "two parallel files must be plain text, one sentence per line"
    assert error.got == "a.csv, which is a table by its suffix"
    inner = put(folder, "inner", "").parent
    assert failure(TableError, read_table, inner, DataSettings()).what == "there is no table in this folder"
    error = failure(TableError, read_lines, inner)
    assert (error.what, error.hint) == ("this is a folder, not a table", "name a file in it")

    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied", str(one))

    monkeypatch.setattr(Path, "open", refuse)
    error = failure(TableError, read_table, one, DataSettings())
    assert (error.what, error.got) == ("the file cannot be read", "Permission denied")


def test_the_files_of_a_folder_or_a_pattern_are_one_table(tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, n_rows in (("b", 2), ("a", 3)):
        rows = "".join(f"w{i}{name},t{i}\n" for i in range(n_rows))
        (folder / f"{name}.csv").write_text(f"source,target\n{rows}")
    (folder / "c.jsonl").write_text('{"source": "s", "target": ""}\n{"source": "s", "target": "t"}\n')
    (folder / "README").write_text("no table")
    (folder / "d.tsv").write_text("1\t2\t3\n")
    error = failure(ColumnError, read_table, folder, DataSettings(source=0, target=1))
    assert error.what == f"the table does not have the columns of {folder / 'a.csv'}"
    (folder / "d.tsv").unlink()
    for path in (folder, str(folder / "*.[cj]s*")):
        table = read_table(path, DataSettings())
        assert [pair.source for pair in table.pairs] == ["w0a", "w1a", "w2a", "w0b", "w1b", "s"]
        assert table.rows == [1, 2, 3, 1, 2, 2]
        assert (table.ledger.read, table.ledger.kept) == (7, 6)
        assert [(entry.file, entry.row) for entry in table.ledger.entries] == [(str(folder / "c.jsonl"), 1)]
        assert (table.location(3), table.path) == (f"{folder / 'b.csv'}, row 1", str(path))


# --- Tables that cannot be read ---

VALID = ".csv, .tsv, .tab, .jsonl, .ndjson, .parquet, .arrow, each also with .gz or .zst"
UNKNOWN = ("the format of the table is unknown", f"{VALID}; or two parallel text files, as in a.en,a.de")
NO_PAIRS = ("the file is one column of text, and pairs need two", "next: give two parallel text files")
ONE_COLUMN = "the table has one column, and pairs need two"
NO_ROW = "no row of the table can be kept"
COUNTS = ("3 rows read, 0 kept", "1 × empty target (row 1)", "1 × empty source (row 2)", "1 × blank line (row 3)")
UTF_16 = ("the file is text in UTF-16, and not in UTF-8", "next: iconv -f UTF-16")
WORKBOOK = ("the file is an Excel workbook", "File > Save As > CSV UTF-8")
DAMAGED = ("the file is damaged or does not match its suffix", "copy or download it again, and check its suffix")


def refused():
    rows = [(f"source {n}", f"target {n}") for n in range(500)]
    zipped, packed, columnar = gzip.compress(tsv_bytes(rows)), zst_bytes(tsv_bytes(rows)), parquet_bytes(rows)
    yield "a.csv", b"a\nb\n", (ONE_COLUMN, "give a table with a column for the source and one for the target")
    yield "a.jsonl", b'{"text": "a"}\n', (ONE_COLUMN,)
    yield "a.tsv", b"a\t\n\tb\n\n", (NO_ROW, *COUNTS)
    yield "a.csv", b"\n\n", (NO_ROW, "2 × blank line")
    for name, content in (
        ("a.csv", b""),
        ("a.csv.gz", gzip.compress(b"")),
        ("a.tsv", b"\xef\xbb\xbf"),
        ("a.jsonl", b""),
    ):
        yield name, content, ("the table has no rows",)
    yield "a.csv", b"source,target\n", ("the table has no rows", "got: a header and no other row")
    yield "a.csv", "\ufeffa,b\n".encode("utf-16-be"), UTF_16
    for name, parts in (("a.xlsx", WORKBOOK), ("a.gz", UNKNOWN), ("a.txt", NO_PAIRS), ("a.txt.gz", NO_PAIRS)):
        yield name, b"a\n", parts
    for content in (b"source\ttarget\n", zipped[:-20], zipped[:50] + b"\0" * 40):
        yield "a.tsv.gz", content, DAMAGED
    for content in (b"source\ttarget\n", packed[:-20]):
        yield "a.tsv.zst", content, DAMAGED
    for content in (b"source", columnar[:-20], columnar[:40] + bytes(60) + columnar[100:]):
        yield "a.parquet", content, DAMAGED
    yield "a.parquet.gz", b"x", DAMAGED
    for content in (b"ARROW1 and nothing else", arrow_stream(rows)[:-450]):
        yield "a.arrow", content, DAMAGED


def test_a_table_that_cannot_be_read_is_an_error_that_says_why(folder):
    for name, content, parts in refused():
        path = put(folder, name, content)
        error = failure(TableError, read_table, path, DataSettings())
        assert (error.where, [part for part in parts if part not in str(error)]) == (str(path), [])


@pytest.mark.parametrize(("name", "feature"), [("a.parquet", "reading Parquet"), ("a.csv.zst", "reading .zst")])
def test_without_pyarrow_the_extra_is_named(folder, monkeypatch, name, feature):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    error = failure(MissingExtraError, read_table, put(folder, name, "x"), DataSettings())
    assert error.what == f"{feature} needs the package 'pyarrow', which is not installed"
    assert error.hint == "pip install '.[parquet]' in the folder that has pyproject.toml"


# --- Fingerprint ---

pair_lists = st.lists(st.tuples(st.text("ab1:", max_size=3), st.text("ab1:", max_size=3)), max_size=4)


@given(pair_lists, pair_lists)
def test_different_pairs_or_orders_have_different_fingerprints(one, other):
    assert fingerprint([("a", "é"), ("", "b")]) == hashlib.sha256("1:2:aé0:1:b".encode()).hexdigest()
    assert (fingerprint(one) == fingerprint(other)) is (one == other)


# --- Files that no table is as large as ---


@pytest.mark.parametrize("text", ["source,target\na,b\n" + "\n" * 500, "source,target\na,b\n" + "x\n" * 500])
@pytest.mark.parametrize("bad_rows", ["stop", "skip"])
def test_a_table_of_which_hardly_any_row_is_kept_is_refused_early(folder, monkeypatch, text, bad_rows):
    monkeypatch.setattr(ledger, "MAX_LEFT_OUT", 100)
    error = failure(TableError, read_table, put(folder, "a.csv", text), DataSettings(bad_rows=bad_rows))
    assert error.what == "hardly any row of the table can be kept"
    assert "up to row 101: 101 rows read, 1 kept" in (error.got or "")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz"])
def test_a_line_that_is_too_long_is_lost_alone_and_one_without_an_end_is_refused(folder, monkeypatch, name):
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    monkeypatch.setattr(lines, "MAX_LOST", 1000)
    row = '{"x": "%s", "y": "b"}\n' if name == "a.jsonl" else "%s\tb\n" if name == "a.tsv" else "%s,b\n"
    contents = (row % "a" + row % ("c" * n) + row % "d" for n in (300, 3000))
    paths = [put(folder, name, gzip.compress(text.encode()) if "gz" in name else text) for text in contents]
    table = read_table(paths[0], SKIP)
    assert table.pairs == [("a", "b"), ("d", "b")]
    assert entries_of(table.ledger) == [(2, 2, "row too long (more than 100 bytes in a line)")]
    error = failure(TableError, read_table, paths[1], SKIP)
    assert (error.what, error.where) == ("a line is too long to be text", f"{paths[1]}, line 2")


def test_the_end_of_a_quote_is_looked_for_in_some_lines_only(folder, monkeypatch):
    monkeypatch.setattr(delimited, "MAX_ROW_CHARACTERS", 100)
    monkeypatch.setattr(delimited, "MAX_LOOKAHEAD", 200)
    rows = "a,b\n" * 100
    table = read_table(put(folder, "a.csv", f'x,"y\n{rows}"\n'), SKIP)
    assert table.pairs == [("a", "b")] * 100
    assert [reason for _, _, reason in entries_of(table.ledger)] == ["unclosed quote", "unclosed quote"]


def test_carriage_returns_end_lines_where_a_piece_of_a_file_ends(folder, monkeypatch):
    text = "".join(f"{n},{'x' * (n % 7)}y\r" for n in range(200))
    for limit in range(40, 60):
        monkeypatch.setattr(lines, "MAX_LINE", limit)
        table = read_table(put(folder, "a.csv", text), HEADLESS)
        assert table.pairs == [(str(n), f"{'x' * (n % 7)}y") for n in range(200)]
