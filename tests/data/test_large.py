"""Large tables, in files: the same pairs, rows, ledger and fingerprint as in memory, whatever is in the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glassformer.data import stored, tables
from glassformer.data.pairs import fingerprint
from glassformer.data.stored import StoredPairs
from glassformer.data.tables import Table, read_table
from glassformer.errors import ColumnError, RunError, TableError
from glassformer.paper.settings import DataSettings

quick = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SKIP = DataSettings(bad_rows="skip")


@pytest.fixture(autouse=True)
def stored_tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Store every table, in blocks of a few rows."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(stored.FOLDER_VARIABLE, "~/files")
    monkeypatch.setattr(tables, "LARGE_CHARACTERS", 0)
    monkeypatch.setattr("glassformer.data.stored.BLOCK_ROWS", 3)


def in_memory(path: Path, data: DataSettings) -> Table:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "LARGE_CHARACTERS", 2**40)
        return read_table(path, data)


def assert_same(stored: Table, table: Table) -> None:
    assert isinstance(stored.pairs, StoredPairs)
    assert list(stored.pairs) == table.pairs
    assert [stored.pairs[i] for i in range(len(stored.pairs))] == table.pairs
    assert list(stored.rows) == table.rows
    assert fingerprint(stored.pairs) == fingerprint(table.pairs)
    assert (stored.ledger.read, stored.ledger.kept) == (table.ledger.read, table.ledger.kept)
    assert stored.ledger.entries == table.ledger.entries
    assert (stored.columns, stored.taken, stored.header) == (table.columns, table.taken, table.header)
    assert (stored.first, stored.header_guessed, stored.format) == (table.first, table.header_guessed, table.format)


def outcome(read, path: Path, data: DataSettings) -> Table | str:
    try:
        return read(path, data)
    except TableError as error:
        return str(error)


def assert_both_ways_agree(path: Path, data: DataSettings) -> None:
    stored, table = outcome(read_table, path, data), outcome(in_memory, path, data)
    if isinstance(table, str) or isinstance(stored, str):
        assert stored == table
    else:
        assert_same(stored, table)


PIECES = [b"a", b"b,c", b"word", b",", b"\n", b"\r\n", b"\r", b'"', b'""', b'"x,y"', b'"x\ny",z', b" ", b"\0", b"\xff"]
PIECES += ["é€".encode(), b"1,2\n", b"x\ty\n"]


@quick
@given(
    st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join),
    st.sampled_from(["stop", "skip"]),
    st.sampled_from([("t.csv", b"source,target\n"), ("t.tsv", b"x\ty\n"), ("t.jsonl", b'{"a": "b", "c": "d"}\n')]),
)
def test_any_table_is_stored_as_it_is_in_memory(tmp_path, content, bad_rows, form):
    name, start = form
    (tmp_path / name).write_bytes(start + content)
    assert_both_ways_agree(tmp_path / name, DataSettings(bad_rows=bad_rows))


def write(path: Path, n_rows: int = 300, seed: str = "") -> Path:
    path.write_text("source,target\n" + "".join(f"w{i}{seed},t{i}\n" for i in range(n_rows)), encoding="utf-8")
    return path


def test_a_damaged_row_far_into_the_table_is_named_by_its_line(tmp_path):
    path = write(tmp_path / "table.csv")
    path.write_bytes(path.read_bytes() + b'"never closed,x\n')
    with pytest.raises(TableError, match="line 302"):
        read_table(path, DataSettings())
    assert_both_ways_agree(path, SKIP)


# The files


def test_the_files_have_no_names_so_that_nothing_is_left_of_them(tmp_path):
    table = read_table(write(tmp_path / "table.csv"), DataSettings())
    assert str(tmp_path / "files") in table.notes[0]
    assert list((tmp_path / "files").iterdir()) == []
    assert table.pairs[299] == ("w299", "t299")


def test_a_folder_that_cannot_be_written_names_the_variable(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(stored.FOLDER_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(RunError, match=stored.FOLDER_VARIABLE):
        read_table(write(tmp_path / "table.csv"), DataSettings())


def test_a_full_disk_is_said(tmp_path, monkeypatch):
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full on this system")
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full.open("wb", buffering=0))
    with pytest.raises(RunError, match="No space left"):
        read_table(write(tmp_path / "table.csv"), DataSettings())


# Several files


@pytest.mark.parametrize("size", [0, 2**40])
def test_the_files_of_a_folder_or_a_pattern_are_one_table(tmp_path, monkeypatch, size):
    monkeypatch.setattr(tables, "LARGE_CHARACTERS", size)
    folder = tmp_path / "tables"
    folder.mkdir()
    write(folder / "b.csv", 2, "b")
    write(folder / "a.csv", 3, "a")
    (folder / "c.jsonl").write_text(json.dumps({"source": "s", "target": ""}) + '\n{"source": "s", "target": "t"}\n')
    (folder / "README").write_text("no table")
    (folder / "d.tsv").write_text("1\t2\t3\n")
    with pytest.raises(ColumnError, match=r"does not have the columns of .*a\.csv"):
        read_table(folder, DataSettings(source=0, target=1))
    (folder / "d.tsv").unlink()
    for path in (folder, str(folder / "*.[cj]s*")):
        table = read_table(path, DataSettings())
        assert [pair.source for pair in table.pairs] == ["w0a", "w1a", "w2a", "w0b", "w1b", "s"]
        assert list(table.rows) == [1, 2, 3, 1, 2, 2]
        assert (table.ledger.read, table.ledger.kept) == (7, 6)
        assert [(entry.file, entry.row) for entry in table.ledger.entries] == [(str(folder / "c.jsonl"), 1)]
        assert table.location(3) == f"{folder / 'b.csv'}, row 1"
        assert table.path == str(path)


def test_a_pattern_without_files_is_an_error(tmp_path):
    with pytest.raises(TableError, match="no file matches"):
        read_table(tmp_path / "*.csv", DataSettings())
