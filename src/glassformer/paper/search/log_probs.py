"""The log-probabilities of the next tokens, and what a search does with whole distributions.

Axes: N sentences · K hypotheses of a sentence · C extensions · V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int


SORTED = 512  # up to this number of extensions, all of them are sorted to find the best


class Extensions(NamedTuple):
    """The C best extensions of the hypotheses of each sentence, best first, [N C] each.

    NaN is first. Ties: the lower hypothesis wins, then the lower token, in every engine.
    `sums` are the scores of the longer hypotheses, `newest` the log-probabilities of their last tokens.
    """

    sums: Float[NDArray[Any], "N C"]
    newest: Float[NDArray[Any], "N C"]
    parent: Int[NDArray[Any], "N C"]
    token: Int[NDArray[Any], "N C"]


class LogProbs:
    """Log-probabilities of the next tokens, [N K V]: what is as wide as the vocabulary stays where it was computed."""

    def __init__(self, values: Any) -> None:
        self.values = values  # an array of NumPy; in a subclass, one of another library

    def allowing(self, forbidden: Sequence[int], forced: Mapping[int, int]) -> LogProbs:
        """Return a copy with -inf for the `forbidden` tokens, and for all but the `forced` token of a line.

        The rest is not renormalized, so that scores stay the model's own.
        """
        values = self._copy()
        for token in forbidden:
            values[..., token] = -np.inf
        for line, token in forced.items():
            allowed = values[line, :, token].copy()
            values[line] = -np.inf
            values[line, :, token] = allowed
        return type(self)(values)

    def _copy(self) -> Any:
        return self.values.astype(np.float32)  # the step function may keep its own

    def where(self, allowed: Bool[NDArray[Any], "N K V"]) -> LogProbs:
        """Return a copy with -inf for what is not allowed."""
        return type(self)(np.where(allowed, self.values, np.float32(-np.inf)))

    def best(self, sums: Float[NDArray[Any], "N K"], n: int) -> Extensions:
        """Return the `n` best extensions of hypotheses with these scores (fewer if there are not so many)."""
        n_sentences, _, vocabulary = self.values.shape
        totals = (sums[:, :, None] + self.values).reshape(n_sentences, -1)  # [N K V] -> [N K·V]
        width, lines = totals.shape[1], np.arange(n_sentences)[:, None]
        if width <= max(n, SORTED):  # backward, so that a stable sort gives the lowest of equal ones the highest place
            flat = width - 1 - totals[:, ::-1].argsort(axis=1, kind="stable")[:, : -n - 1 : -1]
        else:
            near = [np.flatnonzero(~(line < np.partition(line, -n)[-n]))[::-1] for line in totals]
            ordered = [places[line[places].argsort(kind="stable")] for line, places in zip(totals, near, strict=True)]
            flat = np.stack([places[: -n - 1 : -1] for places in ordered])
        newest = self.values.reshape(n_sentences, -1)[lines, flat]
        return Extensions(totals[lines, flat], newest, *np.divmod(flat, vocabulary))

    def numpy(self) -> Float[NDArray[Any], "N K V"]:
        return self.values  # type: ignore[no-any-return]
