"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
import sys
import threading
from itertools import product
from pathlib import Path

import pytest

from glassformer.errors import RunError
from glassformer.storage.files import atomic, cannot_write, check_path, check_writable, shown, write_text


def test_text_is_written_as_utf_8_with_plain_line_ends_and_a_lone_surrogate_as_an_escape(tmp_path):
    write_text(tmp_path / "new" / "a.txt", "é\r\n\na\udcff")
    assert (tmp_path / "new" / "a.txt").read_bytes() == b"\xc3\xa9\r\n\na\\udcff"
    assert shown(Path("t\udcff.csv")) == "t\\udcff.csv"


def test_the_old_file_is_kept_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic(path) as temporary:  # noqa: PT012
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    with atomic(path) as temporary:
        temporary.write_text("new")
        assert temporary.parent == path.parent
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr({"fsync": "os.fsync", "replace": "pathlib.Path.replace"}[step], full)
    with pytest.raises(RunError) as caught:
        write_text(path, "new")
    assert str(caught.value) == (
        f"cannot write the file\n  where: {path}\n  got: No space left on device\n"
        "  next: free some space, or write to another disk; no existing data is lost"
    )
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_to_a_link_replaces_its_target(tmp_path):
    (tmp_path / "there").mkdir()
    for name in ("old", "new"):
        link, file = tmp_path / f"{name} link", tmp_path / "there" / name
        link.symlink_to(file)
        write_text(link, name)
        assert link.is_symlink()
        assert file.read_text() == name
    assert sorted(file.name for file in (tmp_path / "there").iterdir()) == ["new", "old"]


def test_a_path_that_cannot_be_written_is_an_error_and_found_before(tmp_path):
    (tmp_path / "file").write_text("old")
    through = [tmp_path / "file" / "a.txt", tmp_path / "file" / "deep" / "a.txt"]
    for path, refuse in product((*through, tmp_path), (check_writable, lambda path: write_text(path, "new"))):
        with pytest.raises(RunError, match="cannot write the file") as caught:
            refuse(path)
        assert caught.value.where == str(path)
        assert (caught.value.hint == "a part of this path is a file; choose another path") == (path in through)
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    (tmp_path / "link").symlink_to(tmp_path / "new" / "b.txt")
    for path in (tmp_path / "file", tmp_path / "new" / "deep" / "a.txt", tmp_path / "link", Path(os.devnull)):
        check_writable(path)
    assert (tmp_path / "file").read_text() == "old"
    assert not (tmp_path / "new").exists()


def test_without_hard_links_there_is_no_previous_file(tmp_path, monkeypatch):
    def hardlink_to(*_arguments):
        raise NotImplementedError  # as of pathlib where the system has no `os.link`

    monkeypatch.setattr(Path, "hardlink_to", hardlink_to)
    for text in ("old", "new"):
        with atomic(tmp_path / "a.txt", previous=tmp_path / "b.txt") as temporary:
            temporary.write_text(text)
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.txt", "new")]


def test_a_new_file_has_the_permissions_of_the_old_one(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("mine")
    path.chmod(0o600)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_error_of_a_folder_without_write_permission_has_a_hint(tmp_path):
    error = cannot_write(tmp_path, OSError(errno.EROFS, os.strerror(errno.EROFS)))
    assert (error.got, error.hint) == (os.strerror(errno.EROFS), "choose a folder with write permission")
    odd = cannot_write(tmp_path, OSError("odd"))
    assert (odd.got, "try again" in (odd.hint or "")) == ("odd", True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_written_to_and_kept(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "new")
    reader.join(10)
    assert (read, pipe.is_fifo()) == (["new"], True)


# Names

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names of other systems have other limits")


@on_linux
@pytest.mark.parametrize("name", ["a" * 255, "é" * 127, "a" * 254 + "\udcff"])
def test_a_name_of_every_allowed_length_can_be_written(tmp_path, name):
    check_writable(tmp_path / name)
    write_text(tmp_path / name, "text")
    assert [file.name for file in tmp_path.iterdir()] == [name]


@on_linux
@pytest.mark.parametrize("path", ["a" * 256, "é" * 128, "a" * 9999 + "/b", "deep/" * 900 + "b"])
def test_check_writable_finds_a_name_that_is_too_long(tmp_path, path):
    for refuse in (check_writable, check_path, lambda path: write_text(path, "")):
        with pytest.raises(RunError, match="cannot write the file") as caught:
            refuse(tmp_path / path)
        assert (caught.value.got, caught.value.hint) == ("File name too long", "choose a shorter name")
        assert len(str(caught.value)) < 300
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_an_invalid_name_is_an_error(tmp_path, name):
    for refuse in (check_writable, check_path, lambda path: write_text(path, "")):
        with pytest.raises(RunError, match="no file can have this name"):
            refuse(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
