"""The nearest tokens of a token, and of A − B + C, by cosine in an embedding.

Candidates are all tokens except `<pad>`, `<bos>`, `<eos>` and `<unk>`, and except the tokens of the query. Sums are of
the rows as they are in the matrix, without normalization.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import TextError, UsageError, nearest, quoted
from glassformer.ship.storage.hub import local_model
from glassformer.ship.storage.modelfile import ModelFile
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
    embedding = _Embedding.of(model, side)
    return embedding.search((token,), (embedding.id_of(token),), count)


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

    Raises the errors of `neighbors`, and UsageError if `expected` is one of the three.
    """
    embedding = _Embedding.of(model, side)
    ids = tuple(map(embedding.id_of, (a, b, c)))
    target = None if expected is None else embedding.id_of(expected)
    if target in ids:
        raise UsageError("the expected token is one of the three, which are not candidates", got=quoted(expected))
    return embedding.search((a, b, c), ids, count, target)


@dataclass(frozen=True)
class _Embedding:
    """The embedding of a side `[V d]`, in float64."""

    side: Side
    tokenizer: Tokenizer
    other: Tokenizer
    rows: Numbers
    counts: Sequence[int]

    @classmethod
    def of(cls, model: ModelFile | str | Path, side: Side) -> _Embedding:
        if side not in ("source", "target"):
            raise UsageError("there is no such side", got=quoted(side), expected="source or target")
        file = model if isinstance(model, ModelFile) else ModelFile.load(local_model(model))
        tokenizers = (file.source_tokenizer, file.target_tokenizer)
        name = f"{side}_embedding.weight"  # one matrix for both sides has the name of the source
        rows = file.tensors.get(name, file.tensors["source_embedding.weight"]).astype(np.float64)
        return cls(side, *(tokenizers if side == "source" else tokenizers[::-1]), rows, file.data.counts(side))

    def id_of(self, token: str) -> int:
        """Return the id of a token in its written form; an ordinary token has priority over a special one."""
        found = _lookup(self.tokenizer, token)
        if found is None:
            other = "target" if self.side == "source" else "source"
            is_other = _lookup(self.other, token) is not None
            raise TextError(
                f"the token is not in the {self.side} vocabulary",
                got=quoted(token),
                expected=f"one of {len(self.tokenizer):,} tokens; {nearest(token, self.tokenizer.vocabulary.ordinary)}",
                hint=f"the {other} vocabulary has it: --side {other}"
                if is_other
                else "`glassformer tokens MODEL TEXT` prints the tokens of a text",
            )
        return found

    def search(self, query: tuple[str, ...], ids: Sequence[int], count: int, expected: int | None = None) -> Neighbors:
        if count < 1:
            raise UsageError("the number of neighbors is too small", got=str(count), expected="at least 1")
        first, *others = (self.rows[i] for i in ids)
        cosines = self._cosines(first - others[0] + others[1] if others else first)
        vocabulary = self.tokenizer.vocabulary
        left_out = {*ids, *vocabulary.specials.values()}
        order = [int(i) for i in np.argsort(-cosines, kind="stable") if int(i) not in left_out]

        def neighbor(i: int) -> Neighbor:
            is_trained = not self.counts or self.counts[i] > 0 or i in vocabulary.special_ids
            return Neighbor(vocabulary.pieces[i], i, float(cosines[i]), is_trained)

        found = None
        if expected is not None:
            if expected not in order:
                raise UsageError(f"{vocabulary.pieces[expected]} is not a candidate", expected="an ordinary token")
            difference = _cosine(self.rows[ids[0]] - self.rows[ids[1]], self.rows[expected] - self.rows[ids[2]])
            found = Expected(**asdict(neighbor(expected)), rank=order.index(expected) + 1, difference_cosine=difference)
        nearest = tuple(map(neighbor, order[:count]))
        return Neighbors(self.side, query, nearest, tuple(map(neighbor, ids)), len(order), found)

    def _cosines(self, query: Numbers) -> Numbers:
        """Return the cosine of each row; 0 for a row of zeros. Raises UsageError if the query is zero."""
        length = np.linalg.norm(query)
        if length == 0:
            raise UsageError("the query is a vector of zeros, which has no cosine with any token")
        lengths = np.linalg.norm(self.rows, axis=1)
        cosines: Numbers = (self.rows @ query) / np.where(lengths > 0, lengths * length, 1.0)
        return cosines


def _cosine(one: Numbers, other: Numbers) -> float | None:
    lengths = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / lengths if lengths else None


def _lookup(tokenizer: Tokenizer, token: str) -> int | None:
    """Return the id of a token as it is written, or as the tokenizer normalizes it."""
    vocabulary = tokenizer.vocabulary
    written = {piece: i for i, piece in reversed(list(enumerate(vocabulary.pieces)))}
    for form in (token, normalize(token, tokenizer.settings)):
        found = vocabulary.lookup(form)
        if found is None:
            found = written.get(form)
        if found is not None:
            return found
    return None
