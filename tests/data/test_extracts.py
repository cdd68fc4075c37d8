"""Rows written to the parts of a table: every row once, in its format."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glassformer.data.extracts import write_parts
from glassformer.data.pairs import Pair
from glassformer.data.splits import split
from glassformer.data.tables import read_table
from glassformer.errors import RunError, UsageError
from glassformer.settings import DataSettings

SKIP = DataSettings(bad_rows="skip")
CSV = (
    b'\xef\xbb\xbf"source",target,note\r\n'
    b'a,1,"two\nlines"\r\n'
    b"\r\n"
    b"b,2\r\n"  # ragged
    b'c,"3 ""three""",\r\n'
    b"d,4,\xff\n"  # not UTF-8
    b'"a",5,last without an end'
)


def parts_of(path: Path, out: Path, data: DataSettings = SKIP, valid: float = 1, test: float = 0):
    table = read_table(path, data)
    return table, write_parts(table, split(table.pairs, valid, test, seed=1), out)


def test_rows_of_csv_are_written_with_the_header_and_all_columns(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(CSV)
    _, files = parts_of(path, tmp_path / "out")
    assert files == {name: [tmp_path / "out" / f"{name}.csv"] for name in ("train", "valid")}
    train, valid = (file.read_bytes() for (file,) in files.values())
    assert train == b'source,target,note\na,1,"two\nlines"\na,5,last without an end\n'
    assert valid == b'source,target,note\nc,"3 ""three""",\n'
    assert (tmp_path / "out" / "rows.csv").read_text() == "row,part\n1,train\n4,valid\n6,train\n"
    ledger = [json.loads(line) for line in (tmp_path / "out" / "ledger.jsonl").read_text().splitlines()]
    assert [entry["row"] for entry in ledger] == [2, 3, 5]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "sep=^\na^1\nb^2\n"),
        ("t.csv", "\ufeffa,1\n\ufeffb,2\n"),  # one that is a mark, and one that is text
        ("t.tsv", 'a "quote"\t1\nb\t"2"\n'),
        ("t.tsv", 'a\t"1 ""one"""\nb\t"""2"""\n'),
        ("t.jsonl", '{"x": "a", "y": 1.50}\n{"x": "b", "y": "2", "later": "\\u0000"}\n'),
    ],
)
def test_parts_are_read_as_the_table_was(tmp_path, name, content):
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    table, files = parts_of(path, tmp_path / "out")
    assert sorted(pair for (file,) in files.values() for pair in read_table(file, DataSettings()).pairs) == table.pairs
    if name == "t.jsonl":
        assert sorted("".join(file.read_text() for (file,) in files.values())) == sorted(content)


def test_a_header_after_a_damaged_line_is_the_header_of_every_part(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'"a"b,1\nsource,target\na,1\nb,2\nc,3\n')
    _, files = parts_of(path, tmp_path / "out", valid=1, test=1)
    for (file,) in files.values():
        assert file.read_bytes().startswith(b"source,target\n")
        assert len(read_table(file, DataSettings()).pairs) == 1
    assert (tmp_path / "out" / "rows.csv").read_text().splitlines()[1][0] == "2"


@pytest.mark.parametrize("form", ["parquet", "file", "stream"])
def test_a_part_of_a_table_with_types_keeps_the_schema_and_other_columns(tmp_path, form):
    table = pa.table({"source": [str(row) for row in range(20)], "target": ["x"] * 20, "n": range(20)})
    path = tmp_path / ("t.parquet" if form == "parquet" else "t.arrow")
    if form == "parquet":
        pq.write_table(table, path, row_group_size=7)
    else:
        with (pa.ipc.new_file if form == "file" else pa.ipc.new_stream)(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    _, files = parts_of(path, tmp_path / "out", valid=5)
    read = pq.read_table if form == "parquet" else lambda file: pa.ipc.open_file(file).read_all()
    parts = [read(file) for (file,) in files.values()]
    assert [part.schema for part in parts] == [table.schema] * 2
    assert sorted(number for part in parts for number in part["n"].to_pylist()) == list(range(20))


def test_a_full_disk_is_an_error_about_the_output_and_leaves_no_part(tmp_path, monkeypatch):
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"{row}\tx\n" for row in range(20)))
    really = Path.open

    class Full(io.StringIO):
        def write(self, _text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(
        Path, "open", lambda file, mode="r", **how: Full() if mode == "w" else really(file, mode, **how)
    )
    with pytest.raises(RunError, match="cannot write the file") as caught:
        parts_of(path, tmp_path / "out")
    assert caught.value.got == "No space left on device"
    assert [*(tmp_path / "out").iterdir()] == []


@pytest.mark.parametrize(
    ("valid", "test"), [(0, 0), (0.5, 0.5), (2, 2), (1.5, 0), (-1, 0), (float("nan"), 0), (0, float("inf"))]
)
def test_sizes_that_leave_nothing_to_train_on_are_refused(valid, test):
    with pytest.raises(UsageError, match=r"no row would be left|no part to hold out|not the size of a part"):
        split([Pair(str(row), "x") for row in range(4)], valid, test, seed=1)


def test_the_seed_decides_and_the_same_seed_gives_the_same_parts():
    pairs = [Pair(str(row), "x") for row in range(50)]
    assert split(pairs, 0.2, 0.2, seed=3) == split(pairs, 0.2, 0.2, seed=3) != split(pairs, 0.2, 0.2, seed=4)
    assert [len(part) for part in split(pairs, 0.2, 5, seed=3).values()] == [35, 10, 5]
    assert split(pairs, 0.2, 0, seed=3).keys() == {"train", "valid"}
