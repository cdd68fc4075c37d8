"""Tables of every format become the same pairs, and every row is accounted for.

The oracles are the writers: Python's csv and json modules, pyarrow, and bytes put together by hand.
"""

import csv
import gzip
import hashlib
import io
import itertools
import json
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.data.pairs import Pair, fingerprint
from glassformer.data.tables import read_table
from glassformer.errors import ColumnError, GlassformerError, MissingExtraError, TableError
from glassformer.paper.settings import DataSettings
from tests.data.columns import read_column, read_lines

DATES = [
    ("1845-01-05", "January 5, 1845"),
    ("1467-07-28", "July 28, 1467"),
    ("1468-01-11", "January 11, 1468"),
    ("1996-09-08", "September 8, 1996"),
    ("1959-03-02", "March 2, 1959"),
]
LITERALS = [
    ("NA", "null"),
    ("nan", "None"),
    (" leading", "trailing "),
    ("true", "1.50"),
    ("N/A", "#N/A"),
    ("-", "''"),
]
HEADLESS = DataSettings(header="no")
SKIP = DataSettings(header="no", bad_rows="skip")

hostile = st.text(
    st.sampled_from("\",;|\\'\r\n\t aNA0é\u2028\u0085\x0b\x0c\x1c\ufeff😀") | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=8,
).filter(lambda text: text.strip() and "\0" not in text)
hostile_rows = st.lists(st.tuples(hostile, hostile), min_size=1, max_size=6)
scratch = itertools.count()


@pytest.fixture(scope="module")
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def put(folder, name, content):
    """A new file with these bytes (or this text as UTF-8), in a folder of its own."""
    path = folder / str(next(scratch)) / name
    path.parent.mkdir()
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pairs_of(path, data=HEADLESS):
    return [tuple(pair) for pair in read_table(path, data).pairs]


def entries_of(ledger):
    """Row, line, and reason with its detail."""
    return [
        (entry.row, entry.line, f"{entry.reason} ({entry.detail})" if entry.detail else f"{entry.reason}")
        for entry in ledger.entries
    ]


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


def parquet_bytes(rows):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    sink = io.BytesIO()
    parquet.write_table(arrow.table({"source": [row[0] for row in rows], "target": [row[1] for row in rows]}), sink)
    return sink.getvalue()


def zst_bytes(content):
    arrow = pytest.importorskip("pyarrow")
    sink = arrow.BufferOutputStream()
    with arrow.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


WRITERS = {"csv": csv_bytes, "tsv": tsv_bytes, "tab": tsv_bytes, "jsonl": jsonl_bytes, "ndjson": jsonl_bytes}
WRITERS["parquet"] = parquet_bytes
PACKERS = {"": bytes, ".gz": gzip.compress, ".zst": zst_bytes}
FORMAT_NAMES = {"csv": "CSV", "tsv": "TSV", "tab": "TSV", "jsonl": "JSON Lines", "ndjson": "JSON Lines"}
FORMAT_NAMES["parquet"] = "Parquet"


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("suffix", WRITERS)
def test_every_format_and_compression_gives_the_same_pairs(folder, suffix, packing):
    rows = DATES + LITERALS
    path = put(folder, f"pairs.{suffix}{packing}", PACKERS[packing](WRITERS[suffix](rows)))
    table = read_table(path, DataSettings())
    assert table.pairs == rows
    assert all(isinstance(pair, Pair) for pair in table.pairs)
    assert table.rows == list(range(1, 12))
    assert table.format == FORMAT_NAMES[suffix]
    assert table.path == str(path)
    assert table.ledger.counts() == {"read": 11, "kept": 11}
    named = suffix in ("jsonl", "ndjson", "parquet")
    assert table.header is named
    assert table.columns == (("source", "target") if named else None)
    assert table.taken == (("source (column 0)", "target (column 1)") if named else ("column 0", "column 1"))
    assert read_column(path, 1, DataSettings()).cells == [row[1] for row in rows]


@pytest.mark.parametrize("packing", PACKERS)
def test_two_parallel_text_files_are_one_table(folder, packing):
    rows = DATES + LITERALS
    pack = PACKERS[packing]
    one = put(folder, f"a.en{packing}", pack("\n".join(row[0] for row in rows).encode()))
    other = put(folder, f"a.de{packing}", pack("".join(row[1] + "\r\n" for row in rows).encode()))
    table = read_table(f"{one},{other}", DataSettings())
    assert table.pairs == rows
    assert (table.format, table.header, table.columns) == ("parallel text", False, (str(one), str(other)))
    assert table.taken == (f"{one} (column 0)", f"{other} (column 1)")
    assert pairs_of(f"{one},{other}", DataSettings(source=1, target=0)) == [row[::-1] for row in rows]


def test_suffixes_may_be_in_capitals(folder):
    assert pairs_of(put(folder, "PAIRS.TSV.GZ", gzip.compress(b"a\tb\n"))) == [("a", "b")]


# --- Cells come back as they were written ---


@settings(max_examples=150, deadline=None)
@given(hostile_rows, st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]), st.booleans())
def test_csv_cells_are_read_as_the_csv_module_writes_and_reads_them(folder, rows, quoting, bom):
    content = csv_bytes(rows, quoting=quoting)
    oracle = list(csv.reader(io.StringIO(content.decode(), newline=""), strict=True))
    path = put(
        folder,
        "pairs.csv",
        b"\xef\xbb\xbf" + content if bom or content.startswith(b"\xef\xbb\xbf") else content,
    )
    assert oracle == [list(row) for row in rows]
    assert pairs_of(path) == rows


