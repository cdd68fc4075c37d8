"""The cache: folders of files that were computed from tables and models, keyed by content and settings.

    entry = cached(key, write)      entry.folder, entry.description, entry.was_damaged

An entry is written under a temporary name and renamed when it is complete, so that processes do not disturb each other.
Its files are checked against their checksums before they are used. Deleting the folder, or any part of it, loses only
time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sys
import time
import unicodedata
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import RunError
from glassformer.ship.storage.files import cleaned_up

FOLDER_VARIABLE = "GLASSFORMER_CACHE"
MAX_BYTES = 50 * 2**30
"""Size of the cache above which the entries that were not used for the longest time are deleted."""

_FORMAT = 1
_DESCRIPTION = "entry.json"
_PART = ".part"
_ABANDONED_SECONDS = 24 * 3600  # after which an unfinished entry belongs to a process that was killed
_BLOCK = 2**22


@dataclass(frozen=True)
class Entry:
    """A complete entry: its folder, what was written about it, and whether it replaced a damaged one just now."""

    folder: Path
    description: dict[str, Any]
    was_damaged: bool = False

    @property
    def key(self) -> str:
        """The key of the entry, which is the name of its folder."""
        return self.folder.name


def cache_folder() -> Path:
    """Return the folder of the cache: that of the environment variable, or the one that the system has for caches."""
    if given := os.environ.get(FOLDER_VARIABLE):
        return Path(given).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "glassformer" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "glassformer"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "glassformer"


def key_of(kind: str, parts: Mapping[str, Any]) -> str:
    """Return the key of an entry: a digest of everything that its files depend on."""
    everything = {
        "kind": kind,
        "format": _FORMAT,
        "version": _version(),
        "unicode": unicodedata.unidata_version,
        **parts,
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def digest_of(values: NDArray[Any]) -> str:
    """Return the SHA-256 (hex) of an array, for a key."""
    return hashlib.sha256(values.tobytes()).hexdigest()


def content_digest(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def cached(key: str | None, write: Callable[[Path], dict[str, Any]]) -> Entry:
    """Return the entry of a key. Without one, or where it is damaged, `write(folder)` writes its files.

    `write` returns the description. Without a key it is that of the description, which then must depend on all of the
    content. Raises RunError when the cache cannot be written; nothing of the entry is left then, nor after Ctrl-C and
    SIGTERM.
    """
    root = cache_folder()
    if key and (found := _find(root / key)):
        return found
    temporary = root / f"{key}.{secrets.token_hex(4)}{_PART}"
    with cleaned_up():
        try:
            with _write_errors(root):
                temporary.mkdir(parents=True)
            description = write(temporary)
            folder = root / (key or key_of("content", description))
            with _write_errors(root):
                files = {path.name: _check(path) for path in sorted(temporary.iterdir())}
                written = {"key": folder.name, "files": files, "description": description}
                (temporary / _DESCRIPTION).write_text(json.dumps(written), encoding="utf-8")
                is_damaged = _replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    with contextlib.suppress(OSError):
        _prune(root, keep=folder.name)
    return Entry(folder, description, is_damaged)


def _find(folder: Path) -> Entry | None:
    """Return the entry in a folder, if it is complete and not damaged."""
    try:
        written = json.loads((folder / _DESCRIPTION).read_bytes())
        is_whole = all(_check(folder / name) == check for name, check in written["files"].items())
        if written["key"] == folder.name and is_whole:
            os.utime(folder)
            return Entry(folder, written["description"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


def _replace(temporary: Path, folder: Path) -> bool:
    """Rename a finished entry; return whether it replaced a damaged one. Of two processes, the first one wins."""
    if not folder.exists():
        with contextlib.suppress(OSError):
            temporary.rename(folder)
            return False
    if _find(folder):
        return False
    discarded = folder.with_name(f"{temporary.name}.old{_PART}")
    folder.rename(discarded)
    temporary.rename(folder)
    shutil.rmtree(discarded, ignore_errors=True)
    return True


def _check(path: Path) -> list[int]:
    """Return the size and the CRC-32 of a file."""
    checksum = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            checksum = zlib.crc32(block, checksum)
        return [file.tell(), checksum]


def _prune(root: Path, keep: str) -> None:
    """Delete what killed processes left, and the oldest entries of a cache that is too large."""
    entries, total = [], 0
    for folder in root.iterdir():
        used = folder.stat().st_mtime
        if folder.name.endswith(_PART):
            if time.time() - used > _ABANDONED_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        elif (folder / _DESCRIPTION).is_file():
            size = sum(path.stat().st_size for path in folder.iterdir())
            total += size
            entries.append((used, size, folder))
    for _, size, folder in sorted(entries, key=lambda entry: entry[0]):
        if total > MAX_BYTES and folder.name != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


@cache
def _version() -> str:
    try:
        return version("glassformer")
    except PackageNotFoundError:
        return ""


@contextlib.contextmanager
def _write_errors(folder: Path) -> Any:
    """Raise RunError for the errors of the operating system inside the context."""
    try:
        yield
    except OSError as error:
        raise RunError(
            "cannot write the cache for tables that are larger than memory",
            where=str(error.filename or folder),
            got=error.strerror or str(error),
            hint=f"free some space, or set {FOLDER_VARIABLE} to a folder that can be written; "
            "it takes about five times the size of a table with short texts",
        ) from None


class GrowingArray:
    """An array that is made in parts: in memory or, with a path, in a file that is mapped into memory when it is whole.

    Raises RunError when the disk is full.
    """

    def __init__(self, dtype: Any, path: Path | None) -> None:
        self._path, self._dtype, self._length = path, np.dtype(dtype), 0
        self._parts = [np.empty(0, dtype)]
        self._file: BinaryIO | None = None
        if path is not None:
            with _write_errors(path.parent):
                self._file = path.open("wb")

    def __len__(self) -> int:
        return self._length

    def append(self, values: Any) -> None:
        """Append values of an array."""
        part = np.ascontiguousarray(values, self._dtype)
        self._length += len(part)
        if self._path is None or self._file is None:
            self._parts.append(part)
            return
        with _write_errors(self._path.parent):
            self._file.write(part.data)

    def finish(self) -> Any:
        """Return the array, after which none can be appended."""
        self.close()
        return np.concatenate(self._parts) if self._path is None else mapped(self._path, self._dtype)

    def close(self) -> None:
        """Close the file, after an error too."""
        if self._path is not None and self._file is not None:
            with _write_errors(self._path.parent):
                self._file.close()


def mapped(path: Path, dtype: Any) -> Any:
    """Return the array of a file, mapped into memory: its pages are read when they are used, and can be discarded."""
    return np.memmap(path, dtype, mode="r") if path.stat().st_size else np.empty(0, dtype)
