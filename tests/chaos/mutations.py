"""Files that were damaged or changed, each by its number: the same number gives the same file again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

BLOCK = 512  # bytes of a sector of a disk, which are lost or written twice at once

HOSTILE_VALUES: tuple[Callable[[Random], Any], ...] = (
    lambda drawn: drawn.choice([0, 1, -1, 7, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63), 10**30]),
    lambda drawn: drawn.choice([0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, 5e-324]),
    lambda drawn: drawn.choice(["", "a", "\ud800", "\0", "<eos>", "glassformer-model/2", "x" * 10_000]),
    lambda drawn: drawn.choice([None, True, False, [], {}, [[]] * 1000, {"a": {"b": []}}]),
    lambda drawn: drawn.choice([[0], [-1, 2], ["a", "a"], [1.5], [2**53] * 3, {"": 0}]),
)


def _bit(content: bytearray, drawn: Random) -> None:
    content[drawn.randrange(len(content))] ^= 1 << drawn.randrange(8)


def _bits(content: bytearray, drawn: Random) -> None:
    for _ in range(drawn.randint(2, 50)):
        _bit(content, drawn)


def _truncate(content: bytearray, drawn: Random) -> None:
    del content[drawn.randrange(len(content)) :]


def _append(content: bytearray, drawn: Random) -> None:
    content += drawn.randbytes(drawn.randint(1, 2 * BLOCK))


def _block(content: bytearray, drawn: Random) -> slice:
    start = drawn.randrange(len(content))
    return slice(start, min(len(content), start + drawn.choice([1, 4, 8, 64, BLOCK, 8 * BLOCK])))


def _insert(content: bytearray, drawn: Random) -> None:
    at = _block(content, drawn)
    content[at.start : at.start] = drawn.randbytes(at.stop - at.start)


def _duplicate(content: bytearray, drawn: Random) -> None:
    at = _block(content, drawn)
    content[at.start : at.start] = content[at]


def _delete(content: bytearray, drawn: Random) -> None:
    del content[_block(content, drawn)]


def _zero(content: bytearray, drawn: Random) -> None:
    at = _block(content, drawn)
    content[at] = bytes(at.stop - at.start)


def _copy(content: bytearray, drawn: Random) -> None:
    """One block over another, as a disk that wrote it in the wrong position."""
    source, target = _block(content, drawn), _block(content, drawn)
    length = min(source.stop - source.start, target.stop - target.start)
    content[target.start : target.start + length] = content[source.start : source.start + length]


def _length(content: bytearray, drawn: Random) -> None:
    """Another length of the header."""
    length = int.from_bytes(content[:8], "little")
    other = drawn.choice(
        [0, 1, 2, length - 1, length + 1, length + 8, len(content), 10**8, 10**8 + 1, 2**63, 2**64 - 1]
    )
    content[:8] = other.to_bytes(8, "little")


BYTES = (_bit, _bits, _truncate, _append, _insert, _duplicate, _delete, _zero, _copy, _length)
"""Ways to damage any file. The last one is for safetensors."""


def damaged(content: bytes, number: int, *, any_file: bool = False) -> tuple[str, bytes]:
    """Return the name of a way to damage a file, and the bytes."""
    ways, found = BYTES[:-1] if any_file else BYTES, bytearray(content)
    way = ways[number % len(ways)] if content else _append
    way(found, Random(number))
    return way.__name__.strip("_"), bytes(found)


# JSON


def changed_json(value: Any, drawn: Random) -> Any:
    """Return a copy of a JSON value with one change somewhere in it: another value, or a member more or less."""
    value = copy.deepcopy(value)
    at, within = value, None
    while isinstance(at, dict | list) and at and (within is None or drawn.random() < 0.8):
        within = at, drawn.choice(list(at) if isinstance(at, dict) else range(len(at)))
        at = at[within[1]]
    if within is None:
        return drawn.choice(HOSTILE_VALUES)(drawn)
    parent, key = within
    match drawn.randrange(5):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(at))
        case 1:
            parent[f"{key}2"] = parent.pop(key)
        case 2 if isinstance(parent, list) and len(parent) > 1:
            other = drawn.randrange(len(parent))
            parent[key], parent[other] = parent[other], parent[key]
        case 3 if isinstance(at, int):
            parent[key] = at + drawn.choice([-1, 1, 2, 8, 10**6])
        case _:
            parent[key] = drawn.choice(HOSTILE_VALUES)(drawn)
    return value


def changed_header(content: bytes, number: int) -> tuple[str, bytes]:
    """Return a safetensors file with one change in its header, which stays JSON, and no new digest."""
    drawn = Random(number)
    length = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    way = ("entry", "metadata", "part", "names", "offsets", "spaces", "again")[number % 7]
    match way:
        case "entry":
            name = drawn.choice(names)
            header[name] = changed_json(header[name], drawn)
        case "metadata":
            header["__metadata__"] = changed_json(header["__metadata__"], drawn)
        case "part":
            part = drawn.choice([name for name in header["__metadata__"] if name not in ("format", "digest")])
            changed = changed_json(json.loads(header["__metadata__"][part]), drawn)
            header["__metadata__"][part] = json.dumps(changed, sort_keys=True)
        case "names" | "offsets":
            one, other = drawn.sample(names, 2) if len(names) > 1 else names * 2
            if way == "offsets":
                header[one]["data_offsets"], header[other]["data_offsets"] = (
                    header[other]["data_offsets"],
                    header[one]["data_offsets"],
                )
            else:
                header[one], header[other] = header[other], header[one]
        case "again":
            header[f"{drawn.choice(names)}.again"] = header[drawn.choice(names)]
    text = json.dumps(header, indent=1 if way == "spaces" else None).encode()
    return f"header: {way}", len(text).to_bytes(8, "little") + text + rest