@settings(max_examples=100, deadline=None)
@given(st.text('",\r\nab ', max_size=24))
def test_csv_that_the_csv_module_reads_is_read_the_same(folder, text):
    try:
        oracle = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        oracle = None
    path = put(folder, "any.csv", text)
    width = len(next((row for row in oracle or [] if row), ()))
    if oracle is None or any(len(row) not in (0, width) for row in oracle) or not width:
        failure(TableError, read_column, path, 0, HEADLESS)
    else:
        assert read_column(path, 0, HEADLESS).cells == [row[0] if row else "" for row in oracle]


@settings(max_examples=80, deadline=None)
@given(hostile_rows.map(lambda rows: [tuple(c.replace("\t", "T").replace("\n", "L") for c in row) for row in rows]))
def test_tsv_cells_are_read_as_written(folder, rows):
    rows = [(one.lstrip("\ufeff") or "x", other.rstrip("\r") or "x") for one, other in rows]
    rows = [row for row in rows if row[0].strip() and row[1].strip()] or [("x", "y")]
    assert pairs_of(put(folder, "pairs.tsv", tsv_bytes(rows))) == rows


@settings(max_examples=60, deadline=None)
@given(hostile_rows, st.booleans())
def test_json_lines_cells_are_read_as_written(folder, rows, ascii_only):
    assert pairs_of(put(folder, "pairs.jsonl", jsonl_bytes(rows, ascii_only))) == rows


@settings(max_examples=30, deadline=None)
@given(hostile_rows)
def test_parquet_cells_are_read_as_written(folder, rows):
    assert pairs_of(put(folder, "pairs.parquet", parquet_bytes(rows))) == rows


@settings(max_examples=60, deadline=None)
@given(hostile_rows.map(lambda rows: [tuple(c.replace("\n", "L").replace("\r", "R") for c in row) for row in rows]))
def test_parallel_lines_are_read_as_written(folder, rows):
    rows = [(one.replace("\ufeff", "B"), other.replace("\ufeff", "B")) for one, other in rows]
    one = put(folder, "a.x", "".join(row[0] + "\n" for row in rows))
    other = put(folder, "a.y", "\n".join(row[1] for row in rows))
    assert pairs_of(f"{one},{other}") == rows


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", exclude_categories=["Cs"]), max_size=6)))
def test_lines_split_at_line_feeds_only(folder, lines):
    content = "".join(line + "\n" for line in lines).encode()
    assert read_lines(io.BytesIO(content)) == lines
    assert read_lines(put(folder, "lines.txt", content.replace(b"\n", b"\r\n"))) == lines


def test_the_last_line_counts_without_its_end_and_blank_lines_count():
    assert read_lines(io.BytesIO(b"\xef\xbb\xbfa\n\nb\x0bc\xe2\x80\xa8d\re\r\r\nf")) == [
        "a",
        "",
        "b\x0bc\u2028d\re\r",
        "f",
    ]
    assert read_lines(io.BytesIO(b"")) == []
    assert read_lines(io.BytesIO(b"\n")) == [""]


