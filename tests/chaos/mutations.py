"""Files that were damaged or changed, each by its number: the same number gives the same file again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

BLOCK = 512  # bytes of a sector of a disk, which are lost or written twice at once

HOSTILE_VALUES: tuple[Callable[[Random], Any], ...] = (
    lambda chance: chance.choice([0, 1, -1, 7, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63), 10**30]),
    lambda chance: chance.choice([0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, 5e-324]),
    lambda chance: chance.choice(["", "a", "\ud800", "\0", "<eos>", "glassformer-model/2", "x" * 10_000]),
    lambda chance: chance.choice([None, True, False, [], {}, [[]] * 1000, {"a": {"b": []}}]),
    lambda chance: chance.choice([[0], [-1, 2], ["a", "a"], [1.5], [2**53] * 3, {"": 0}]),
)


def _bit(content: bytearray, chance: Random) -> None:
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)


def _bits(content: bytearray, chance: Random) -> None:
    for _ in range(chance.randint(2, 50)):
        _bit(content, chance)


def _truncate(content: bytearray, chance: Random) -> None:
    del content[chance.randrange(len(content)) :]


def _append(content: bytearray, chance: Random) -> None:
    content += chance.randbytes(chance.randint(1, 2 * BLOCK))


def _block(content: bytearray, chance: Random) -> slice:
    start = chance.randrange(len(content))
    return slice(start, min(len(content), start + chance.choice([1, 4, 8, 64, BLOCK, 8 * BLOCK])))


def _insert(content: bytearray, chance: Random) -> None:
    at = _block(content, chance)
    content[at.start : at.start] = chance.randbytes(at.stop - at.start)


def _duplicate(content: bytearray, chance: Random) -> None:
    at = _block(content, chance)
    content[at.start : at.start] = content[at]


def _delete(content: bytearray, chance: Random) -> None:
    del content[_block(content, chance)]


def _zero(content: bytearray, chance: Random) -> None:
    at = _block(content, chance)
    content[at] = bytes(at.stop - at.start)


def _copy(content: bytearray, chance: Random) -> None:
    """One block over another, as a disk that wrote it in the wrong position."""
    source, target = _block(content, chance), _block(content, chance)
    length = min(source.stop - source.start, target.stop - target.start)
    content[target.start : target.start + length] = content[source.start : source.start + length]


def _length(content: bytearray, chance: Random) -> None:
    """Another length of the header."""
    length = int.from_bytes(content[:8], "little")
    other = chance.choice(
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


def changed_json(value: Any, chance: Random) -> Any:
    """Return a copy of a JSON value with one change somewhere in it: another value, or a member more or less."""
    value = copy.deepcopy(value)
    at, within = value, None
    while isinstance(at, dict | list) and at and (within is None or chance.random() < 0.8):
        within = at, chance.choice(list(at) if isinstance(at, dict) else range(len(at)))
        at = at[within[1]]
    if within is None:
        return chance.choice(HOSTILE_VALUES)(chance)
    parent, key = within
    match chance.randrange(5):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, list):
            parent.insert(key, copy.deepcopy(at))
        case 1:
            parent[f"{key}2"] = parent.pop(key)
        case 2 if isinstance(parent, list) and len(parent) > 1:
            other = chance.randrange(len(parent))
            parent[key], parent[other] = parent[other], parent[key]
        case 3 if isinstance(at, int):
            parent[key] = at + chance.choice([-1, 1, 2, 8, 10**6])
        case _:
            parent[key] = chance.choice(HOSTILE_VALUES)(chance)
    return value


def changed_header(content: bytes, number: int) -> tuple[str, bytes]:
    """Return a safetensors file with one change in its header, which stays JSON, and no new digest."""
    chance = Random(number)
    length = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + length]), content[8 + length :]
    names = [name for name in header if name != "__metadata__"]
    way = ("entry", "metadata", "part", "names", "offsets", "spaces", "again")[number % 7]
    match way:
        case "entry":
            name = chance.choice(names)
            header[name] = changed_json(header[name], chance)
        case "metadata":
            header["__metadata__"] = changed_json(header["__metadata__"], chance)
        case "part":
            part = chance.choice([name for name in header["__metadata__"] if name not in ("format", "digest")])
            changed = changed_json(json.loads(header["__metadata__"][part]), chance)
            header["__metadata__"][part] = json.dumps(changed, sort_keys=True)
        case "names" | "offsets":
            one, other = chance.sample(names, 2)
            if way == "offsets":
                header[one]["data_offsets"], header[other]["data_offsets"] = (
                    header[other]["data_offsets"],
                    header[one]["data_offsets"],
                )
            else:
                header[one], header[other] = header[other], header[one]
        case "again":
            header[f"{chance.choice(names)}.again"] = header[chance.choice(names)]
    text = json.dumps(header, indent=1 if way == "spaces" else None).encode()
    return f"header: {way}", len(text).to_bytes(8, "little") + text + rest
