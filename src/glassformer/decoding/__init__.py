"""Search over a step function: greedy, beam, sampling. The search never sees a model, so a lambda can test it."""

from glassformer.decoding.beam import beam_search
from glassformer.decoding.certain import Found, Tell, collect, decode_certain_first, is_certain
from glassformer.decoding.greedy import greedy_search
from glassformer.decoding.sampling import sample
from glassformer.decoding.space import Hypothesis, SearchSpace, State, Step, length_penalty

__all__ = [
    "Found",
    "Hypothesis",
    "SearchSpace",
    "State",
    "Step",
    "Tell",
    "beam_search",
    "collect",
    "decode_certain_first",
    "greedy_search",
    "is_certain",
    "length_penalty",
    "sample",
]
