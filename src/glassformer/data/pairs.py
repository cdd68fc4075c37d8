"""Checks of pairs and texts passed from Python; an error names the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from typing import Any

from glassformer.data.tables import Pair
from glassformer.errors import GlassformerError, UsageError, quoted
from glassformer.text.inputs import Inputs, compose_values

PAIR = "a source and a target, both text: (source, target)"


def checked_pairs(
    pairs: object,
    name: str = "pairs",
    *,
    inputs: Inputs = (),
    source_of: Callable[[Any, str], str] | None = None,
) -> Iterator[Pair]:
    """Yield each of the pairs as a Pair. Raises UsageError, with the row from 1, for one that is not two texts.

    With `inputs` the first member of a pair is a mapping, and TextError is raised for one that lacks an input.
    `source_of` returns the source from the first member and the name of the row, by default with `compose_values`.
    """
    if inputs and source_of is None:
        source_of = partial(compose_values, inputs=inputs)
    for row, pair in enumerate(_values(pairs, name, f"a list of pairs, each {PAIR}"), 1):
        texts = () if isinstance(pair, (str, bytes, Mapping, Set)) else _members(pair)
        if source_of and len(texts) == 2:
            texts = source_of(texts[0], f"row {row} of the {name}"), texts[1]
        if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
            raise UsageError(f"row {row} of the {name} is not a pair", got=quoted(pair), expected=PAIR)
        yield Pair(*texts)


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
    """Yield the values. Raises UsageError when they are not iterable or text, and when the iteration fails."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"the {name} are not a list", got=quoted(values), expected=expected)
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
            raise UsageError(f"reading the {name} failed", where=f"row {row}", got=got) from error
        yield value


def _members(pair: Any) -> tuple[Any, ...]:
    """Return the two members of a pair, or nothing when it does not have two."""
    try:
        first, second = pair
    except (TypeError, ValueError):
        return ()
    return first, second
