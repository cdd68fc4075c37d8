"""The texts of a check: rows of a table, held-out rows of the run, or drawn texts; and edge cases."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from glassformer.errors import GlassformerError, UsageError
from glassformer.modelfile import ModelFile
from glassformer.translator import encode_sources

ROWS = 200
DRAWN_LENGTH = 20  # maximum number of tokens of a drawn text
EDGES = {"an empty text": "", "white space": " \t", "an unknown character": "\U0010fffd", "a special token": "<eos>"}


@dataclass(frozen=True)
class Row:
    """A text, its name in messages, and its right answer where one is known."""

    text: str
    name: str
    target: str | None = None


@dataclass(frozen=True)
class Rows:
    """The rows of a check, and where they are from."""

    origin: str
    rows: tuple[Row, ...]

    @property
    def texts(self) -> list[str]:
        return [row.text for row in self.rows]


def pair_rows(pairs: Sequence[tuple[str, str]], names: Sequence[str], origin: str, model_file: ModelFile) -> Rows:
    """Return the first ROWS pairs that the model takes, and the edge cases.

    Raises UsageError when it takes none of them: the edge cases alone would be no check.
    """
    rows = (Row(source, name, target) for (source, target), name in zip(pairs, names, strict=True))
    taken = tuple(islice(_taken(rows, model_file), ROWS))
    if not taken:
        raise UsageError(
            "the model takes no text of the rows to check on",
            where=origin,
            got=f"{len(pairs):,} rows that are too long or not in the vocabulary",
        )
    return Rows(origin, (*taken, *_edges(model_file)))


def drawn_rows(model_file: ModelFile) -> Rows:
    """Return ROWS texts of random tokens of the source vocabulary, and the edge cases."""
    tokenizer, generator = model_file.source_tokenizer, random.Random(0)
    ordinary = list(tokenizer.vocabulary.ordinary.values())
    longest = min(DRAWN_LENGTH, model_file.settings.max_source_tokens)
    drawn = (generator.choices(ordinary, k=generator.randint(1, longest)) for _ in range(ROWS if ordinary else 0))
    rows = (Row(tokenizer.decode(ids), f"drawn text {i}") for i, ids in enumerate(drawn, 1))
    return Rows("drawn texts", (*_taken(rows, model_file), *_edges(model_file)))


def _edges(model_file: ModelFile) -> Iterator[Row]:
    return _taken((Row(text, name) for name, text in EDGES.items()), model_file)


def _taken(rows: Iterable[Row], model_file: ModelFile) -> Iterator[Row]:
    return (row for row in rows if _takes(model_file, row))


def _takes(model_file: ModelFile, row: Row) -> bool:
    """Return whether the model takes a text: neither too long, nor with a token that it has no id for."""
    try:
        encode_sources([row.text], [row.name], model_file.source_tokenizer, model_file.settings)
    except GlassformerError:
        return False
    return True
