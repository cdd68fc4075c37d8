"""The PyTorch engine, for a GPU and for bfloat16.

A text's padded length depends on that text alone (its length, rounded up), and only equal padded lengths share a batch.
Samples are drawn for each text alone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassformer.errors import DeviceError, is_out_of_memory
from glassformer.fast.threads import configure_memory, one_thread
from glassformer.inference.engines.batches import padded_length, plan_equal_lengths
from glassformer.inference.engines.greedy_first import AnswerBatches
from glassformer.inference.engines.searches import Caches, Searches
from glassformer.inference.engines.tensors import TensorLogProbs
from glassformer.inference.engines.torch_cached import TorchInference
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.model import Transformer, padded
from glassformer.paper.search import Guide, LogProbs, SearchConstraints, check_token_scores
from glassformer.runtime.devices import CPU, autocast, avoid_cudnn, resolve_precision
from glassformer.settings import DecodingSettings
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.weights import build_model
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

T = TypeVar("T")
SCORING_WIDTH = 4  # hypotheses that a scored pair counts as: it has logits at all its positions at once


@dataclass(frozen=True)
class TorchEngine:
    """Searches and scores with a Transformer, or with the mean of the probabilities of several (an ensemble).

    `bos_id`, `eos_id`, `forbidden` belong to the target vocabulary. Weights are prepared for search once: a later
    change of them needs another engine.
    """

    models: Sequence[Transformer]
    bos_id: int
    eos_id: int
    forbidden: tuple[int, ...]
    device: torch.device = CPU
    precision: str = "float32"

    @classmethod
    def of(
        cls, models: Sequence[Transformer], target: Tokenizer, device: torch.device = CPU, precision: str = "float32"
    ) -> TorchEngine:
        """Create the engine of models with this target tokenizer; of the special tokens, answers have only `<eos>`."""
        vocabulary = target.vocabulary
        precision = resolve_precision(device, precision)
        configure_memory()
        avoid_cudnn(device)
        return cls(models, vocabulary.bos_id, vocabulary.eos_id, vocabulary.forbidden_ids, device, precision)

    @classmethod
    def of_files(
        cls, model_files: Sequence[ModelFile], device: torch.device = CPU, precision: str = "float32"
    ) -> TorchEngine:
        """Create the engine of model files, which share their vocabularies."""
        models = [build_model(model_file).to(device) for model_file in model_files]
        return cls.of(models, model_files[0].target_tokenizer, device, precision)

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
        searches = Searches(self.start, self.step, sources, decoding, constraints)
        search_batch = torch.inference_mode()(searches)
        with one_thread():  # on a CPU, the bits of a product depend on the number of its threads
            for batch, answers in self._halving(searches.batches(1, rows), search_batch):
                yield dict(zip(batch, answers, strict=True))

    @functools.cached_property
    def _prepared(self) -> list[TorchInference]:
        """The models, prepared for search."""
        dtype = torch.bfloat16 if resolve_precision(self.device, self.precision) == "bfloat16" else torch.float32
        with torch.inference_mode():
            return [TorchInference(model, dtype) for model in self.models]

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> Caches:
        """Return the state of a search for sources of one padded length; the last one is the longest."""
        length = padded_length(len(sources[-1]), self._n_positions)
        return Caches([model.start(sources, length) for model in self._prepared])

    @torch.inference_mode()
    def step(self, last: NDArray[np.int64], state: Caches) -> tuple[LogProbs, Caches]:
        """Return the log-probabilities of the next tokens; the step function of a search."""
        check_time_limit()
        ids = torch.from_numpy(last).to(self.device)
        logits = [model.step(ids, cache) for model, cache in zip(self._prepared, state.caches, strict=True)]
        return TensorLogProbs(_mean_log_probs(logits)), state

    @torch.inference_mode()
    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probabilities of `Engine.score`, by models in evaluation mode."""
        results: list[list[float]] = [[] for _ in pairs]
        lengths = [max(len(source), len(target) - 1) for source, target in pairs]

        def score_batch(rows: Sequence[int]) -> list[list[float]]:
            check_time_limit()
            length = padded_length(lengths[rows[-1]], self._n_positions)  # which depends on each pair alone
            source, visible = pad([pairs[row][0] for row in rows], length, self.device)
            target, _ = pad([pairs[row][1] for row in rows], length + 1, self.device)
            seen = padded(visible, length)
            logits = [model(source, target[:, :-1], seen) for model in self.models]
            log_probs = _mean_log_probs(logits).gather(2, target[:, 1:, None])[:, :, 0].cpu()
            return [line[: len(pairs[row][1]) - 1].tolist() for row, line in zip(rows, log_probs, strict=True)]

        with autocast(self.device, self.precision):
            for rows, scores in self._halving(plan_equal_lengths(lengths, SCORING_WIDTH), score_batch):
                for row, token_scores in zip(rows, scores, strict=True):
                    results[row] = token_scores
        return check_token_scores(results)

    def _halving(
        self, batches: Sequence[Sequence[int]], compute: Callable[[Sequence[int]], T]
    ) -> Iterator[tuple[Sequence[int], T]]:
        """Yield each batch and what it gives; one that does not fit into memory is computed in halves.

        Raises DeviceError for a single row that does not fit.
        """
        waiting = list(reversed(batches))
        while waiting:
            batch = waiting.pop()
            try:
                result = compute(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                yield batch, result
                continue
            if self.device.type == "cuda":  # now that the error is gone, and with it what it had in memory
                torch.cuda.empty_cache()
            if len(batch) == 1:
                hint = "a smaller decoding.num_beams, decoding.num_return_sequences or decoding.max_new_tokens"
                raise DeviceError(f"not enough memory on {self.device} for one text", hint=hint)
            half = len(batch) // 2
            waiting += [batch[half:], batch[:half]]

    @property
    def _n_positions(self) -> int | None:
        """The number of positions that all models have; None where it is unlimited."""
        limits = (model.settings.n_positions for model in self.models)
        return min((limit for limit in limits if limit is not None), default=None)


def _mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Return the log of the mean probability over models; for one model its log-softmax."""
    log_probs = [of_model.float().log_softmax(dim=-1) for of_model in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    highest = torch.stack(log_probs).amax(dim=0)
    total = sum((of_model - highest).exp() for of_model in log_probs)  # in the same order for every row
    return highest + cast("Tensor", total).log() - math.log(len(log_probs))


def pad(
    sequences: Sequence[Sequence[int]], length: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return the ids padded on the right with 0 to `length`, and the mask of tokens that are visible."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.zeros((len(sequences), length), dtype=torch.long)
    visible = torch.arange(length) < lengths[:, None]
    ids[visible] = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    return ids.to(device), visible.to(device)
