"""A finite automaton over token ids as a table of its transitions: the `Automaton` of a guided search."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from glassformer.paper.search import Automaton

Array = NDArray[Any]

FAR = 2**31
"""The distance of a state from which no answer ends within the limit."""
ROW_BYTES = 2**26
"""Maximum size of the rows of `allowed` that are kept: 64 MiB."""


@final
class TokenTable(Automaton):
    """States from 0, and `over`, the state of a hypothesis that has ended or is not accepted.

    `distance` is the minimum number of tokens from a state to the end of an answer, without `<eos>`; FAR where it is
    more than `longest`.
    """

    def __init__(
        self, transitions: Array, finals: Iterable[int], n_states: int, *, n_tokens: int, eos_id: int, longest: int
    ) -> None:
        """Create a table of `transitions` [E, 3]: state, token, next state; each state and token is there once."""
        self.over, self._n_tokens, self._eos_id = n_states, n_tokens, eos_id
        sources, tokens, targets = transitions.astype(np.int64).reshape(-1, 3).T
        self.distance = _distances(sources, targets, list(finals), n_states, longest)
        live = self.distance[targets] < FAR
        order = np.lexsort((tokens[live], sources[live]))
        sources, self._tokens, self._targets = (values[live][order] for values in (sources, tokens, targets))
        self._starts = np.searchsorted(sources, np.arange(n_states + 2))  # of the transitions of each state
        self._keys = sources * n_tokens + self._tokens
        self._reach = np.zeros(n_states + 1, np.int64)  # more tokens than these change nothing in a state
        np.maximum.at(self._reach, sources, self.distance[self._targets])
        self._row = functools.lru_cache(max(1, ROW_BYTES // n_tokens))(self._compute_row)

    def allowed(self, states: Array, n_left: int) -> Array:
        """Return what `Automaton.allowed` does: a token from whose state an answer can end within `n_left` more."""
        distinct, lines = np.unique(states, return_inverse=True)
        left = self._reach[distinct].clip(max=n_left)
        rows: Array = np.stack([self._row(state, n) for state, n in zip(distinct.tolist(), left.tolist(), strict=True)])
        return rows[lines.reshape(states.shape)]

    def after(self, states: Array, tokens: Array) -> Array:
        """Return what `Automaton.after` does."""
        if not len(self._keys):
            return np.full_like(states, self.over)
        keys = states * self._n_tokens + tokens
        places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
        return np.where(self._keys[places] == keys, self._targets[places], self.over)

    def walk(self, state: int, tokens: Sequence[int]) -> int:
        """Return the state after some tokens."""
        for token in tokens:
            state = int(self.after(np.array([state]), np.array([token]))[0])
        return state

    def _compute_row(self, state: int, n_left: int) -> Array:
        row = np.zeros(self._n_tokens, np.bool_)
        transitions = slice(self._starts[state], self._starts[state + 1])
        row[self._tokens[transitions][self.distance[self._targets[transitions]] <= n_left]] = True
        row[self._eos_id] = state == self.over or self.distance[state] == 0
        return row


def _distances(sources: Array, targets: Array, finals: Sequence[int], n_states: int, longest: int) -> Array:
    """Return the minimum number of transitions from each state to one of `finals`, and FAR for the state after all."""
    distance = np.full(n_states + 1, FAR)
    reached = np.unique(np.array(finals, dtype=np.int64))
    distance[reached] = 0
    order = np.argsort(targets, kind="stable")
    into = sources[order]  # the sources of the transitions into state s are into[starts[s] : starts[s + 1]]
    starts = np.searchsorted(targets[order], np.arange(n_states + 1))
    for length in range(1, longest + 1):
        counts = starts[reached + 1] - starts[reached]
        offsets = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        before = into[np.repeat(starts[reached], counts) + offsets]
        reached = np.unique(before[distance[before] == FAR])
        if not len(reached):
            break
        distance[reached] = length
    return distance
