"""Tables at an address: read as the same files are, copied once, with errors that name the address."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from glassformer.data import cache, remote, tables
from glassformer.data.remote import is_address, public
from glassformer.data.tables import read_table
from glassformer.errors import MissingExtraError, TableError
from glassformer.paper.settings import DataSettings

pytest.importorskip("fsspec")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A file system in memory, and an empty cache."""
    import fsspec

    monkeypatch.setenv(cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


@pytest.mark.parametrize("size", [0, 2**40])
def test_a_table_at_an_address_is_read_and_named_by_it(memory, monkeypatch, size):
    monkeypatch.setattr(tables, "LARGE_BYTES", size)
    memory.pipe("/bucket/pairs.csv", b"source,target\na,b\n,c\nd,e\n")
    table = read_table("memory:///bucket/pairs.csv", DataSettings())
    assert list(table.pairs) == [("a", "b"), ("d", "e")]
    assert table.path == "memory:///bucket/pairs.csv"
    assert [entry.file for entry in table.ledger.entries] == ["memory:///bucket/pairs.csv"]
    assert table.location(1) == "memory:///bucket/pairs.csv, row 3"


def test_a_folder_and_a_pattern_at_an_address_are_read_in_order(memory):
    memory.pipe({"/b/2.tsv": b"x\t2\n", "/b/1.tsv": b"x\t1\n\t0\n", "/b/README": b"-"})
    for address in ("memory:///b", "memory:///b/*.tsv"):
        table = read_table(address, DataSettings())
        assert [pair.target for pair in table.pairs] == ["1", "2"]
        assert table.location(1) == "memory:///b/2.tsv, row 1"
        assert table.ledger.entries[0].file == "memory:///b/1.tsv"


def test_a_table_is_copied_again_only_when_it_changed(memory, monkeypatch):
    memory.pipe("/bucket/pairs.csv", b"a,b\n")
    read_table("memory:///bucket/pairs.csv", DataSettings())
    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "get_file", None)
        assert read_table("memory:///bucket/pairs.csv", DataSettings()).pairs[0] == ("a", "b")
    memory.pipe("/bucket/pairs.csv", b"other,pair\n")
    assert read_table("memory:///bucket/pairs.csv", DataSettings()).pairs[0] == ("other", "pair")


def test_errors_name_the_address_and_no_secret(memory):
    memory.pipe("/bucket/bad.csv", b'a,b\n"open,c\n')
    with pytest.raises(TableError, match=r"memory:///bucket/bad\.csv") as caught:
        read_table("memory:///bucket/bad.csv", DataSettings())
    assert "cache" not in str(caught.value)
    with pytest.raises(TableError, match="no such file"):
        read_table("memory:///bucket/missing.csv", DataSettings())
    with pytest.raises(TableError, match="no table at this address"):
        read_table("memory:///bucket/*.tsv", DataSettings())
    with pytest.raises(TableError, match="cannot be read") as caught:
        read_table("nothing://user:secret@host/pairs.csv", DataSettings())
    assert "secret" not in str(caught.value)


def test_a_missing_library_is_named(memory, monkeypatch):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(TableError, match=r"not installed.*\n.*\n.*s3fs"):
        read_table("s3://bucket/pairs.csv", DataSettings())
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"glassformer\[remote\]"):
        read_table("s3://bucket/pairs.csv", DataSettings())


def test_addresses_are_told_from_paths():
    assert is_address("https://host/a.csv")
    assert not any(map(is_address, ["a.csv", "/a/b.csv", "C:/a.csv", "a.en,a.de", "./s3:/a"]))
    assert public("https://user:word@host:8/a.csv?token=x#y") == "https://host:8/a.csv"
    assert remote.public("s3://bucket/a*.csv") == "s3://bucket/a*.csv"
