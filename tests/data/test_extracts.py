"""Rows written to the parts of a table: every row once, in its format."""

from __future__ import annotations

import csv
import errno
import gzip
import io
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glassformer.data.extracts import write_parts
from glassformer.data.splits import split
from glassformer.data.tables import read_table
from glassformer.errors import RunError, UsageError
from glassformer.paper.settings import DataSettings

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


NAMES = ("t.csv", "t.tsv", "t.jsonl", "z.tsv.gz")


def write_all(folder: Path, pairs: list[tuple[str, str]]) -> dict[str, str]:
    """The same pairs in every format, each with its path."""
    tab = "".join(f"{x}\t{y}\n" for x, y in pairs)
    lines = "".join(json.dumps({"note": 1.50, "source": x, "target": y}) + "\n" for x, y in pairs)
    with (folder / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *pairs])
    (folder / "t.tsv").write_text(tab)
    (folder / "t.jsonl").write_text(lines)
    (folder / "z.tsv.gz").write_bytes(gzip.compress(tab.encode()))
    for side, name in ((0, "t.en"), (1, "t.de")):
        (folder / name).write_text("".join(pair[side] + "\n" for pair in pairs))
    table = pa.table({"source": [x for x, _ in pairs], "target": [y for _, y in pairs], "n": range(len(pairs))})
    pq.write_table(table, folder / "t.parquet", row_group_size=7)
    for form, make in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        with make(folder / f"{form}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=7)
    return {name: str(folder / name) for name in (*NAMES, "t.parquet", "file.arrow", "stream.arrow")} | {
        "parallel": f"{folder / 't.en'},{folder / 't.de'}"
    }


@pytest.mark.parametrize("name", [*NAMES, "t.parquet", "file.arrow", "stream.arrow", "parallel"])
def test_the_parts_of_any_format_hold_every_row_once_and_no_source_twice(tmp_path, name):
    draw = random.Random(4)
    pairs = [(f"s{draw.randrange(30)}", f'"t{row}, x') for row in range(60)]
    path = write_all(tmp_path, pairs)[name]
    table, files = parts_of(Path(path), tmp_path / "out", DataSettings(), valid=0.1, test=12)
    assert table.pairs == pairs
    read = {part: read_table(",".join(map(str, each)), DataSettings()) for part, each in files.items()}
    assert sorted(pair for part in read.values() for pair in part.pairs) == sorted(pairs)
    sources = [set(part.sources) for part in read.values()]
    assert len(set.union(*sources)) == sum(map(len, sources))
    assert len(read["test"].pairs) <= 12
    assert {part.format for part in read.values()} == {table.format}
    assert {part.columns for part in read.values()} == {table.columns} or name == "parallel"
    with (tmp_path / "out" / "rows.csv").open() as file:
        rows = [(int(row["row"]), row["part"]) for row in csv.DictReader(file)]
    assert [row for row, _ in rows] == list(range(1, 61))
    for part, each in read.items():
        assert each.pairs == [pairs[row - 1] for row, other in rows if other == part]


def test_a_parquet_part_keeps_the_schema_and_other_columns(tmp_path):
    write_all(tmp_path, [(str(row), "x") for row in range(20)])
    _, files = parts_of(tmp_path / "t.parquet", tmp_path / "out", valid=5)
    parts = [pq.read_table(file) for (file,) in files.values()]
    assert {part.schema for part in parts} == {pq.read_table(tmp_path / "t.parquet").schema}
    assert sorted(number for part in parts for number in part["n"].to_pylist()) == list(range(20))


def test_a_full_disk_is_an_error_about_the_output_and_leaves_no_part(tmp_path, monkeypatch):
    path = write_all(tmp_path, [(str(row), "x") for row in range(20)])["t.tsv"]
    really = Path.open

    class Full(io.StringIO):
        def write(self, _text):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(
        Path, "open", lambda file, mode="r", **how: Full() if mode == "w" else really(file, mode, **how)
    )
    with pytest.raises(RunError, match="cannot write the file") as caught:
        parts_of(Path(path), tmp_path / "out")
    assert caught.value.got == "No space left on device"
    assert [*(tmp_path / "out").iterdir()] == []


@pytest.mark.parametrize(
    ("valid", "test"), [(0, 0), (0.5, 0.5), (2, 2), (1.5, 0), (-1, 0), (float("nan"), 0), (0, float("inf"))]
)
def test_sizes_that_leave_nothing_to_train_on_are_refused(tmp_path, valid, test):
    pairs = read_table(write_all(tmp_path, [(str(row), "x") for row in range(4)])["t.csv"], DataSettings()).pairs
    with pytest.raises(UsageError, match=r"no row would be left|no part to hold out|not the size of a part"):
        split(pairs, valid, test, seed=1)


def test_the_seed_decides_and_the_same_seed_gives_the_same_parts(tmp_path):
    pairs = read_table(write_all(tmp_path, [(str(row), "x") for row in range(50)])["t.csv"], DataSettings()).pairs
    assert split(pairs, 0.2, 0.2, seed=3) == split(pairs, 0.2, 0.2, seed=3) != split(pairs, 0.2, 0.2, seed=4)
    assert [len(part) for part in split(pairs, 0.2, 5, seed=3).values()] == [35, 10, 5]
    assert split(pairs, 0.2, 0, seed=3).keys() == {"train", "valid"}
