"""The container of model files and resume files: tensors and JSON parts in one safetensors file, with a digest.

The library of the format reads the header, which must describe the file to its last byte. Reading then checks the
format's name and version before any tensor is read, and the digest last. Nothing in a file is trusted or executed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from glassformer.errors import ModelFileError
from glassformer.storage.files import atomic

Arrays = dict[str, NDArray[Any]]
Shapes = dict[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each tensor, such as `("float32", (6, 4))`."""

MIN_VALUES = 1_000_000  # of JSON in a file of any size; larger files may have one in 16 bytes
_TYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "F16": "float16"}
_TYPES |= {"U32": "uint32", "I32": "int32", "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64"}
"""Name of a type in the file -> numpy's."""


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


def save_file(tensors: Mapping[str, NDArray[Any]], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors and metadata as a safetensors file; the same contents are the same bytes.

    The library does that too, but with the metadata in random order.
    """
    kinds = {name: kind for kind, name in _TYPES.items()}
    arrays = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))  # so that all are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": kinds[str(array.dtype)], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in arrays:
            file.write(array.reshape(-1).view(np.uint8).data)


def read_tensors(path: Path, format_name: str) -> tuple[Arrays, dict[str, Any]]:
    """Read tensors and JSON parts of a file that `write_tensors` wrote. Raises ModelFileError."""
    with open_container(path, format_name) as container:
        return container.read(), container.parts


@dataclass(frozen=True)
class Container:
    """An open file with its checked header and JSON parts. No tensor is read yet."""

    file: Any
    header: dict[str, str]
    shapes: Shapes
    parts: dict[str, Any]

    def read(self) -> Arrays:
        """Read all tensors. Raises ModelFileError when the digest does not match."""
        tensors = {name: self.file.get_tensor(name) for name in self.shapes}
        header = {name: text for name, text in self.header.items() if name != "digest"}
        if self.header.get("digest") != _digest(tensors, header):
            raise ModelFileError(
                "the file was changed after it was written: its digest does not match its contents",
                hint="copy it again from its original location",
            )
        return tensors


@contextlib.contextmanager
def open_container(path: Path, format_name: str) -> Iterator[Container]:
    """Open a file of this format. Any error while it is open becomes a ModelFileError with its path."""
    try:
        size = _size_of(path)
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            _check_format(header.get("format"), format_name)
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it is not a dict
            shapes = {
                name: (_TYPES.get(kind := tensor.get_dtype(), kind), tuple(tensor.get_shape()))
                for name, tensor in slices.items()
            }
            yield Container(file, header, shapes, _parse_parts(header, size))
    except ModelFileError as error:
        error.where = error.where or str(path)
        raise
    except OSError as error:
        raise ModelFileError("cannot read the file", where=str(path), got=error.strerror or str(error)) from None
    except MemoryError:
        raise _too_large(path, "its contents do not fit in memory") from None
    except (SafetensorError, TypeError, ValueError, OverflowError, RecursionError) as error:
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
    with path.open("rb"):  # of one that may not be read, safetensors says that it does not exist
        pass
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


def _parse_parts(header: Mapping[str, str], size: int) -> dict[str, Any]:
    # A value takes up to 72 bytes in memory and 3 in a file: without a limit, a small file would fill the memory.
    n_values = sum(text.count(mark) for text in header.values() for mark in ",[{")
    if n_values > max(MIN_VALUES, size // 16):
        raise ValueError(f"a header of {n_values:,} values is not valid in a file of {size:,} bytes")
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


def _check_format(found: str | None, expected: str) -> None:
    if found == expected:
        return
    kind, _, version = (found or "").partition("/")
    own_kind, _, known_version = expected.partition("/")
    if kind == own_kind:
        hint = "use the glassformer release that wrote it, or train again"
        raise ModelFileError("the file has another format version", got=version, expected=known_version, hint=hint)
    what = "this safetensors file was not written by glassformer"
    if kind.startswith("glassformer"):
        what = "this is another file of glassformer"
    raise ModelFileError(what, got=found, expected=expected)


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for text that is not JSON, for infinite numbers and NaN, and for nesting that is too deep.
    """
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is not a finite number")
    return number


def memory_limit() -> int | None:
    """Return the bytes of memory of this machine or container; None if the system does not report them."""
    limits = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # Windows has no sysconf
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        with contextlib.suppress(ValueError, OSError):  # not limited, or not Linux
            limits.append(int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii")))
    return min((limit for limit in limits if limit > 0), default=None)
