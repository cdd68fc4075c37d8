"""The texts of a check: rows of a table, held-out rows of the run, or drawn texts; and edge cases."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from glassformer.errors import GlassformerError, UsageError
from glassformer.inference.encoding import encode_sources
from glassformer.storage.modelfile import ModelFile
from glassformer.text.inputs import Inputs, Source, SourceLike, as_given, compose, compose_values, example_source

ROWS = 200
DRAWN_LENGTH = 20  # maximum number of tokens of a drawn text
EDGES = {"an empty text": "", "white space": " \t", "an unknown character": "\U0010fffd", "a special token": "<eos>"}


@dataclass(frozen=True)
class CheckRow:
    """A source, its name in messages, and its right answer where one is known."""

    text: Source
    name: str
    target: str | None = None


@dataclass(frozen=True)
class CheckRows:
    """The rows of a check, where they are from, and the inputs of the model where it has several."""

    origin: str
    rows: tuple[CheckRow, ...]
    inputs: Inputs = ()

    @property
    def texts(self) -> list[Source]:
        return [row.text for row in self.rows]

    @property
    def given(self) -> list[str | dict[str, str]]:
        """The sources as a runtime reads them: texts, or objects with the inputs by name."""
        return [as_given(row.text, self.inputs) for row in self.rows]

    @property
    def example(self) -> Source | None:
        """The first source of a row with a right answer that is one line without tabs; None where there is none."""
        sources = (row.text for row in self.rows if row.target is not None)
        return next((source for source in sources if not set("\t\r\n") & set("".join(source))), None)


def pair_rows(
    pairs: Sequence[tuple[SourceLike, str]], names: Sequence[str], origin: str, model_file: ModelFile
) -> CheckRows:
    """Return the first ROWS pairs that the model takes, and the edge cases.

    Raises UsageError when it takes none of them: the edge cases alone would be no check.
    """
    inputs = model_file.source_tokenizer.inputs
    composed = [compose_values(source, name, inputs) for (source, _), name in zip(pairs, names, strict=True)]
    rows = (CheckRow(source, name, target) for source, name, (_, target) in zip(composed, names, pairs, strict=True))
    taken = tuple(islice((row for row in rows if _takes(model_file, row)), ROWS))
    if not taken:
        raise UsageError(
            "the model takes no text of the rows to check on",
            where=origin,
            got=f"{len(pairs):,} rows that are too long or not in the vocabulary",
        )
    return CheckRows(origin, (*taken, *_edges(model_file)), inputs)


def drawn_rows(model_file: ModelFile) -> CheckRows:
    """Return ROWS texts of random tokens of the source vocabulary, and the edge cases."""
    tokenizer, generator = model_file.source_tokenizer, random.Random(0)
    ordinary = list(tokenizer.vocabulary.ordinary.values())
    longest = min(DRAWN_LENGTH, model_file.settings.max_source_tokens)
    drawn = (generator.choices(ordinary, k=generator.randint(1, longest)) for _ in range(ROWS if ordinary else 0))
    texts = (_with_all_inputs(tokenizer.decode(ids), tokenizer.inputs, generator) for ids in drawn)
    rows = (CheckRow(text, f"drawn text {i}") for i, text in enumerate(texts, 1))
    taken = (row for row in rows if _takes(model_file, row))
    return CheckRows("drawn texts", (*taken, *_edges(model_file)), tokenizer.inputs)


def _with_all_inputs(text: str, inputs: Inputs, generator: random.Random) -> Source:
    """Return a source with this text: a further text is its reverse, a feature has up to three drawn symbols."""
    cells = [text]
    for input_ in inputs[1:]:
        n_symbols = generator.randint(1, 3 if input_.cut else 1)
        symbols = generator.choices(input_.symbols or "?", k=n_symbols) if input_.kind == "feature" else [text[::-1]]
        cells.append(input_.cut.join(symbols))
    return compose(cells)


def _edges(model_file: ModelFile) -> Iterator[CheckRow]:
    """Yield the edge cases that the model takes: of texts, and an unknown symbol of each feature."""
    inputs, generator = model_file.source_tokenizer.inputs, random.Random(0)
    rows = [CheckRow(_with_all_inputs(text, inputs, generator), name) for name, text in EDGES.items()]
    for position, feature in enumerate(inputs):
        if feature.kind == "feature":
            cells = [*example_source("a", inputs)]  # of several inputs
            cells[position] += f"{feature.cut} \U0010fffd "
            rows.append(CheckRow(compose(cells), f"an unknown symbol of {feature.name}"))
    return (row for row in rows if _takes(model_file, row))


def _takes(model_file: ModelFile, row: CheckRow) -> bool:
    """Return whether the model takes a text: neither too long, nor with a token that it has no id for."""
    try:
        source = compose_values(row.text, row.name, model_file.source_tokenizer.inputs)
        encode_sources([source], [row.name], model_file.source_tokenizer, model_file.settings)
    except GlassformerError:
        return False
    return True
