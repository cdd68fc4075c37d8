"""The rows of a table that are nearest to an answer: probably those that taught it.

The output projection turns the decoder's last state into the next token, so that rows whose states are near made the
model write this token here (as in kNN-MT, Khandelwal et al. 2021, which predicts from the nearest states). A state is
what the projection reads before a token of the target, with the tokens before it given; nearness is the cosine.

A row is as near as the mean, over the tokens of the answer, of its own nearest state. Nearness is no proof: only
training without a row shows what it taught.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.tables import Table
from glassformer.errors import UsageError
from glassformer.inference.encoding import encode_sources
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.inference.translator import Translator
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text.inputs import is_not_empty, readable

States = NDArray[np.float32]  # [T D]
BLOCK = 10_000  # rows whose states are in memory at a time


@dataclass(frozen=True)
class NearRow:
    """A row of the table, its file and number, and its mean cosine with the answer."""

    file: str
    row: int
    source: str
    target: str
    cosine: float


@dataclass(frozen=True)
class NearState:
    """A token of the answer, the row with the nearest state, its cosine, and the token that the row has there."""

    token: str
    file: str
    row: int
    cosine: float
    token_of_row: str


@dataclass(frozen=True)
class NearRows:
    """The rows nearest to an answer, the nearest first, of `n_rows`; and the nearest state for each of its tokens."""

    source: str
    answer: str
    n_rows: int
    rows: tuple[NearRow, ...]
    tokens: tuple[NearState, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return asdict(self)


def near_rows(
    model: ModelFile, source: str | Mapping[str, str], table: Table, *, target: str | None = None, count: int = 10
) -> NearRows:
    """Return the rows of a table that are nearest to the answer of a model to a source, or to another `target`.

    The table was read with the columns of the model. Raises the errors of `Translator.translate` and
    `Translator.score`, and UsageError for an empty source.
    """
    translator = Translator(model, device="cpu", engine="numpy")
    (text,) = translator.sources_of([source])
    if not is_not_empty(text, translator.inputs):
        raise UsageError("there is no text to explain", expected="a text that is not empty")
    answer = translator.translate([text])[0].text if target is None else target
    ((_, query),) = _states(translator, [(text, answer)], ["the text"])
    query = _unit(query)
    tokens = _tokens(translator, answer)
    best: list[tuple[float, int]] = []
    nearest = [(-2.0, 0, 0)] * len(tokens)  # cosine, index, position
    for index, states in _states_of_table(translator, table):
        cosines = query @ _unit(states).T  # [T of the answer, T of the row]
        positions = cosines.argmax(axis=1)
        of_tokens = cosines.max(axis=1)
        push = heapq.heappush if len(best) < count else heapq.heappushpop
        push(best, (float(of_tokens.mean()), -index))
        for i in np.flatnonzero(of_tokens > [cosine for cosine, *_ in nearest]).tolist():
            nearest[i] = (float(of_tokens[i]), index, int(positions[i]))
    order = [(-number, cosine) for cosine, number in sorted(best, reverse=True)]
    return NearRows(
        source=readable(text, translator.inputs),
        answer=answer,
        n_rows=len(table.pairs),
        rows=tuple(
            NearRow(
                *(table.file(index), table.rows[index]),
                source=readable(table.pairs[index].source, translator.inputs),
                target=table.pairs[index].target,
                cosine=cosine,
            )
            for index, cosine in order
        ),
        tokens=tuple(
            NearState(
                *(token, table.file(index), table.rows[index], cosine),
                token_of_row=_tokens(translator, table.pairs[index].target)[position],
            )
            for token, (cosine, index, position) in zip(tokens, nearest, strict=True)
        ),
    )


def _tokens(translator: Translator, target: str) -> list[str]:
    tokenizer = translator.target_tokenizer
    return list(tokenizer.tokens(tokenizer.frame(tokenizer.encode(target))[1:]))


def _states_of_table(translator: Translator, table: Table) -> Iterator[tuple[int, States]]:
    for start in range(0, len(table.pairs), BLOCK):
        rows = range(start, min(start + BLOCK, len(table.pairs)))
        pairs, names = [table.pairs[row] for row in rows], [table.location(row) for row in rows]
        yield from ((start + number, states) for number, states in _states(translator, pairs, names))


def _states(
    translator: Translator, pairs: Sequence[tuple[str, str]], names: Sequence[str]
) -> Iterator[tuple[int, States]]:
    """Yield the states of the decoder for each pair, by its number; `names` name the pairs in errors."""
    engine, target = translator.engine, translator.target_tokenizer
    assert isinstance(engine, NumPyEngine)
    sources = encode_sources([pair[0] for pair in pairs], names, translator.source_tokenizer, translator.settings)
    targets = [target.frame(target.encode(pair[1], where=name)) for pair, name in zip(pairs, names, strict=True)]
    return engine.states(list(zip(sources, targets, strict=True)))


def _unit(states: States) -> States:
    """Return states of length 1, so that products are cosines."""
    return states / np.linalg.norm(states, axis=1, keepdims=True)  # type: ignore[no-any-return]