@pytest.mark.parametrize("packing", PACKERS)
def test_compressed_lines_are_read(folder, packing):
    assert read_lines(str(put(folder, f"lines.txt{packing}", PACKERS[packing](b"a\r\nb\n")))) == ["a", "b"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_and_a_byte_order_mark_are_accepted_in_csv(folder, end):
    text = end.join(["\ufeffsource,target", '1845-01-05,"January 5, 1845"', "NA,null", ""])
    table = read_table(put(folder, "dates.csv", text), DataSettings())
    assert table.header
    assert table.columns == ("source", "target")
    assert table.pairs == [("1845-01-05", "January 5, 1845"), ("NA", "null")]


def test_a_lone_quote_is_text_in_tsv(folder):
    assert pairs_of(put(folder, "a.tsv", '"\t\'\n"a\tb"\nc\td\n')) == [('"', "'"), ('"a', 'b"'), ("c", "d")]


def test_json_values_keep_their_written_form(folder):
    lines = '{"x": 1.50, "y": -0}\n{"x": true, "y": 123456789012345678901}\r\n{"y": "a", "x": false, "z": [1]}\n'
    assert pairs_of(put(folder, "a.jsonl", lines)) == [
        ("1.50", "-0"),
        ("true", "123456789012345678901"),
        ("false", "a"),
    ]


def test_parquet_numbers_become_text_and_other_columns_are_left_alone(folder):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = put(folder, "a.parquet", b"")
    columns = {"id": [[1], []], "n": [7, 8], "flag": [True, False], "a.b": ["x", "y"]}
    parquet.write_table(arrow.table(columns), path)
    assert pairs_of(path, DataSettings(source="n", target="flag")) == [("7", "true"), ("8", "false")]
    assert pairs_of(path, DataSettings(source="a.b", target="1")) == [("x", "7"), ("y", "8")]
    twice = arrow.Table.from_arrays([arrow.array(["p"]), arrow.array(["q"])], names=["x", "x"])
    parquet.write_table(twice, path)
    assert pairs_of(path) == [("p", "q")]


def test_a_time_that_python_cannot_represent_is_a_damaged_row(folder):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = put(folder, "a.parquet", b"")
    moments = arrow.array([0, 2**53], arrow.timestamp("ms"))
    parquet.write_table(arrow.table({"source": moments, "target": ["x", "y"]}), path)
    with pytest.raises(TableError, match="1 damaged row") as caught:
        pairs_of(path)
    assert "row 2: value that is not text (the type of 'source' is " in caught.value.got


# --- Headers and columns ---


@pytest.mark.parametrize(
    ("first", "data", "header"),
    [
        ("source,target", {}, True),
        (" Word , IPA", {}, True),
        ("id,en,nl", {}, True),
        ("woord,uitspraak", {}, False),
        ("woord,uitspraak", {"header": "yes"}, True),
        ("source,target", {"header": "no"}, False),
        ("woord,uitspraak", {"source": "woord", "target": "uitspraak"}, True),
        ("woord,uitspraak", {"source": "uitspraak", "target": 0}, True),
        ("source,source", {}, False),
        ("source,target,", {}, False),
        ("0,1", {"source": "0", "target": "1"}, False),
        ("1845-01-05,1467-07-28", {}, False),
    ],
)
def test_a_header_is_recognized_or_set(folder, first, data, header):
    row = ",".join("abc"[: first.count(",") + 1])
    table = read_table(put(folder, "a.csv", f"{first}\n{row}\n"), DataSettings(**data))
    assert table.header is header
    assert len(table.pairs) == (1 if header else 2)
    assert table.rows[0] == 1


@pytest.mark.parametrize(
    ("first", "column", "header", "is_header", "guessed"),
    [
        ("to,from", 0, "auto", True, True),
        ("to,from", "to", "auto", True, False),  # the name is in it
        ("to,from", 0, "yes", True, False),
        ("to,from", 0, "no", False, False),
        ("huis,bus", 0, "auto", False, True),
    ],
)
def test_a_table_knows_its_first_row_and_whether_a_header_was_guessed(
    folder, first, column, header, is_header, guessed
):
    path = put(folder, "a.csv", f"{first}\na,b\n")
    one = read_column(path, column, DataSettings(header=header))
    both = read_table(path, DataSettings(source=column, target=1, header=header))
    cells = tuple(first.split(","))
    for found in (one, both):
        assert (found.first, found.header, found.header_guessed) == (cells, is_header, guessed)
        assert (found.format, found.path) == ("CSV", str(path))
    assert one.cells == ["a"] if is_header else [cells[0], "a"]
    assert one.taken == (f"{cells[0]} (column 0)" if is_header else "column 0")
    assert (one.ledger.read, one.ledger.kept) == (len(one.cells), len(one.cells))


def test_a_table_with_names_of_its_own_has_no_first_row_to_guess(folder):
    path = put(folder, "a.jsonl", '{"x": "a", "y": "b"}\n')
    for found in (read_table(path, DataSettings()), read_column(path, 0, DataSettings())):
        assert (found.first, found.header_guessed, found.header) == ((), False, True)


@pytest.mark.parametrize(
    ("data", "pair", "taken"),
    [
        ({}, ("i", "s"), ("id (column 0)", "source (column 1)")),
        ({"source": "source", "target": "2"}, ("s", "t"), ("source (column 1)", "2 (column 2)")),
        ({"source": 2, "target": "0"}, ("t", "i"), ("2 (column 2)", "id (column 0)")),
    ],
)
def test_columns_are_taken_by_name_or_position(folder, data, pair, taken):
    path = put(folder, "a.csv", "id,source,2\ni,s,t\n")
    table = read_table(path, DataSettings(header="yes", **data))
    assert table.pairs == [pair]
    assert table.taken == taken


@pytest.mark.parametrize(
    ("name", "text"), [("a.csv", "id,target,source\ni,t,s\n"), ("a.jsonl", '{"target": "t", "source": "s"}')]
)
def test_columns_named_source_and_target_are_the_default(folder, name, text):
    path = put(folder, name, text)
    assert pairs_of(path, DataSettings()) == [("s", "t")]


@pytest.mark.parametrize(("data", "pair"), [({"source": 1}, ("b", "a")), ({"target": 0}, ("b", "a"))])
def test_of_two_columns_one_determines_the_other(folder, data, pair):
    assert pairs_of(put(folder, "a.csv", "a,b\n"), DataSettings(header="no", **data)) == [pair]


THREE = "id,source,target\n1,a,b\n"


@pytest.mark.parametrize(
    ("text", "data", "parts"),
    [
        (
            THREE,
            {"source": "sorce", "target": "target"},
            {
                "what": "there is no column 'sorce'",
                "hint": "did you mean 'source'? valid: id, source, target",
            },
        ),
        (
            THREE,
            {"source": 3, "target": 0},
            {
                "what": "there is no column 3",
                "got": "3 columns: id | source | target",
                "expected": "a position from 0 to 2",
            },
        ),
        (THREE, {"source": -1, "target": 0}, {"what": "there is no column -1"}),
        (
            THREE,
            {"source": "source", "target": 1},
            {
                "what": "source and target are the same column",
                "got": "source (column 1)",
                "expected": "different columns of: id | source | target",
            },
        ),
        (
            THREE,
            {"source": "source"},
            {
                "what": "the source column is set, but the target column is not",
                "got": "3 columns: id | source | target",
                "hint": "set it with --target",
            },
        ),
        (THREE, {"target": "source"}, {"what": "the target column is set, but the source column is not"}),
        (
            "huis,h œy s\n",
            {"source": "woord", "target": 1},
            {
                "what": "there is no column 'woord', because the first row was not read as a header",
                "got": "the first row huis | h œy s",
                "expected": "a position from 0 to 1",
                "hint": "if the first row is a header, use --header and one of its names",
            },
        ),
        (
            "x,x\na,b\n",
            {"source": "x", "target": 1},
            {
                "what": "2 columns are named 'x'",
                "got": "x | x",
                "hint": "give its position instead, for example 0 for the first of them",
            },
        ),
    ],
)
def test_a_missing_column_is_an_error_that_lists_the_columns(folder, text, data, parts):
    path = put(folder, "a.csv", text)
    error = failure(ColumnError, read_table, path, DataSettings(**data))
    assert error.where == str(path)
    assert {name: getattr(error, name) for name in parts} == parts
    assert error.exit_code == 2


def test_a_member_that_the_first_json_object_lacks_can_be_null_in_it(folder):
    data = DataSettings(source="x", features=("tags",), target="y")
    rows = '{"x": "a", "y": "b"%s}\n{"x": "c", "y": "d", "tags": "N;V"}\n'
    error = failure(ColumnError, read_table, put(folder, "a.jsonl", rows % ""), data)
    assert error.hint == ("valid: x, y; the columns are the members of the first object: add one that it lacks as null")
    skipped = data.model_copy(update={"bad_rows": "skip"})
    table = read_table(put(folder, "b.jsonl", rows % ', "tags": null'), skipped)
    assert list(table.rows) == [2]


HUGE_POSITIONS = {
    "5,000 nines": ("9" * 5000, "there is no column 99999999999999999999… (5,000 digits)"),
    "19 digits": ("1" * 19, "there is no column 1111111111111111111"),
    "a negative integer": (-(10**4999), "there is no column with a position of more than 20 digits"),
}


@pytest.mark.parametrize("name", HUGE_POSITIONS)
def test_a_position_of_any_number_of_digits_outside_the_table_is_a_missing_column(folder, name):
    column, what = HUGE_POSITIONS[name]
    path = put(folder, "a.csv", THREE)
    for call in (
        lambda: read_table(path, DataSettings(source=column, target=1)),
        lambda: read_table(path, DataSettings(source=1, target=column)),
        lambda: read_column(path, column, DataSettings()),
    ):
        error = failure(ColumnError, call)
        assert (error.what, error.expected) == (what, "a position from 0 to 2")
        assert len(str(error)) < 500


def test_leading_zeros_of_a_position_are_ignored(folder):
    path = put(folder, "a.csv", THREE)
    assert pairs_of(path, DataSettings(source="0" * 5000 + "1", target="0" * 5000)) == [("a", "1")]


def test_a_long_name_is_shortened_in_the_message(folder):
    error = failure(ColumnError, read_table, put(folder, "a.csv", THREE), DataSettings(source="s" * 9999, target=1))
    assert error.what == f"there is no column '{'s' * 59}…'"
    error = failure(TableError, read_table, put(folder, "a.csv", "c" * 9999 + "\n"), HEADLESS)
    assert error.got == f"the first row {'c' * 59}…"


@pytest.mark.parametrize("name", ["a\0b.csv", "a.csv\0", "a.en,a\0.de", "a\ud800b.csv", "\ud800,a.de"])
def test_an_invalid_path_is_a_table_error(name):
    for call in (
        lambda: read_table(name, HEADLESS),
        lambda: read_column(name, 0, HEADLESS),
        lambda: read_lines(name),
    ):
        error = failure(TableError, call)
        assert error.what == "no file can have this name"
        assert "\0" not in str(error)
        assert str(error).isascii()


def test_a_path_of_bytes_that_are_not_utf8_is_a_path_like_any_other(folder):
    name = os.fsdecode(b"not-utf8-\xff.csv")
    try:
        path = put(folder, name, "a,b\n")
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    assert pairs_of(path) == [("a", "b")]
    error = failure(TableError, read_table, path.with_name(os.fsdecode(b"\xfe.csv")), HEADLESS)
    assert error.what == "there is no such file"


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("a.csv", "a\nb\n", "give a table with a column for the source and one for the target"),
        ("a.csv", "a\tb\nc\td\n", "its cells seem to be separated by tabs: name the file .tsv"),
        ("a.csv", "a;b\nc;d\n", "its cells seem to be separated by semicolons: save it with commas"),
        ("a.jsonl", '{"text": "a"}\n', "give a table with a column for the source and one for the target"),
    ],
)
def test_one_column_is_not_enough(folder, name, text, hint):
    error = failure(TableError, read_table, put(folder, name, text), DataSettings())
    assert error.what == "the table has one column, and pairs need two"
    assert error.hint == hint


