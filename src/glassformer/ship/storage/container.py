"""The container of model files and resume files: tensors and JSON parts in one safetensors file, with a digest.

Reading checks the format's name and version, the names and the sizes before any tensor is read, then the digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import ModelFileError
from glassformer.ship.storage.files import atomic
from glassformer.ship.storage.tensorfile import Entry, memory_limit, parse_json, read_entries, read_header, save_file

Arrays = dict[str, NDArray[Any]]


def write_tensors(
    path: Path,
    format_name: str,
    tensors: Mapping[str, NDArray[Any]],
    parts: Mapping[str, Any],
    *,
    previous: Path | None = None,
) -> None:
    """Write tensors and JSON parts atomically as one safetensors file, with a digest of all contents.

    The old file is then `previous`, if that is given.
    """
    header = {name: json.dumps(part, sort_keys=True, allow_nan=False) for name, part in parts.items()}
    header["format"] = format_name
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    header["digest"] = _digest(arrays, header)
    with atomic(path, previous=previous) as temporary:
        save_file(arrays, temporary, header)


def read_tensors(path: Path, format_name: str) -> tuple[Arrays, dict[str, Any]]:
    """Read tensors and JSON parts of a file that `write_tensors` wrote. Raises ModelFileError."""
    with open_container(path, format_name) as container:
        return container.read(), container.parts


@dataclass(frozen=True)
class Container:
    """An open file with its checked header and JSON parts. No tensor is read yet."""

    file: BufferedReader
    header: dict[str, str]
    entries: dict[str, Entry]
    parts: dict[str, Any]

    def read(self) -> Arrays:
        """Read all tensors. Raises ModelFileError when the digest does not match."""
        tensors = {name: entry.read(self.file) for name, entry in self.entries.items()}
        header = {name: text for name, text in self.header.items() if name != "digest"}
        if self.header.get("digest") != _digest(tensors, header):
            raise ModelFileError(
                "the file was changed after it was written: its digest does not match its contents",
                hint="copy it again from its original location",
            )
        return tensors


@contextlib.contextmanager
def open_container(path: Path, format_name: str) -> Iterator[Container]:
    """Open a file of a format. Any error while it is open becomes a ModelFileError with its path."""
    try:
        size = _size_of(path)
        with path.open("rb") as file:
            header, tensors, start = read_header(file)
            _check_format(header.get("format"), format_name)
            entries = read_entries(tensors, start, size)
            yield Container(file, header, entries, _parse_parts(header))
    except ModelFileError as error:
        error.where = error.where or str(path)
        raise
    except OSError as error:
        raise ModelFileError("cannot read the file", where=str(path), got=error.strerror or str(error)) from None
    except MemoryError:
        raise _too_large(path, "its contents do not fit in memory") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":  # a panic of a Rust library is not an Exception
            raise
        raise _damaged(path, str(error)) from None


def _size_of(path: Path) -> int:
    """Return the size in bytes. Raises ModelFileError for what is not a regular file, or does not fit in memory."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise _damaged(path, "not a regular file")
    limit = memory_limit()
    if limit is not None and status.st_size > limit:
        raise _too_large(path, f"{status.st_size:,} bytes", f"at most {limit:,} bytes, the memory of this machine")
    return status.st_size


def _damaged(path: Path, got: str) -> ModelFileError:
    return ModelFileError(
        "this is not a file of glassformer, or it is truncated or damaged",
        where=str(path),
        got=got,
        expected="a .safetensors file written by glassformer",
        hint="if it was one, copy it again from its original location",
    )


def _too_large(path: Path, got: str, expected: str | None = None) -> ModelFileError:
    what = "the file is too large for this machine"
    hint = "load it on a machine with more memory"
    return ModelFileError(what, where=str(path), got=got, expected=expected, hint=hint)


def _parse_parts(header: Mapping[str, str]) -> dict[str, Any]:
    try:
        return {name: parse_json(text) for name, text in header.items() if name not in ("format", "digest")}
    except ValueError as error:
        raise ModelFileError("the metadata of the file is not JSON", got=str(error)) from None


def _digest(tensors: Mapping[str, NDArray[Any]], header: Mapping[str, str]) -> str:
    """Return the SHA-256 of the header (without the digest) and of name, type, shape and bytes of every tensor."""
    total = hashlib.sha256(json.dumps(dict(header), ensure_ascii=False, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        total.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        total.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return total.hexdigest()


def _check_format(found: str | None, format_name: str) -> None:
    if found == format_name:
        return
    kind, _, version = (found or "").partition("/")
    if kind == format_name.partition("/")[0]:
        raise ModelFileError(
            "the file has another format version",
            got=version,
            expected=format_name.partition("/")[2],
            hint="use the glassformer release that wrote it, or train again",
        )
    raise ModelFileError("this safetensors file was not written by glassformer", got=found, expected=format_name)
