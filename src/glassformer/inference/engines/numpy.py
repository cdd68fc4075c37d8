"""The engine of a CPU: search in float32, for one text or many, compiled or, without a C compiler, in NumPy.

Samples are always drawn for each text alone; other searches see to the same answer in any batch (`searches`).

Axes: N sentences · K hypotheses of a sentence · V vocabulary.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.inference.engines.batches import on_every_core, padded_length, plan_equal_lengths
from glassformer.inference.engines.compiled import Compiled, CompiledLogProbs, prepare_inference
from glassformer.inference.engines.greedy_first import AnswerBatches
from glassformer.inference.engines.numpy_cached import NumPyInference
from glassformer.inference.engines.searches import Caches, Searches
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.search import Guide, LogProbs, SearchConstraints, check_token_scores
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Float

Array = NDArray[Any]

CORE_WIDTH = 6  # a hypothesis is planned as so many: smaller batches stay in the caches of a core


class NumPyEngine:
    """Searches and scores with a Transformer, or with the mean of the probabilities of several (an ensemble)."""

    def __init__(self, models: Sequence[NumPyInference | Compiled], target: Tokenizer) -> None:
        self.models, vocabulary = models, target.vocabulary
        self.bos_id, self.eos_id, self.forbidden = vocabulary.bos_id, vocabulary.eos_id, vocabulary.forbidden_ids
        limits = [limit for model in models if (limit := model.settings.n_positions) is not None]
        self._n_positions = min(limits, default=None)
        self._is_compiled = all(isinstance(model, Compiled) for model in models)
        self._log_probs_type = CompiledLogProbs if self._is_compiled else LogProbs
        self.on_every_core = functools.partial(on_every_core, needs_blas=not self._is_compiled)

    @classmethod
    def of_files(cls, model_files: Sequence[ModelFile]) -> NumPyEngine:
        """Create the engine of model files, which share their vocabularies."""
        models = [prepare_inference(file.settings.model, file.tensors) for file in model_files]
        return cls(models, model_files[0].target_tokenizer)

    def answers(
        self,
        sources: Sequence[Sequence[int]],
        decoding: DecodingSettings,
        max_new_tokens: int,
        prefixes: Sequence[Sequence[int]] = (),
        guide: Guide | None = None,
        rows: Sequence[int] | None = None,
    ) -> AnswerBatches:
        """Yield the answers of `Engine.answers`."""
        longest = min(max_new_tokens, self._n_positions or max_new_tokens)
        constraints = SearchConstraints(self.bos_id, self.eos_id, self.forbidden, longest, prefixes, guide)
        searches = Searches(self.start, self.step, sources, decoding, constraints, self._is_compiled)
        batches = searches.batches(CORE_WIDTH, rows)
        search_batch = np.errstate(all="ignore")(searches)
        for batch, answers in zip(batches, self.on_every_core(search_batch, batches), strict=True):
            yield dict(zip(batch, answers, strict=True))

    def start(self, sources: Sequence[Sequence[int]]) -> Caches:
        """Return the state of a search for sources of one padded length; the last one is the longest."""
        length = len(sources[-1])
        if len(sources) > 1:
            length = padded_length(length, self._n_positions)
        return Caches([model.start(sources, length) for model in self.models])

    def step(self, last: NDArray[np.int64], state: Caches) -> tuple[LogProbs, Caches]:
        """Return the log-probabilities of the next tokens; the step function of a search."""
        check_time_limit()
        return self._log_probs_type(self._log_probs(last, state)), state

    def _log_probs(self, last: NDArray[np.int64], state: Caches) -> Float[Array, "N K V"]:
        """The log of the mean probability over models; for one model its log-softmax."""
        log_probs = [model.step(last, cache) for model, cache in zip(self.models, state.caches, strict=True)]
        if len(log_probs) == 1:
            return log_probs[0]
        mean: Array = functools.reduce(np.logaddexp, log_probs) - log_probs[0].dtype.type(math.log(len(log_probs)))
        return mean

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probabilities of `Engine.score`."""

        @np.errstate(all="ignore")
        def score_batch(rows: Sequence[int]) -> list[list[float]]:
            sources, targets = zip(*(pairs[row] for row in rows), strict=True)
            state = Caches([model.start(sources, max(map(len, sources))) for model in self.models])
            longest = max(map(len, targets))
            ids = np.array([[*target, *[0] * (longest - len(target))] for target in targets])
            scores = np.empty((len(rows), longest - 1))
            for time in range(longest - 1):
                check_time_limit()
                log_probs = self._log_probs(ids[:, time, None], state)
                scores[:, time] = log_probs[np.arange(len(rows)), 0, ids[:, time + 1]]
            return [line[: len(target) - 1].tolist() for line, target in zip(scores, targets, strict=True)]

        results: list[list[float]] = [[] for _ in pairs]
        batches = plan_equal_lengths([max(len(source), len(target)) for source, target in pairs], CORE_WIDTH)
        for rows, lines in zip(batches, self.on_every_core(score_batch, batches), strict=True):
            for row, line in zip(rows, lines, strict=True):
                results[row] = line
        return check_token_scores(results)