# --- Rows that are not kept ---


def test_empty_sides_and_blank_lines_go_to_the_ledger(folder):
    path = put(folder, "a.csv", 'source,target\na,b\n,b\n\na, \n\u00a0,"\n"\nc,d\n\n')
    table = read_table(path, DataSettings())
    assert table.pairs == [("a", "b"), ("c", "d")]
    assert table.rows == [1, 6]
    assert entries_of(table.ledger) == [
        (2, 3, "empty source"),
        (3, 4, "blank line"),
        (4, 5, "empty target"),
        (5, 6, "empty source"),
        (7, 9, "blank line"),
    ]
    assert table.ledger.counts() == {
        "read": 7,
        "kept": 2,
        "empty source": 2,
        "blank line": 2,
        "empty target": 1,
    }
    assert {entry.file for entry in table.ledger.entries} == {str(path)}


def test_blank_lines_before_a_header_do_not_hide_it(folder):
    table = read_table(put(folder, "a.tsv", "\n\nsource\ttarget\na\tb\n"), DataSettings())
    assert (table.header, table.pairs, table.rows) == (True, [("a", "b")], [3])
    assert entries_of(table.ledger) == [(1, 1, "blank line"), (2, 2, "blank line")]


def test_a_blank_line_of_parallel_files_is_an_empty_side_of_that_row(folder):
    one, other = put(folder, "a.en", "a\n\nc\n\n"), put(folder, "a.de", "x\ny\n\n\n")
    table = read_table(f"{one},{other}", DataSettings())
    assert (table.pairs, table.rows) == ([("a", "x")], [1])
    assert entries_of(table.ledger) == [
        (2, 2, "empty source"),
        (3, 3, "empty target"),
        (4, 4, "empty source"),
    ]


