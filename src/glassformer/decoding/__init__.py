"""Search over a step function: greedy, beam, sampling. The search never sees a model, so a lambda can test it."""

from glassformer.decoding.beam import beam_search
from glassformer.decoding.constraints import (
    Hypothesis,
    SearchConstraints,
    State,
    Step,
    best_first,
    check_token_scores,
    length_penalty,
    rank_key,
)
from glassformer.decoding.greedy import greedy_search
from glassformer.decoding.greedy_first import (
    AnswerBatches,
    GreedyFirst,
    OnAnswers,
    collect,
    is_certain,
    search_greedy_first,
)
from glassformer.decoding.sampling import sample

__all__ = [
    "AnswerBatches",
    "GreedyFirst",
    "Hypothesis",
    "OnAnswers",
    "SearchConstraints",
    "State",
    "Step",
    "beam_search",
    "best_first",
    "check_token_scores",
    "collect",
    "greedy_search",
    "is_certain",
    "length_penalty",
    "rank_key",
    "sample",
    "search_greedy_first",
]
