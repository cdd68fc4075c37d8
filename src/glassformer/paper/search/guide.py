"""Answers of a form: a search among the texts that an automaton accepts.

The automaton reads an answer token by token, and each hypothesis has its state, one number. A guided step function
gives the tokens that it does not allow a probability of 0, so that greedy search, beam and sampling stay as they are.

Axes: N sentences · K hypotheses of a sentence · V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from glassformer.paper.search.log_probs import LogProbs

if TYPE_CHECKING:
    from jaxtyping import Bool, Int


class Automaton(Protocol):
    """States are numbers. There is one for hypotheses that have ended or are not accepted: it allows `<eos>`."""

    def allowed(self, states: Int[NDArray[Any], "N K"], n_left: int) -> Bool[NDArray[Any], "N K V"]:
        """Return which tokens can be next where at most `n_left` tokens follow them: `<eos>` where an answer may end.

        Where any answer is possible, at least one token is allowed: a search among these tokens always finds an answer.
        """
        ...

    def after(self, states: Int[NDArray[Any], "N K"], tokens: Int[NDArray[Any], "N K"]) -> Int[NDArray[Any], "N K"]:
        """Return the states after these tokens, also where they are not allowed."""
        ...


@dataclass(frozen=True)
class Guide:
    """An automaton, and the state at the start of the answer to each sentence."""

    automaton: Automaton
    starts: Sequence[int]

    def of(self, rows: Sequence[int]) -> Guide:
        """Return the guide of some of the sentences."""
        return replace(self, starts=[self.starts[row] for row in rows])

    def guided(self, step: Callable[..., Any], state: Any, max_new_tokens: int) -> tuple[Callable[..., Any], Any]:
        """Return a step function that gives tokens that are not allowed the log-probability -inf, and its state."""

        def step_allowed(last: NDArray[np.int64], state: _Guided) -> tuple[LogProbs, _Guided]:
            is_first = state.n_left == max_new_tokens
            states = state.states if is_first else self.automaton.after(state.states, last)
            log_probs, inner = step(last, state.inner)
            allowed = self.automaton.allowed(states, state.n_left - 1)
            return log_probs.where(allowed), _Guided(inner, states, state.n_left - 1)

        return step_allowed, _Guided(state, np.array(self.starts)[:, None], max_new_tokens)


@dataclass(frozen=True)
class _Guided:
    """The state of a guided step: `inner` is the model's, `states` are the automaton's; `n_left` tokens may come."""

    inner: Any
    states: NDArray[np.int64]  # [N K]
    n_left: int

    def select(self, rows: NDArray[np.int64]) -> _Guided:
        return replace(self, inner=self.inner.select(rows), states=self.states.reshape(-1)[rows])