def test_a_blank_line_of_json_lines_goes_to_the_ledger(folder):
    table = read_table(put(folder, "a.jsonl", '{"x":"a","y":"b"}\n \n{"x":"c","y":"d"}'), DataSettings())
    assert table.rows == [1, 3]
    assert entries_of(table.ledger) == [(2, 2, "blank line")]


def test_a_table_without_usable_rows_is_an_error_that_says_why(folder):
    error = failure(TableError, read_table, put(folder, "a.tsv", "a\t\n\tb\n\n"), DataSettings())
    assert error.what == "no row of the table can be kept"
    assert error.got is not None
    assert error.got.splitlines() == [
        "3 rows read, 0 kept",
        "  1 × empty target (row 1)",
        "  1 × empty source (row 2)",
        "  1 × blank line (row 3)",
    ]


@pytest.mark.parametrize(
    ("name", "text", "got"),
    [
        ("a.csv", "", None),
        ("a.csv.gz", gzip.compress(b"", mtime=0), None),
        ("a.tsv", "\ufeff", None),
        ("a.csv", "source,target\n", "a header and no other row"),
        ("a.jsonl", "", None),
    ],
)
def test_a_table_without_rows_is_an_error(folder, name, text, got):
    error = failure(TableError, read_table, put(folder, name, text), DataSettings())
    assert (error.what, error.got) == ("the table has no rows", got)


def test_a_table_of_blank_lines_has_rows_but_no_pairs(folder):
    error = failure(TableError, read_table, put(folder, "a.csv", "\n\n"), DataSettings())
    assert error.what == "no row of the table can be kept"
    assert error.got is not None
    assert "2 × blank line" in error.got


def test_one_row_is_enough(folder):
    assert pairs_of(put(folder, "a.tsv", "a\tb")) == [("a", "b")]


# --- Damaged rows ---

HOW_TO_SKIP = (
    "correct them, or skip them with --bad-rows skip; "
    "training then lists them in the ledger.jsonl of the run, other commands in --ledger FILE"
)
DAMAGE = [
    (
        "a.csv",
        b"1,a\n1845-01-05,January 5, 1845\n2,b\n",
        [(2, 2, "wrong number of cells (3 cells instead of 2)")],
        "1a2b",
    ),
    ("a.csv", b"1,a\nalone\n2,b\n", [(2, 2, "wrong number of cells (1 cell instead of 2)")], "1a2b"),
    ("a.csv", b'1,a\n2,"b\n3,c\n4,d\n', [(2, 2, "unclosed quote")], "1a3c4d"),
    ("a.csv", b'1,a\n2,"b\n3,"c"\n4,d\n', [(2, 2, "unclosed quote")], "1a3c4d"),
    (
        "a.csv",
        b'1,a\n2,"b\nb","\n3,c\n',
        [(2, 2, "unclosed quote (the quote opens in line 3)")],
        "1a3c",
    ),
    ("a.csv", b'1,a\n"2"x,b\n3,c\n', [(2, 2, "text after a closing quote")], "1a3c"),
    (
        "a.csv",
        b'1,a\n"2\n2","b" \n3,c\n',
        [(2, 2, "text after a closing quote (the quote opens in line 3)")],
        "1a3c",
    ),
    (
        "a.csv",
        b'1,a\n"2,b\n3,c\n"4,d\n5,e\n',
        [(2, 2, "unclosed quote"), (4, 4, "unclosed quote")],
        "1a3c5e",
    ),
    (
        "a.csv",
        b"1,a\n2,\xff\n3,c\n",
        [(2, 2, "not UTF-8 (byte 0xff at offset 6 of the file)")],
        "1a3c",
    ),
    (
        "a.csv",
        b'1,a\n2,"b\n\xe9\n"\n3,c\n',
        [(2, 2, "not UTF-8 (byte 0xe9 at offset 9 of the file)")],
        "1a3c",
    ),
    ("a.csv", b"1,a\n2,\0\n3,c\n", [(2, 2, "NUL character")], "1a3c"),
    ("a.csv", b"1,a\r2,\xff\r3,c\r", [(2, 2, "not UTF-8 (byte 0xff at offset 6 of the file)")], "1a3c"),
    (
        "a.tsv",
        b"1\ta\n2\n2\t\tb\n3\tc\n",
        [(2, 2, "wrong number of cells (1 cell instead of 2)"), (3, 3, "wrong number of cells (3 cells instead of 2)")],
        "1a3c",
    ),
    (
        "a.tsv",
        b"\xef\xbb\xbf1\ta\n2\t\xc3(\n3\tc\n",
        [(2, 2, "not UTF-8 (byte 0xc3 at offset 9 of the file)")],
        "1a3c",
    ),
    ("a.tsv", b"1\ta\n2\t\0\n3\tc\n", [(2, 2, "NUL character")], "1a3c"),
    ("a.tsv", b"\xff\xfa\n1\ta\n", [(1, 1, "not UTF-8 (byte 0xff at offset 0 of the file)")], "1a"),
]


