"""Pairs and texts that a program gives: what is not text is refused in words, with its row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

from glassformer.data.tables import Pair
from glassformer.errors import GlassformerError, UsageError, quoted

PAIR = "a source and a target, both text: (source, target)"


def checked_pairs(pairs: Iterable[Any], name: str = "pairs") -> Iterator[Pair]:
    """Each of the pairs as a Pair. Raises UsageError for what is not two texts, with its row from 1."""
    for row, pair in enumerate(_each(pairs, name, f"a list of pairs, each {PAIR}"), 1):
        texts = () if isinstance(pair, (str, bytes, Mapping, Set)) else _members(pair)
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise UsageError(f"row {row} of the {name} is not a pair", got=quoted(pair), expected=PAIR)
        yield Pair(*texts)


def checked_texts(texts: Iterable[Any], name: str) -> list[str]:
    """The texts as a list. Raises UsageError for what is not text, with its row from 1."""
    checked = []
    for row, text in enumerate(_each(texts, name, "a list of texts"), 1):
        if not isinstance(text, str):
            raise UsageError(f"row {row} of the {name} is not text", got=quoted(text), expected="a str")
        checked.append(text)
    return checked


def check_text(text: object, name: str) -> None:
    """Raise UsageError for what is not text."""
    if not isinstance(text, str):
        raise UsageError(f"the {name} is not text", got=quoted(text), expected="a str")


def _each(values: Any, name: str, expected: str) -> Iterator[Any]:
    """The values one by one. Raises UsageError for what is not a list or the like, and where it ends in an error."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"the {name} come as a list", got=quoted(values), expected=expected)
    row = 0
    values = iter(values)
    while True:
        row += 1
        try:
            value = next(values)
        except StopIteration:
            return
        except GlassformerError:
            raise
        except Exception as error:
            got = f"{type(error).__name__}: {error}"[:200]
            raise UsageError(f"the {name} cannot be read to their end", where=f"row {row}", got=got) from error
        yield value


def _members(pair: Any) -> tuple[Any, ...]:
    """What is in a pair, or nothing where it is not a list or the like."""
    try:
        first, second = pair
    except (TypeError, ValueError):
        return ()
    return first, second
