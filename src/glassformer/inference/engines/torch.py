"""The PyTorch engine, for a GPU and for bfloat16.

A text's padded length depends on that text alone (its length, rounded up), and only equal padded lengths share a batch.
Samples are drawn for each text alone.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.errors import DeviceError, SettingsError, is_out_of_memory, nearest
from glassformer.inference.engines.batches import on_every_core, padded_length, plan_equal_lengths
from glassformer.inference.engines.greedy_first import AnswerBatches
from glassformer.inference.engines.searches import Caches, Searches
from glassformer.inference.engines.tensors import TensorLogProbs
from glassformer.inference.engines.torch_cached import Inference
from glassformer.inference.timelimit import check_time_limit
from glassformer.paper.kernels.cpu import configure_memory, one_thread, take_one_thread
from glassformer.paper.model import Transformer
from glassformer.paper.search import (
    Guide,
    Hypothesis,
    LogProbs,
    SearchConstraints,
    check_token_scores,
)
from glassformer.paper.settings import DecodingSettings, Precision
from glassformer.ship.storage.container import Arrays
from glassformer.ship.storage.modelfile import TARGET_IDS, ModelFile
from glassformer.text import Tokenizer

if TYPE_CHECKING:
    from jaxtyping import Bool, Int

CPU = torch.device("cpu")
T = TypeVar("T")
SCORING_WIDTH = 4  # hypotheses that a scored pair counts as: it has logits at all its positions at once


def find_device(name: str) -> torch.device:
    """Return the device called `name` ("auto", "cpu", "cuda", "cuda:1", "mps"). Raises DeviceError otherwise."""
    if name == "cpu":  # after a look for a GPU, no child that is forked could use one
        return CPU
    available = ["cpu"]
    if torch.cuda.is_available():
        available += ["cuda", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    if torch.backends.mps.is_available():
        available.append("mps")
    if name == "auto":
        return torch.device(next((best for best in ("cuda", "mps") if best in available), "cpu"))
    if name not in available:
        raise DeviceError(f"device {name!r} is not available", expected=", ".join(["auto", *available]))
    return torch.device(name)


def has_fast_bfloat16(device: torch.device) -> bool:
    """Whether matrix products in bfloat16 are done in hardware."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device.type == "cpu" and (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def resolve_precision(device: torch.device, precision: str) -> str:
    """Return the precision that "auto" means on a device: bfloat16 where it is fast, float32 elsewhere.

    Raises SettingsError for an unknown precision.
    """
    if precision not in get_args(Precision):
        raise SettingsError(f"precision {precision!r} is not available", hint=nearest(precision, get_args(Precision)))
    if precision == "auto":
        precision = "bfloat16" if has_fast_bfloat16(device) else "float32"
    if precision == "bfloat16" and device.type == "cpu" and not _has_sound_bfloat16():
        return "float32"
    return precision


@functools.cache
def _has_sound_bfloat16() -> bool:
    """Whether a matrix product in bfloat16 is right on this CPU: where OMP_DYNAMIC is set, oneDNN's are not."""
    x = torch.ones(512, 128, dtype=torch.bfloat16)
    is_sound = bool(((x @ x.T) == 128).all())
    if not is_sound:
        reason = "OMP_DYNAMIC is set: unset it" if "OMP_DYNAMIC" in os.environ else "oneDNN"
        warnings.warn(
            f"matrix products in bfloat16 are wrong on this computer ({reason}); float32 is used", stacklevel=3
        )
    return is_sound


def autocast(device: torch.device, precision: str) -> contextlib.AbstractContextManager[object]:
    """Return a context in which matrix products are computed in `precision`."""
    if resolve_precision(device, precision) == "float32":
        return contextlib.nullcontext()
    # The cache of autocast is one for all threads, and the first that leaves its context empties it.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=device.type != "cpu")


