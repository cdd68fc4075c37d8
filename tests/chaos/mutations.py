"""Files that were damaged or changed, each by its number: the same number gives the same file again."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

BLOCKS = (1, 4, 8, 64, 512, 4096)  # bytes of words, sectors and pages, which are lost or written twice at once
WAYS = ("bits", "truncate", "append", "insert", "duplicate", "delete", "zero", "copy", "length")
"""Ways to damage a file. The last one, another length of the header, is for safetensors."""

HOSTILE_VALUES: tuple[Callable[[Random], Any], ...] = (
    lambda drawn: drawn.choice([0, 1, -1, 7, 2**31, 2**32, 2**53, 2**63, 2**64, -(2**63), 10**30]),
    lambda drawn: drawn.choice([0.0, -0.0, 0.5, -1.5, 1e-300, 1e300, 5e-324]),
    lambda drawn: drawn.choice(["", "a", "\ud800", "\0", "<eos>", "glassformer-model/2", "x" * 10_000]),
    lambda drawn: drawn.choice([None, True, False, [], {}, [[]] * 1000, {"a": {"b": []}}]),
    lambda drawn: drawn.choice([[0], [-1, 2], ["a", "a"], [1.5], [2**53] * 3, {"": 0}]),
)


def mutated(content: bytes, number: int, *, is_tensors: bool) -> tuple[str, bytes]:
    """Return the name of a mutation and the bytes; of three of safetensors, one has another header that is JSON."""
    if is_tensors and number % 3 == 0:
        return changed_header(content, number // 3)
    return damaged(content, number, is_tensors=is_tensors)


def damaged(content: bytes, number: int, *, is_tensors: bool) -> tuple[str, bytes]:
    """Return the name of a way to damage a file, and the bytes."""
    ways, drawn, found = WAYS if is_tensors else WAYS[:-1], Random(number), bytearray(content)
    way = ways[number % len(ways)] if content else "append"

    def block() -> slice:
        start = drawn.randrange(len(found))
        return slice(start, min(len(found), start + drawn.choice(BLOCKS)))

    match way:
        case "bits":
            for _ in range(drawn.choice([1, 2, 50])):
                found[drawn.randrange(len(found))] ^= 1 << drawn.randrange(8)
        case "truncate":
            del found[drawn.randrange(len(found)) :]
        case "append":
            found += drawn.randbytes(drawn.randint(1, 1024))
        case "insert":
            at = block()
            found[at.start : at.start] = drawn.randbytes(at.stop - at.start)
        case "duplicate":
            at = block()
            found[at.start : at.start] = found[at]
        case "delete":
            del found[block()]
        case "zero":
            at = block()
            found[at] = bytes(at.stop - at.start)
        case "copy":  # one block over another, as a disk that wrote it in the wrong position
            source, target = block(), block()
            length = min(source.stop - source.start, target.stop - target.start)
            found[target.start : target.start + length] = found[source.start : source.start + length]
        case "length":
            length = int.from_bytes(found[:8], "little")
            others = [0, 1, 2, length - 1, length + 1, length + 8, len(found), 10**8, 10**8 + 1, 2**63, 2**64 - 1]
            found[:8] = drawn.choice(others).to_bytes(8, "little")
    return way, bytes(found)


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
            for field in list(header[one]) if way == "names" else ["data_offsets"]:
                header[one][field], header[other][field] = header[other][field], header[one][field]
        case "again":
            header[f"{drawn.choice(names)}.again"] = header[drawn.choice(names)]
    text = json.dumps(header, indent=1 if way == "spaces" else None).encode()
    return f"header: {way}", len(text).to_bytes(8, "little") + text + rest
