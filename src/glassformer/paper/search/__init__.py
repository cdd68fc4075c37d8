"""Search over a step function: greedy, beam, sampling. The search never sees a model, so a lambda can test it."""

from glassformer.paper.search.beam import beam_search
from glassformer.paper.search.constraints import (
    Hypothesis,
    SearchConstraints,
    State,
    Step,
    best_first,
    check_token_scores,
    length_penalty,
    rank_key,
)
from glassformer.paper.search.greedy import greedy_search
from glassformer.paper.search.guide import Automaton, Guide
from glassformer.paper.search.log_probs import Extensions, LogProbs
from glassformer.paper.search.sampling import sample

__all__ = [
    "Automaton",
    "Extensions",
    "Guide",
    "Hypothesis",
    "LogProbs",
    "SearchConstraints",
    "State",
    "Step",
    "beam_search",
    "best_first",
    "check_token_scores",
    "greedy_search",
    "length_penalty",
    "rank_key",
    "sample",
]
