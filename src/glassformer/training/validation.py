"""How good the weights are on the held-out rows: the loss, and free-running translation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import plan_batches
from glassformer.data.corpus import Corpus, spread
from glassformer.engines.torch import TorchEngine, autocast
from glassformer.kernels.cross_entropy import cross_entropy
from glassformer.metrics import higher_is_better, quick_metric
from glassformer.settings import DecodingSettings, Metric
from glassformer.training.events import Sample
from glassformer.training.objective import teacher_forced
from glassformer.training.prepare import Prepared
from glassformer.translator import default_max_new_tokens

N_SAMPLES = 3
MOST_ERRORS = 500  # that are kept to be looked at


@dataclass(frozen=True)
class Measured:
    """Plain loss per target token in nats, the value of the metric, some translations to look at, the wrong ones."""

    loss: float
    value: float
    samples: tuple[Sample, ...]
    errors: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Validator:
    """Measures the weights that the engine's model has at the moment."""

    prepared: Prepared
    engine: TorchEngine

    @property
    def metric(self) -> Metric:
        """The metric of the settings; without held-out rows the loss on rows of training."""
        return self.prepared.settings.training.metric if self.prepared.valid is not None else "loss"

    def is_better(self, measured: Measured, value: float | None, loss: float | None) -> bool:
        """Whether the metric is better than `value`, or the same and the loss below `loss`; None is beaten by any."""
        if value is None or loss is None:
            return True
        sign = 1 if higher_is_better(self.metric) else -1
        return (sign * measured.value, -measured.loss) > (sign * value, -loss)

    def measure(self, *, as_used: bool = False) -> Measured:
        """Quickly, on rows from all over the held-out ones; or on all of them, with the search of the model itself.

        Where the loss is no number any more, nothing is translated.
        """
        settings, prepared = self.prepared.settings, self.prepared
        corpus, held = prepared.valid or prepared.train, prepared.valid_pairs
        n_scored, n_searched = settings.data.max_valid_rows, settings.training.validate_rows
        if as_used and held:
            n_scored = n_searched = len(held)
        loss = self._loss(corpus, spread(len(corpus), n_scored))
        if not math.isfinite(loss):
            return Measured(loss, math.nan, ())
        search = settings.decoding if as_used else DecodingSettings(num_beams=settings.training.validate_beams)
        looked_at: list[int] = spread(len(held), N_SAMPLES if self.metric == "loss" else n_searched).tolist()
        pairs = [held[row] for row in looked_at]
        tokenizer = prepared.source_tokenizer
        sources = [tokenizer.frame(ids) for ids in tokenizer.encode_many([pair.source for pair in pairs])]
        longest = default_max_new_tokens(prepared.data, settings)
        found = self.engine.search(sources, search, longest)
        answers = [prepared.target_tokenizer.decode(best.ids) for best, *_ in found]
        samples = [Sample(*pair, answer) for pair, answer in zip(pairs, answers, strict=True)]
        wrong = [
            {"source": sample.source, "gold": sample.gold, "answer": sample.answer, "score": best.score}
            for sample, (best, *_) in zip(samples, found, strict=True)
            if not sample.is_right
        ]
        errors = {"rows": len(pairs), "wrong": len(wrong), "examples": wrong[:MOST_ERRORS]}
        if self.metric == "loss":
            return Measured(loss, loss, tuple(samples[:N_SAMPLES]), errors)
        gold = [pair.target for pair in pairs]
        value = quick_metric(self.metric, answers, gold, prepared.target_tokenizer.split)
        return Measured(loss, value, tuple(samples[:N_SAMPLES]), errors)

    def _loss(self, corpus: Corpus, looked_at: NDArray[np.int64]) -> float:
        training, (model,) = self.prepared.settings.training, self.engine.models
        lengths = corpus.source.lengths[looked_at], corpus.target.lengths[looked_at]
        total, n_tokens = 0.0, 0
        model.eval()
        with torch.no_grad(), autocast(self.engine.device, training.precision):
            for batch in plan_batches(*lengths, training.batch_tokens, seed=0, epoch=0):
                hidden, wanted = teacher_forced(model, corpus, looked_at[batch], self.engine.device)
                total += float(cross_entropy(hidden, model.output_projection.weight, wanted, 0.0)[1])
                n_tokens += len(wanted)
        return total / n_tokens