@pytest.mark.parametrize(("name", "content", "damage", "kept"), DAMAGE)
def test_damaged_rows_stop_the_reading_or_go_to_the_ledger(folder, name, content, damage, kept):
    path = put(folder, name, content)
    error = failure(TableError, read_table, path, HEADLESS)
    assert error.where == str(path)
    assert error.what == f"the table has {len(damage)} damaged {'row' if len(damage) == 1 else 'rows'}"
    assert error.hint == HOW_TO_SKIP
    assert error.got is not None
    for _, line, reason in damage:
        assert f"line {line}: {reason}" in error.got
    table = read_table(path, SKIP)
    assert "".join(source + target for source, target in table.pairs) == kept
    assert entries_of(table.ledger) == damage
    assert table.ledger.counts()["read"] == len(table.pairs) + len(damage)


def test_the_unquoted_comma_of_a_date_is_named_by_its_line(folder):
    path = put(folder, "dates.csv", 'iso,date\n1467-07-28,"July 28, 1467"\n1845-01-05,January 5, 1845\n')
    error = failure(TableError, read_table, path, DataSettings())
    assert str(error) == "\n".join(
        [
            "the table has 1 damaged row",
            f"  where: {path}",
            "  got: line 3: wrong number of cells (3 cells instead of 2)",
            "  expected: a cell with a comma, a quote or a line break is in "
            '"double quotes", and a quote in it is doubled ("")',
            f"  next: {HOW_TO_SKIP}",
        ]
    )


def test_ten_damaged_rows_are_named_and_the_others_counted(folder):
    error = failure(TableError, read_table, put(folder, "a.tsv", "a\tb\n" + "x\n" * 47), HEADLESS)
    assert error.what == "the table has 47 damaged rows"
    assert error.got is not None
    named = [line.strip() for line in error.got.splitlines()]
    assert named == [f"line {n}: wrong number of cells (1 cell instead of 2)" for n in range(2, 12)] + ["and 37 more"]


def test_a_damaged_first_row_set_as_header_stops_even_when_rows_are_skipped(folder):
    path = put(folder, "a.tsv", b"\xff\ttarget\na\tb\n")
    error = failure(TableError, read_table, path, DataSettings(header="yes", bad_rows="skip"))
    assert error.what == "the header is damaged"
    assert error.got == "not UTF-8 (byte 0xff at offset 0 of the file)"
    assert error.hint == "correct the first row"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON (Expecting property name enclosed in double quotes at character 2)"),
        ('["a", "b"]', "not a JSON object"),
        ('{"x": "a"}', "missing value ('y' is missing or null)"),
        ('{"x": null, "y": "b"}', "missing value ('x' is missing or null)"),
        ('{"x": ["a"], "y": "b"}', "value that is not text (the type of 'x' is list)"),
        ('{"x": "a", "y": {}}', "value that is not text (the type of 'y' is dict)"),
        ('{"x": NaN, "y": "b"}', "not JSON (NaN is not a JSON value)"),
        ('{"x": "a", "x": "b", "y": "c"}', "repeated key ('x')"),
        ('{"x": "\\ud83d", "y": "b"}', "lone surrogate (U+D83D in 'x')"),
        ('{"x": "\\u0000", "y": "b"}', "NUL character (in 'x')"),
        ("[" * 100_000, "JSON nested too deeply"),
        ('{"x": "\0", "y": "b"}', "NUL character"),
    ],
)
def test_damaged_json_lines_are_named(folder, line, reason):
    path = put(folder, "a.jsonl", '{"x": "a", "y": "b"}\n' + line + '\n{"x": "c", "y": "d"}\n')
    error = failure(TableError, read_table, path, DataSettings())
    assert error.got == f"line 2: {reason}"
    assert (
        error.expected
        == 'one object per line, as in {"source": "…", "target": "…"}; the values used are text or numbers'
    )
    table = read_table(path, SKIP)
    assert table.rows == [1, 3]
    assert entries_of(table.ledger) == [(2, 2, reason)]


def test_not_a_number_in_parquet_is_missing(folder):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = put(folder, "a.parquet", b"")
    parquet.write_table(arrow.table({"x": [1.5, float("nan")], "y": ["a", "nan"]}), path)
    with pytest.raises(TableError, match="row 2: missing value \\('x' is NaN\\)"):
        read_table(path, DataSettings())


