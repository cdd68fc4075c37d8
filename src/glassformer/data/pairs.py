"""A pair of texts, the fingerprint of many, and checks of pairs and texts from Python, whose errors name the row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any, NamedTuple

from glassformer.errors import UsageError, quoted
from glassformer.text.inputs import Cells, Inputs, Source, compose_values, joined

PAIR = "a source and a target, both text: (source, target)"


class Pair(NamedTuple):
    """One example: a source and its target text."""

    source: Source
    target: str


# Fingerprints


def fingerprint(pairs: Iterable[tuple[Source, str]]) -> str:
    """Return the SHA-256 (hex) of the pairs in order. Lengths are included, so that texts cannot merge."""
    digest = hashlib.sha256()
    for source, target in pairs:
        source_bytes = joined(source).encode("utf-8", "surrogatepass")
        target_bytes = target.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%d:%b%b" % (len(source_bytes), len(target_bytes), source_bytes, target_bytes))
    return digest.hexdigest()


# Values from Python


def checked_pairs(pairs: object, *, inputs: Inputs = ()) -> Iterator[Pair]:
    """Yield each of the pairs as a Pair. Raises UsageError, with the row from 1, for a pair that is not two texts.

    With `inputs` the first member of a pair is a mapping, and TextError is raised for a mapping that lacks an input.
    """
    for where, source, target in members(pairs):
        yield text_pair(where, compose_values(source, where, inputs) if inputs else source, target, inputs)


def members(pairs: object) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of the row and the two members of each pair. Raises UsageError for another number of members."""
    for row, pair in enumerate(_values(pairs, "pairs", f"a list of pairs, each {PAIR}"), 1):
        where = f"row {row} of the pairs"
        try:
            if isinstance(pair, (str, bytes, Mapping, Set)):
                raise TypeError
            source, target = pair
        except (TypeError, ValueError):
            raise _not_a_pair(where, pair) from None
        yield where, source, target


def text_pair(where: str, source: object, target: object, inputs: Inputs) -> Pair:
    """Return two members of a pair as a Pair. Raises UsageError when one of them is not text."""
    if isinstance(source, Cells if inputs else str) and isinstance(target, str):
        return Pair(source, target)
    raise _not_a_pair(where, (source, target))


def _not_a_pair(where: str, pair: object) -> UsageError:
    return UsageError(f"{where} is not a pair", got=quoted(pair), expected=PAIR)


def checked_texts(texts: Iterable[Any], name: str) -> list[str]:
    """Return the texts as a list. Raises UsageError, with the row from 1, for a value that is not text."""
    checked = []
    for row, text in enumerate(_values(texts, name, "a list of texts"), 1):
        if not isinstance(text, str):
            raise UsageError(f"row {row} of the {name} is not text", got=quoted(text), expected="a str")
        checked.append(text)
    return checked


def check_text(text: object, name: str) -> None:
    """Raise UsageError unless `text` is a str."""
    if not isinstance(text, str):
        raise UsageError(f"the {name} is not text", got=quoted(text), expected="a str")


def _values(values: Any, name: str, expected: str) -> Iterator[Any]:
    """Yield the values. Raises UsageError when they are not iterable, or are text."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"the {name} are not a list", got=quoted(values), expected=expected)
    yield from values