def avoid_cudnn(device: torch.device) -> None:
    """Let PyTorch not compute attention on a GPU by cuDNN, in this process.

    It prefers cuDNN in bfloat16 on some GPUs, which prepares each new shape for tens of milliseconds. Most batches have
    one: a step of training took 369 ms in place of 20 (docs/tried.md).
    """
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)


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
    ) -> AnswerBatches:
        """Yield the answers of `Engine.answers`."""
        longest = min(max_new_tokens, self._n_positions or max_new_tokens)
        constraints = SearchConstraints(self.bos_id, self.eos_id, self.forbidden, longest, prefixes, guide)
        search_batch = torch.inference_mode()(Searches(self.start, self.step, sources, decoding, constraints))
        width = max(decoding.num_beams, decoding.num_return_sequences)
        batches = plan_equal_lengths([len(source) for source in sources], width)
        if decoding.do_sample:  # no sample depends on the rounding of a batch
            batches = [[row] for batch in batches for row in batch]
        if self.device.type != "cpu":
            for batch, answers in self._halving(batches, search_batch):
                yield dict(zip(batch, answers, strict=True))
            return

        def search_on_core(batch: Sequence[int]) -> list[list[Hypothesis]]:
            take_one_thread()  # the bits of a product depend on the number of its threads
            return search_batch(batch)

        _ = self._prepared  # once, and not in every thread
        with one_thread():
            found = on_every_core(search_on_core, batches, needs_blas=False)
            for batch, answers in zip(batches, found, strict=True):
                yield dict(zip(batch, answers, strict=True))

    @functools.cached_property
    def _prepared(self) -> list[Inference]:
        """The models, prepared for search."""
        dtype = torch.bfloat16 if resolve_precision(self.device, self.precision) == "bfloat16" else torch.float32
        with torch.inference_mode():
            return [Inference(model, dtype) for model in self.models]

    @torch.inference_mode()
    def start(self, sources: Sequence[Sequence[int]]) -> Caches:
        """Return the state of a search for sources of one padded length, of which the last is the longest."""
        return Caches([model.start(sources, self._padded(len(sources[-1]))) for model in self._prepared])

    @torch.inference_mode()
    def step(self, last: NDArray[np.int64], state: Caches) -> tuple[LogProbs, Caches]:
        """Return the log-probabilities of the next tokens; the step function of a search."""
        check_time_limit()
        ids = torch.from_numpy(last).to(self.device)
        logits = [model.step(ids, cache) for model, cache in zip(self._prepared, state.caches, strict=True)]
        return TensorLogProbs(_mean_log_probs(logits)), state

    def score(self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[list[float]]:
        """Return the log-probabilities of `Engine.score`."""
        results: list[list[float]] = [[] for _ in pairs]
        with self._evaluating(), autocast(self.device, self.precision):
            lengths = [max(len(source), len(target) - 1) for source, target in pairs]

            def score_batch(rows: Sequence[int]) -> list[list[float]]:
                check_time_limit()
                length = self._padded(lengths[rows[-1]])  # which depends on each pair alone
                source, visible = pad([pairs[row][0] for row in rows], length, self.device)
                target, _ = pad([pairs[row][1] for row in rows], length + 1, self.device)
                logits = [model(source, visible, target[:, :-1]) for model in self.models]
                log_probs = _mean_log_probs(logits).gather(2, target[:, 1:, None])[:, :, 0].cpu()
                return [each[: len(pairs[row][1]) - 1].tolist() for row, each in zip(rows, log_probs, strict=True)]

            for rows, found in self._halving(plan_equal_lengths(lengths, SCORING_WIDTH), score_batch):
                for row, scores in zip(rows, found, strict=True):
                    results[row] = scores
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
                found = compute(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            else:
                yield batch, found
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

    def _padded(self, length: int) -> int:
        """The padded length, at most the number of learned positions."""
        padded = padded_length(length)
        return max(length, min(padded, self._n_positions or padded))

    @contextlib.contextmanager
    def _evaluating(self) -> Iterator[None]:
        were_training = [model.training for model in self.models]
        for model in self.models:
            model.eval()
        try:
            with torch.inference_mode():
                yield
        finally:
            for model, was_training in zip(self.models, were_training, strict=True):
                model.train(was_training)


def _mean_log_probs(logits: Sequence[Tensor]) -> Tensor:
    """Return the log of the mean probability over models; for one model its log-softmax."""
    log_probs = [of_model.float().log_softmax(dim=-1) for of_model in logits]
    if len(log_probs) == 1:
        return log_probs[0]
    highest = torch.stack(log_probs).amax(dim=0)
    total = sum((of_model - highest).exp() for of_model in log_probs)  # in the same order for every row
    return highest + cast("Tensor", total).log() - math.log(len(log_probs))


def build_model(model_file: ModelFile) -> Transformer:
    """Build the Transformer of a model file, in evaluation mode, on the CPU."""
    sizes = len(model_file.source_tokenizer), len(model_file.target_tokenizer)
    with _Undrawn():
        model = Transformer(model_file.settings.model, *sizes)
    set_weights(model, model_file.tensors)
    return model.eval()


class _Undrawn(TorchFunctionMode):
    """While it is active no weights are drawn: for a large model that took longer than copying those of a file."""

    def __torch_function__(self, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in (Tensor.uniform_, nn.init.uniform_, nn.init.kaiming_uniform_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return function(*args, **(kwargs or {}))


def get_weights(model: Transformer) -> Arrays:
    """Return copies of all tensors of a model file by name; a shared matrix is there once."""
    return {name: value.detach().cpu().numpy().copy() for name, value in _named_tensors(model)}


def set_weights(model: Transformer, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy the weights of `get_weights` into a model with the same settings."""
    with torch.no_grad():
        for name, tensor in _named_tensors(model):
            tensor.copy_(torch.from_numpy(weights[name]))


def _named_tensors(model: Transformer) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    if model.copy_mechanism is not None:
        yield TARGET_IDS, model.copy_mechanism.target_ids


def pad(
    sequences: Sequence[Sequence[int]], length: int, device: torch.device | None = None
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return the ids padded on the right with 0 to `length`, and the mask of tokens that are visible."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.zeros((len(sequences), length), dtype=torch.long)
    visible = torch.arange(length) < lengths[:, None]
    ids[visible] = torch.tensor([token for sequence in sequences for token in sequence], dtype=torch.long)
    return ids.to(device), visible.to(device)