def test_damaged_parquet_cells_are_named_by_row(folder):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = put(folder, "a.parquet", b"")
    not_utf8 = arrow.Array.from_buffers(
        arrow.string(),
        4,
        [None, arrow.py_buffer(bytes(4) + b"\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0"), arrow.py_buffer(b"ab\xffd")],
    )
    parquet.write_table(arrow.table({"x": ["a", None, "c", "d\0"], "y": not_utf8}), path)
    error = failure(TableError, read_table, path, DataSettings())
    assert error.got is not None
    assert [line.strip() for line in error.got.splitlines()] == [
        "row 2: missing value ('x' is missing or null)",
        "row 3: value that is not text (the type of 'y' is bytes)",
        "row 4: NUL character (in 'x')",
    ]
    assert error.expected == "the values used are text or numbers, none of them null"
    table = read_table(path, SKIP)
    assert table.pairs == [("a", "a")]
    assert entries_of(table.ledger)[0] == (2, None, "missing value ('x' is missing or null)")


def test_a_damaged_line_of_parallel_files_names_the_file(folder):
    one, other = put(folder, "a.en", b"a\nb\nc\n"), put(folder, "a.de", b"x\n\xff\nz\n")
    reason = f"not UTF-8 (byte 0xff at offset 2 of the file, in {other})"
    error = failure(TableError, read_table, f"{one},{other}", DataSettings())
    assert error.got == f"line 2: {reason}"
    table = read_table(f"{one},{other}", SKIP)
    assert table.rows == [1, 3]
    assert entries_of(table.ledger) == [(2, 2, reason)]


def test_parallel_files_of_different_length_are_not_paired(folder):
    one, other = put(folder, "a.en", "a\n" * 1200), put(folder, "a.de", "x\n" * 1199)
    error = failure(TableError, read_table, f"{one},{other}", SKIP)
    assert error.what == "the two parallel files do not have the same number of lines, so they cannot be paired"
    assert error.where == f"{one},{other}"
    assert error.got == f"1,200 lines in {one} and 1,199 lines in {other}"
    assert (
        error.hint == "line i of one file must belong to line i of the other; find the first line that does not match"
    )


def test_lines_that_are_not_text_are_named():
    error = failure(TableError, read_lines, io.BytesIO(b"a\n\xe9\n\0\n"))
    assert error.what == "the text has 2 damaged lines"
    assert error.where == "the input"
    assert error.got is not None
    assert [line.strip() for line in error.got.splitlines()] == [
        "line 2: not UTF-8 (byte 0xe9 at offset 2 of the file)",
        "line 3: NUL character",
    ]
    assert error.hint == "save the text as UTF-8"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_recognized(folder, encoding):
    error = failure(TableError, read_table, put(folder, "a.csv", "\ufeffa,b\n".encode(encoding)), DataSettings())
    assert (error.what, error.hint) == ("the text is UTF-16, not UTF-8", "save the file as UTF-8")


# --- One column ---


def test_a_column_has_one_cell_for_every_row(folder):
    path = put(folder, "a.csv", 'id,text\n1,a\n2,\n\n3,"b\nc"\n')
    column = read_column(path, "text", DataSettings(header="yes"))
    assert column.cells == ["a", "", "", "b\nc"]
    assert column.ledger.counts() == {"read": 4, "kept": 3, "blank line": 1}


def test_blank_lines_of_a_table_with_one_column_are_empty_cells(folder):
    column = read_column(put(folder, "a.csv", "text\na\n\nb\n"), "text", DataSettings())
    assert column.cells == ["a", "", "b"]
    assert column.ledger.counts() == {"read": 3, "kept": 3}


def test_a_damaged_row_of_a_column_is_an_error_or_an_empty_cell(folder):
    path = put(folder, "a.csv", "a,b\nc\nd,e\n")
    assert (
        failure(TableError, read_column, path, 0, HEADLESS).got == "line 2: wrong number of cells (1 cell instead of 2)"
    )
    column = read_column(path, 0, SKIP)
    assert column.cells == ["a", "", "d"]
    assert entries_of(column.ledger) == [(2, 2, "wrong number of cells (1 cell instead of 2)")]


def test_a_column_of_no_rows(folder):
    assert read_column(put(folder, "a.csv", "text,id\n"), "text", DataSettings(header="yes")).cells == []
    assert failure(TableError, read_column, put(folder, "a.csv", ""), 0, HEADLESS).what == "the table has no rows"


def test_a_missing_column_is_an_error(folder):
    error = failure(ColumnError, read_column, put(folder, "a.csv", "a\n"), 1, HEADLESS)
    assert (error.got, error.expected) == ("1 column: a", "position 0")


# --- Files ---


def test_a_missing_file_is_an_error_that_names_similar_files(folder):
    path = put(folder, "pairs.csv", "a,b\n")
    error = failure(TableError, read_table, path.with_name("pair.csv"), DataSettings())
    assert (error.what, error.where) == ("there is no such file", str(path.with_name("pair.csv")))
    assert error.hint == "did you mean 'pairs.csv'?"
    assert failure(TableError, read_table, path.with_name("zzz.tsv"), DataSettings()).hint is None
    nowhere = path.parent / "nowhere" / "pairs.csv"
    assert failure(TableError, read_lines, nowhere).hint == f"the folder {str(nowhere.parent)!r} does not exist"


def test_a_missing_parallel_file_is_named_alone(folder):
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


