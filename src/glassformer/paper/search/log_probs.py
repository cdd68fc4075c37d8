"""The log-probabilities of the next tokens, and what a search does with whole distributions.

Axes: N sentences · K hypotheses of a sentence · C extensions · V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jaxtyping import Float, Int


class Extensions(NamedTuple):
    """The C best extensions of the hypotheses of each sentence, best first, [N C] each.

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

        The others are not renormalized, so that scores are those of the model.
        """
        values = self.values.astype(np.float32)  # a copy: the step function may keep its own
        if forbidden:
            values[..., list(forbidden)] = -np.inf
        for line, token in forced.items():
            allowed = values[line, :, token].copy()
            values[line] = -np.inf
            values[line, :, token] = allowed
        return LogProbs(values)

    def best(self, sums: Float[NDArray[Any], "N K"], n: int) -> Extensions:
        """Return the `n` best extensions of hypotheses with these scores (fewer if there are not so many)."""
        n_sentences, _, vocabulary = self.values.shape
        totals = (sums[:, :, None] + self.values).reshape(n_sentences, -1)
        lines = np.arange(n_sentences)[:, None]
        if n == 1:
            flat = totals.argmax(axis=1)[:, None]
        else:
            first = max(0, totals.shape[1] - n)
            flat = totals.argpartition(first, axis=1)[:, first:] if first else np.arange(totals.shape[1])[None]
            order = totals[lines, flat].argsort(axis=1)[:, ::-1]  # NaN is first
            flat = np.broadcast_to(flat, order.shape)[lines, order]
        parent, token = np.divmod(flat, vocabulary)
        return Extensions(totals[lines, flat], self.values[lines, parent, token], parent, token)

    def numpy(self) -> Float[NDArray[Any], "N K V"]:
        return self.values  # type: ignore[no-any-return]
