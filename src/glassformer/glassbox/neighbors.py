"""The nearest tokens of a token, and of A − B + C, by cosine in an embedding.

Candidates are all tokens except `<pad>`, `<bos>`, `<eos>`, `<unk>` and the tokens of the query. Rows of the matrix are
added as they are, without normalization.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import TextError, UsageError, nearest, quoted
from glassformer.storage.hub import local_model
from glassformer.storage.modelfile import ModelFile
from glassformer.text import Tokenizer
from glassformer.text.normalization import normalize

Side = Literal["source", "target"]
Numbers = NDArray[np.float64]
N_NEAREST = 10


@dataclass(frozen=True)
class Neighbor:
    """A token, its id, and the cosine between its row and the query. `is_trained`: the training data has it."""

    token: str
    id: int
    cosine: float
    is_trained: bool = True


@dataclass(frozen=True)
class Expected(Neighbor):
    """The token D that the query A − B + C should find: its rank among the candidates, from 1.

    `difference_cosine` is the cosine between A − B and D − C, or None if one of the two is zero.
    """

    rank: int = 0
    difference_cosine: float | None = None


@dataclass(frozen=True)
class Neighbors:
    """The nearest of `candidates` tokens, the largest cosine first.

    `query` is the token, or A, B and C. `of_query` are the tokens of the query with their own cosines; they are not
    candidates.
    """

    side: Side
    query: tuple[str, ...]
    nearest: tuple[Neighbor, ...]
    of_query: tuple[Neighbor, ...]
    candidates: int
    expected: Expected | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return asdict(self)


def neighbors(model: ModelFile | str | Path, token: str, *, side: Side = "source", count: int = N_NEAREST) -> Neighbors:
    """Return the tokens nearest to `token` by cosine in the embedding of a side.

    Raises TextError for a token that is not in the vocabulary (it names the nearest), and UsageError
    for a row of zeros, which has no cosine.
    """
    return _search(model, side, (token,), count)


def analogy(
    model: ModelFile | str | Path,
    a: str,
    b: str,
    c: str,
    *,
    expected: str | None = None,
    side: Side = "source",
    count: int = N_NEAREST,
) -> Neighbors:
    """Return the tokens nearest to A − B + C: king − man + woman. `expected` is a token whose rank is returned too.

    Raises the errors of `neighbors`, and UsageError if `expected` is not a candidate.
    """
    return _search(model, side, (a, b, c), count, expected)


def _search(
    model: ModelFile | str | Path, side: Side, query: tuple[str, ...], count: int, expected: str | None = None
) -> Neighbors:
    if side not in ("source", "target"):
        raise UsageError("there is no such side", got=quoted(side), expected="source or target")
    if count < 1:
        raise UsageError("the number of neighbors is too small", got=str(count), expected="at least 1")
    file = model if isinstance(model, ModelFile) else ModelFile.load(local_model(model))
    vocabulary, counts = _tokenizer(file, side).vocabulary, file.data.counts(side)
    name = f"{side}_embedding.weight"  # one matrix for both sides has the name of the source
    rows = file.tensors.get(name, file.tensors["source_embedding.weight"]).astype(np.float64)
    ids = [_id_of(token, file, side) for token in query]
    first, *further = rows[ids]
    cosines = _cosines(rows, first - further[0] + further[1] if further else first)
    left_out = {*ids, *vocabulary.specials.values()}
    order = [int(i) for i in np.argsort(-cosines, kind="stable") if int(i) not in left_out]

    def neighbor(i: int) -> Neighbor:
        is_trained = not counts or counts[i] > 0 or i in vocabulary.special_ids
        return Neighbor(vocabulary.pieces[i], i, float(cosines[i]), is_trained)

    token_d = None
    if expected is not None:
        target = _id_of(expected, file, side)
        if target not in order:
            valid = "an ordinary token, which is not in the query"
            raise UsageError(f"{vocabulary.pieces[target]} is not a candidate", expected=valid)
        difference = _cosine(first - further[0], rows[target] - further[1])
        token_d = Expected(**asdict(neighbor(target)), rank=order.index(target) + 1, difference_cosine=difference)
    nearest = tuple(map(neighbor, order[:count]))
    return Neighbors(side, query, nearest, tuple(map(neighbor, ids)), len(order), token_d)


def _tokenizer(file: ModelFile, side: str) -> Tokenizer:
    return file.source_tokenizer if side == "source" else file.target_tokenizer


def _id_of(token: str, file: ModelFile, side: Side) -> int:
    """Return the id of a token in its written form; an ordinary token has priority over a special one."""
    tokenizer, other_side = _tokenizer(file, side), "target" if side == "source" else "source"
    token_id = _lookup(tokenizer, token)
    if token_id is None:
        is_other = _lookup(_tokenizer(file, other_side), token) is not None
        raise TextError(
            f"the token is not in the {side} vocabulary",
            got=quoted(token),
            expected=f"one of {len(tokenizer):,} tokens; {nearest(token, tokenizer.vocabulary.ordinary)}",
            hint=f"the {other_side} vocabulary has it: --side {other_side}"
            if is_other
            else "`glassformer tokens MODEL TEXT` prints the tokens of a text",
        )
    return token_id


def _cosines(rows: Numbers, query: Numbers) -> Numbers:
    """Return the cosine of each row; 0 for a row of zeros. Raises UsageError if the query is zero."""
    length = np.linalg.norm(query)
    if length == 0:
        raise UsageError("the query is a vector of zeros, which has no cosine with any token")
    lengths = np.linalg.norm(rows, axis=1)
    cosines: Numbers = (rows @ query) / np.where(lengths > 0, lengths * length, 1.0)
    return cosines


def _cosine(a: Numbers, b: Numbers) -> float | None:
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / lengths if lengths else None


def _lookup(tokenizer: Tokenizer, token: str) -> int | None:
    """Return the id of a token as it is written, or as the tokenizer normalizes it."""
    vocabulary = tokenizer.vocabulary
    written = {piece: i for i, piece in reversed(list(enumerate(vocabulary.pieces)))}
    forms = (token, normalize(token, tokenizer.settings))
    ids = (token_id for form in forms for token_id in (vocabulary.lookup(form), written.get(form)))
    return next((token_id for token_id in ids if token_id is not None), None)