def test_two_tables_are_not_parallel_files(folder):
    one, other = put(folder, "a.csv", "a,b\n"), put(folder, "b.csv", "c,d\n")
    error = failure(TableError, read_table, f"{one},{other}", DataSettings())
    assert error.what == "two parallel files must be plain text, one sentence per line"
    assert error.got == "a.csv, which is a table by its suffix"


def test_a_folder_without_tables_is_not_a_table(folder):
    path = put(folder, "inner", "").parent
    assert failure(TableError, read_table, path, DataSettings()).what == "there is no table in this folder"
    error = failure(TableError, read_lines, path)
    assert (error.what, error.hint) == ("this is a folder, not a table", "name a file in it")


def test_a_file_without_read_permission_is_an_error(folder, monkeypatch):
    path = put(folder, "a.csv", "a,b\n")

    def refuse(*_arguments, **_options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    error = failure(TableError, read_table, path, DataSettings())
    assert (error.what, error.got) == ("the file cannot be read", "Permission denied")


VALID = ".csv, .tsv, .tab, .jsonl, .ndjson, .parquet, .arrow, each also with .gz or .zst"


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        (
            "a.xlsx",
            {
                "what": "the format of the table is unknown",
                "got": "the suffix '.xlsx'",
                "expected": f"{VALID}; or two parallel text files, as in a.en,a.de",
                "hint": "give the file the suffix of its format",
            },
        ),
        ("a.gz", {"what": "the format of the table is unknown", "got": "no suffix"}),
        (
            "a.txt",
            {
                "what": "a .txt file has one column of text, and pairs need two",
                "expected": f"a table: {VALID}",
                "hint": "give two parallel text files as source.txt,target.txt; or name a tab-separated table .tsv",
            },
        ),
        ("a.txt.gz", {"what": "a .txt file has one column of text, and pairs need two"}),
    ],
)
def test_an_unknown_suffix_lists_the_known_ones(folder, name, parts):
    error = failure(TableError, read_table, put(folder, name, "a\n"), DataSettings())
    assert {key: getattr(error, key) for key in parts} == parts


def corrupted():
    rows = [(f"source {n}", f"target {n}") for n in range(500)]
    zipped, packed, columnar = gzip.compress(tsv_bytes(rows)), zst_bytes(tsv_bytes(rows)), parquet_bytes(rows)
    wiped = columnar[:40] + bytes(60) + columnar[100:]
    yield from [
        ("a.tsv.gz", b"source\ttarget\n"),
        ("a.tsv.gz", zipped[:-20]),
        ("a.tsv.gz", zipped[:50] + b"\0" * 40),
    ]
    yield from [("a.tsv.zst", b"source\ttarget\n"), ("a.tsv.zst", packed[:-20])]
    yield from [
        ("a.parquet", b"source"),
        ("a.parquet", columnar[:-20]),
        ("a.parquet", wiped),
        ("a.parquet.gz", b"x"),
    ]


@pytest.mark.parametrize("case", range(9))
def test_a_damaged_file_is_a_table_error(folder, case):
    name, content = list(corrupted())[case]
    path = put(folder, name, content)
    error = failure(TableError, read_table, path, DataSettings())
    assert error.what == "the file is damaged or does not match its suffix"
    assert error.where == str(path)
    assert error.got
    assert error.hint == "copy or download it again, and check its suffix"


@pytest.mark.parametrize(("name", "feature"), [("a.parquet", "reading Parquet"), ("a.csv.zst", "reading .zst")])
def test_without_pyarrow_the_extra_is_named(folder, monkeypatch, name, feature):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    error = failure(MissingExtraError, read_table, put(folder, name, "x"), DataSettings())
    assert error.what == f"{feature} needs the package 'pyarrow', which is not installed"
    assert error.hint == "pip install 'glassformer[parquet]'"


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(["a.csv", "a.tsv", "a.jsonl", "a.csv.gz", "a.parquet"]),
    st.binary(max_size=60) | st.text('{}[]":,xy1\t\n\r\\u0 ', max_size=40).map(str.encode),
    st.sampled_from(["stop", "skip"]),
)
def test_any_bytes_give_pairs_or_a_clear_error(folder, name, content, bad_rows):
    with suppress(GlassformerError):
        table = read_table(put(folder, name, content), DataSettings(bad_rows=bad_rows))
        assert table.ledger.read == len(table.pairs) + len(table.ledger.entries)


# --- Fingerprint ---


def test_the_fingerprint_is_sha256_over_lengths_and_texts():
    assert fingerprint([("a", "é"), ("", "b")]) == hashlib.sha256("1:2:aé0:1:b".encode()).hexdigest()
    assert fingerprint([]) == hashlib.sha256().hexdigest()


pair_lists = st.lists(st.tuples(st.text("ab1:", max_size=3), st.text("ab1:", max_size=3)), max_size=4)


@given(pair_lists, pair_lists)
def test_different_pairs_or_orders_have_different_fingerprints(one, other):
    assert (fingerprint(one) == fingerprint(other)) is (one == other)


@pytest.mark.parametrize("name", ["a\0b.csv", "a\ud800b.csv"], ids=["NUL", "surrogate"])
def test_an_invalid_file_name_is_an_error(tmp_path, name):
    for read in (lambda path: read_table(path, DataSettings()), read_lines):
        with pytest.raises(TableError, match="no file can have this name"):
            read(tmp_path / name)
