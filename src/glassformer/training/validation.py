"""Validation: the loss on the held-out rows, and the metric of free-running translation.

The loss counts every row. A source is translated once: rows with one source are one item, and any of their targets
is right.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.data.batches import plan_batches
from glassformer.data.corpus import Corpus, spread
from glassformer.data.prepare import Prepared
from glassformer.evaluation.metrics import Item, group_by_source, higher_is_better, nearest_references, quick_metric
from glassformer.inference.encoding import default_max_new_tokens
from glassformer.inference.engines import Engine, search
from glassformer.inference.engines.compiled import prepare_inference
from glassformer.inference.engines.numpy import NumPyEngine
from glassformer.runtime.devices import CPU
from glassformer.runtime.processes import Processes
from glassformer.settings import DecodingSettings, Metric
from glassformer.storage.container import Arrays
from glassformer.storage.records import Metrics
from glassformer.storage.weights import get_weights, set_weights
from glassformer.text.inputs import readable
from glassformer.training.events import Sample
from glassformer.training.objective import Objective

N_SAMPLES = 3
MAX_ERRORS = 500  # wrong answers that are kept
BEST_VALIDATION = "the best validation"
SMALL_FALL, SMALL_FALL_NATS = 0.01, 0.001  # of a loss, that is no gain: a fraction of it and nats per token


@dataclass(frozen=True)
class Measurement:
    """A measurement: plain loss in nats per target token, value of the metric, some translations, the wrong ones.

    `target` of a sample is the nearest of the references of its source.
    """

    loss: float
    value: float
    samples: tuple[Sample, ...]
    errors: dict[str, Any] = field(default_factory=dict)

    @property
    def wrong(self) -> tuple[Sample, ...]:
        """The first wrong answers."""
        first = self.errors.get("examples", [])[:N_SAMPLES]
        return tuple(Sample(example["source"], example["target"], example["answer"]) for example in first)


@dataclass(frozen=True)
class Validator:
    """Measures the current weights of a model in training. Each of the processes does a part of it."""

    prepared: Prepared
    objective: Objective
    processes: Processes = field(default_factory=Processes)

    @property
    def metric(self) -> Metric:
        """The metric of the settings; without held-out rows the loss on training rows."""
        return self.prepared.settings.training.metric if self.prepared.valid is not None else "loss"

    @property
    def _sign(self) -> int:
        return 1 if higher_is_better(self.metric) else -1

    @cached_property
    def items(self) -> list[Item]:
        """The held-out sources with all their targets."""
        return group_by_source(self.prepared.valid_pairs)

    def is_better(self, measured: Measurement, value: float | None, loss: float | None) -> bool:
        """Whether the metric is better than `value`, or equal and the loss below `loss`; True when either is None."""
        if value is None or loss is None:
            return True
        return (self._sign * measured.value, -measured.loss) > (self._sign * value, -loss)

    def is_gain(self, measured: Measurement, value: float | None, lowest_loss: float) -> bool:
        """Whether the metric is better than `value`, or the loss lower than `lowest_loss` by more than a small fall."""
        if value is None or measured.loss < (1 - SMALL_FALL) * lowest_loss - SMALL_FALL_NATS:
            return True
        return self.metric != "loss" and self._sign * measured.value > self._sign * value

    def measure(self, *, as_used: bool = False) -> Measurement:
        """Measure on a sample of the held-out items or, with `as_used`, on all with the decoding settings of the model.

        Without held-out rows, the loss is that of training rows. When the loss is not finite, nothing is translated.
        """
        settings, prepared = self.prepared.settings, self.prepared
        corpus, items = prepared.valid or prepared.train, self.items
        n_scored, n_searched = settings.data.max_valid_rows, settings.training.validate_rows
        if as_used and items:
            n_scored, n_searched = len(corpus), len(items)
        loss = self._loss(corpus, spread(len(corpus), n_scored))
        if not math.isfinite(loss):
            return Measurement(loss, math.nan, ())
        decoding = settings.decoding if as_used else DecodingSettings(num_beams=settings.training.validate_beams)
        translated = [items[i] for i in spread(len(items), N_SAMPLES if self.metric == "loss" else n_searched).tolist()]
        tokenizer = prepared.source_tokenizer
        sources = [tokenizer.frame(ids) for ids in tokenizer.encode_many([item.source for item in translated])]
        best = self._search(sources, decoding, default_max_new_tokens(prepared.data, settings))
        answers = [prepared.target_tokenizer.decode(ids) for ids, _ in best]
        samples = self._samples(translated, answers)
        wrong = [
            {"source": sample.source, "target": sample.target, "answer": sample.answer, "score": score}
            for sample, (_, score) in zip(samples, best, strict=True)
            if not sample.is_right
        ]
        errors = {"rows": len(translated), "wrong": len(wrong), "examples": wrong[:MAX_ERRORS]}
        if self.metric == "loss":
            return Measurement(loss, loss, tuple(samples[:N_SAMPLES]), errors)
        references = [item.references for item in translated]
        value = quick_metric(self.metric, answers, references, prepared.target_tokenizer.split)
        return Measurement(loss, value, tuple(samples[:N_SAMPLES]), errors)

    def measure_weights(self, weights: Arrays, *, as_used: bool = False) -> Measurement:
        """Measure other weights, as `measure` does; the model has its own ones afterwards."""
        model = self.objective.model
        current_weights = get_weights(model)
        set_weights(model, weights)
        measured = self.measure(as_used=as_used)
        set_weights(model, current_weights)
        return measured

    def choose(
        self, best: Arrays, metrics: Metrics, kept: list[Arrays], step: int
    ) -> tuple[Arrays, Metrics, dict[str, Any] | None]:
        """Compare the mean of the `kept` weights, the last validated ones, with the `best` ones, on all held-out rows.

        Returns the better weights, their metrics, and their wrong answers (None when there is nothing to compare).
        """
        chosen = metrics.chosen or BEST_VALIDATION  # a run that had ended before may have chosen a mean
        if len(kept) < 2:
            return best, metrics.model_copy(update={"chosen": chosen}), None
        mean = {name: np.mean([weights[name] for weights in kept], axis=0) for name in kept[0]}
        weights, measured = best, self.measure_weights(best, as_used=True)
        of_mean = self.measure_weights(mean, as_used=True)
        if self.is_better(of_mean, measured.value, measured.loss):
            weights, measured, chosen = mean, of_mean, f"the mean of the last {len(kept)} validations"
            metrics = metrics.model_copy(update={"step": step})
        if metrics.n_sources is not None:
            metrics = metrics.model_copy(update={"n_sources": measured.errors.get("rows")})
        return weights, metrics.model_copy(update={"chosen": chosen, "value": measured.value}), measured.errors

    def metrics_of(self, measured: Measurement, step: int) -> Metrics:
        """Return the record for the model file of weights after `step` updates."""
        rows: Literal["training", "validation"] = "training" if self.prepared.valid is None else "validation"
        n_sources = {} if self.metric == "loss" else {"n_sources": measured.errors.get("rows")}
        return Metrics(metric=self.metric, value=measured.value, step=step, rows=rows, **n_sources)

    def _search(
        self, sources: list[list[int]], decoding: DecodingSettings, max_new_tokens: int
    ) -> list[tuple[tuple[int, ...], float]]:
        """Return ids and score of the best answer to each source; each process searches some of them."""
        rank, count = self.processes.rank, self.processes.count
        model, device, target = self.objective.model, self.objective.device, self.prepared.target_tokenizer
        engine: Engine  # a new one, because the weights have changed
        if device == CPU:
            engine = NumPyEngine([prepare_inference(self.prepared.settings.model, get_weights(model))], target)
        else:
            from glassformer.inference.engines.torch import TorchEngine

            engine = TorchEngine.of([model], target, device)
        answers = search(engine, sources[rank::count], decoding, max_new_tokens)
        parts = self.processes.gather([(best.ids, best.score) for best, *_ in answers])
        return [parts[row % count][row // count] for row in range(len(sources))]

    def _samples(self, items: Sequence[Item], answers: Sequence[str]) -> list[Sample]:
        """Pair each answer with the nearest reference of its source: an answer is right when the two are equal."""
        if not items:
            return []
        references = [item.references for item in items]
        nearest = nearest_references(answers, references, self.prepared.target_tokenizer.split)
        return [
            Sample(readable(item.source, self.prepared.source_tokenizer.inputs), item.references[position], answer)
            for item, position, answer in zip(items, nearest, answers, strict=True)
        ]

    def _loss(self, corpus: Corpus, rows: NDArray[np.int64]) -> float:
        training, objective = self.prepared.settings.training, self.objective
        lengths = corpus.source.lengths[rows], corpus.target.lengths[rows]
        total, n_tokens = 0.0, 0
        rank, count = self.processes.rank, self.processes.count
        objective.model.eval()
        with torch.no_grad():
            for batch in plan_batches(*lengths, training.batch_tokens, seed=0, epoch=0)[rank::count]:
                total += float(objective.losses(corpus, rows[batch])[1])
                n_tokens += int((lengths[1][batch] - 1).sum())
        total, n_all = self.processes.sum_numbers(total, n_tokens)
        return total / n_all
