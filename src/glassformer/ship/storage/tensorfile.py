"""Write and read safetensors files; every size is checked before anything of that size is read or allocated.

    8 bytes   length of the header, little-endian
    header    JSON: name -> type, shape and offsets of each tensor; "__metadata__": name -> text
    data      the tensors, one after the other, to the end of the file

The same tensors and metadata are written as the same bytes.

Nothing in a file is trusted. Raises ValueError for anything that is not valid.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library
MAX_DIMENSIONS = 8
MIN_VALUES = 1_000_000  # that a header may have in a file of any size; larger files may have one in 16 bytes
_TYPES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
}


@dataclass(frozen=True)
class Entry:
    """A tensor in a file: its type and shape, and the offset of its first byte in the file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int

    @property
    def n_bytes(self) -> int:
        """The size of the tensor in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def read(self, file: BufferedReader) -> NDArray[Any]:
        """Read the tensor. Raises ValueError when the file has become shorter, MemoryError when memory is too small."""
        content = np.empty(self.n_bytes, np.uint8)
        file.seek(self.start)
        if file.readinto(content.data) != self.n_bytes:
            raise ValueError("the file became shorter while it was read")
        return content.view(self.dtype).reshape(self.shape)


def save_file(tensors: Mapping[str, NDArray[Any]], path: Path, metadata: Mapping[str, str]) -> None:
    """Write tensors and metadata. The library does that too, but with the metadata in random order."""
    kinds = {np.dtype(name): kind for kind, name in _TYPES.items()}
    arrays = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))  # so that all are aligned
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": kinds[array.dtype], "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in arrays:
            file.write(array.reshape(-1).view(np.uint8).data)


def read_header(file: BufferedReader) -> tuple[dict[str, str], dict[str, Any], int]:
    """Return the metadata, the header entry of each tensor (not checked), and the offset of the data.

    Raises ValueError for a file without a valid header, or that ends before the end of the header.
    """
    size = os.fstat(file.fileno()).st_size
    start = 8 + int.from_bytes(file.read(8), "little")
    if not 8 + 2 <= start <= min(size, 8 + MAX_HEADER_BYTES):
        raise ValueError(f"a header of {start - 8:,} bytes is not valid in a file of {size:,} bytes")
    content = file.read(start - 8)
    # A value takes up to 72 bytes in memory and 3 in a file: without a limit, a small file would fill the memory.
    n_values = sum(content.count(mark) for mark in (b",", b"[", b"{"))
    if n_values > max(MIN_VALUES, size // 16):
        raise ValueError(f"a header of {n_values:,} values is not valid in a file of {size:,} bytes")
    header = parse_json(content.decode("utf-8"))
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("the metadata is not a JSON object of texts")
    return metadata, header, start


def read_entries(header: Mapping[str, Any], start: int, size: int) -> dict[str, Entry]:
    """Return type, shape and offset of each tensor of a header.

    `start` is the offset of the data, `size` that of the end of the file. Raises ValueError unless the tensors fill
    the file one after the other, without a gap, to its last byte.
    """
    entries = {name: _entry(name, value, start) for name, value in header.items()}
    end = start
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].n_bytes)):
        if entry.start != end:
            raise ValueError(f"the tensor {name!r} does not begin at the end of the previous one")
        end += entry.n_bytes
    if end != size:
        raise ValueError(f"the header describes {end:,} bytes, the file has {size:,}")
    return entries


def _entry(name: str, value: Any, start: int) -> Entry:
    match value:
        case {"dtype": str(kind), "shape": list(shape), "data_offsets": [int(begin), int(end)]} if len(value) == 3:
            pass
        case _:
            raise ValueError(f"the header entry of the tensor {name!r} is not type, shape and offsets")
    if kind not in _TYPES:
        raise ValueError(f"the tensor {name!r} has the type {kind[:20]!r}, which is not supported")
    if len(shape) > MAX_DIMENSIONS or not all(type(length) is int and 0 <= length < 2**53 for length in shape):
        raise ValueError(f"the shape of the tensor {name!r} is not valid")
    entry = Entry(np.dtype(_TYPES[kind]), tuple(shape), start + begin)
    if begin < 0 or end - begin != entry.n_bytes:
        raise ValueError(f"the offsets of the tensor {name!r} do not match its shape")
    return entry


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for text that is not JSON, for infinite numbers and NaN, and for nesting that is too deep.
    """
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
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
