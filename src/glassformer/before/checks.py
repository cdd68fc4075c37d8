"""The single checks of a self-test: each says what was found, and what to do if it failed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.before.audit.findings import Example, Side
from glassformer.before.audit.tokens import encode, find_token_loss
from glassformer.before.leaks import TOLERANCE, causal_leak, padding_leak
from glassformer.before.measure import Measurement, largest_batch, maximum_rate, measure_updates, peak_memory, with_rate
from glassformer.before.memory import forecast_training
from glassformer.before.plan import Plan
from glassformer.data.corpus import Corpus
from glassformer.errors import RunError
from glassformer.inference.engines.memory import gigabytes, memory_of
from glassformer.inference.engines.torch import resolve_precision
from glassformer.paper.kernels.cpu import batch_parts
from glassformer.training.update import Updater

OVERFIT_ROWS, OVERFIT_STEPS, OVERFIT_WARMUP = 16, 400, 20
OVERFIT_LOSS = 0.1  # nats per token above the minimum
MAX_LOST = 0.01  # of the rows: texts that the tokens do not give back
MAX_MEMORY = 0.9  # of the memory of the device


@dataclass(frozen=True)
class Check:
    """One check: what was found as a number (its unit is in `text`) and as text, and what to do if it failed."""

    name: str
    passed: bool
    value: float | None
    text: str
    advice: str = ""
    examples: tuple[Example, ...] = ()


def check_leaks(updater: Updater) -> Iterator[Check]:
    """Yield the checks of the two masks, of the causal one and of that of padding."""
    model, corpus, device = updater.model, updater.corpus, updater.device
    report = "a position of the model reads what it must not read: report it as a bug, with this command"
    change = causal_leak(model, corpus, device)
    what = "a changed target token changes earlier logits by"
    if math.isinf(change):
        what = "logits are not finite, or no target token has an effect on them:"
    yield Check("causal leak", change <= TOLERANCE, change, f"{what} {_small(change)}", report)
    difference = padding_leak(model, corpus, device)
    text = f"logits of a row alone and in a padded batch differ by {_small(difference)}"
    yield Check("padding leak", difference <= TOLERANCE, difference, text, report)


def _small(value: float) -> str:
    return f"{value:.1e} (at most {TOLERANCE:.0e})"


def check_gradients(measured: Measurement) -> Check:
    """Whether every parameter had a gradient that is finite and not zero."""
    bad = [f"{name} (none)" for name in measured.no_gradient]
    bad += [f"{name} (not finite)" for name in measured.not_finite]
    text = "a finite gradient at every parameter"
    if bad:
        text = f"no finite gradient at {', '.join(bad[:5])}" + (f" and {len(bad) - 5} others" if bad[5:] else "")
    advice = "these parameters do not learn"
    if measured.not_finite:
        advice = "a smaller training.learning_rate, training.clip_norm=1, or training.precision=float32"
    return Check("gradient", not bad, len(bad), text, advice if bad else "")


def check_tokens(planned: Plan) -> Iterator[Check]:
    """Yield the check of each side: the texts of the table that decode(encode(text)) does not give back."""
    sides: tuple[Side, Side] = ("source", "target")
    tokenizers = planned.prepared.source_tokenizer, planned.prepared.target_tokenizer
    for side, tokenizer in zip(sides, tokenizers, strict=True):
        texts = [getattr(pair, side) for pair in planned.table.pairs]
        name, lost = f"{side} tokens there and back", encode(texts, tokenizer)
        passed = len(lost.lost) <= MAX_LOST * len(texts)
        found = next(find_token_loss(planned.table, side, tokenizer, lost), None)
        if found is None:
            yield Check(name, passed, 0, f"all {len(texts):,} {side}s are given back unchanged")
        else:
            advice = found.advice + (f": {found.option}" if found.option else "")
            yield Check(name, passed, found.count, found.text, advice, found.examples)


def check_memory(updater: Updater, max_seconds: float) -> tuple[Measurement | None, Check]:
    """Measure updates, and return the check of its memory; no measurement where they would not fit."""
    training, device = updater.settings.training, updater.device
    available, forecast = memory_of(str(device)), forecast_memory(updater)
    advice = "a smaller training.batch_tokens, with training.accumulate for the same update; training.recompute=true"
    if forecast > available and device.type != "cuda":  # a GPU tries: a batch is split there
        text = f"about {gigabytes(forecast)} are needed, of {gigabytes(available)} on {device}; nothing was measured"
        return None, Check("memory", False, forecast, text, advice)
    try:
        measured = measure_updates(updater, max_seconds)
    except RunError as error:
        text = f"{error.what} (forecast: {gigabytes(forecast)})"
        return None, Check("memory", False, forecast, text, error.hint or advice)
    if (fitting := updater.max_tokens) is not None:
        total = training.batch_tokens
        parts = training.accumulate * -(-total // fitting)
        text = f"a batch of {total:,} tokens does not fit; training would split it (forecast: {gigabytes(forecast)})"
        advice = f"--set training.batch_tokens={fitting} --set training.accumulate={parts} (about the same update)"
        return measured, Check("memory", False, forecast, text, advice)
    peak = measured.peak_bytes
    used = f"{'unknown' if peak is None else gigabytes(peak)} at the peak (forecast: {gigabytes(forecast)})"
    text = f"{used}, of {gigabytes(available)} on {device}"
    return measured, Check("memory", (peak or forecast) <= MAX_MEMORY * available, peak or forecast, text, advice)


def forecast_memory(updater: Updater) -> int:
    """Return the expected peak in bytes: what the process has used so far, the weights, and the largest batch."""
    corpus, settings, device = updater.corpus, updater.settings, updater.device
    rows = largest_batch(corpus, settings.training)
    longest = [int(side.lengths[rows].max()) for side in (corpus.source, corpus.target)]
    sizes = len(updater.model.source_embedding.weight), len(updater.model.target_embedding.weight)
    precision = resolve_precision(device, settings.training.precision)
    needed = forecast_training(settings, sizes, len(rows) * sum(longest), max(longest), precision)
    gradient = 4 * sum(parameter.numel() for parameter in updater.model.parameters())
    needed += (batch_parts(settings, device) - 1) * gradient
    return needed + (peak_memory(device) or 0 if device.type == "cpu" else 0)


def check_speed(measured: Measurement, device: torch.device) -> Check:
    """Report the speed; this check does not fail."""
    text = (
        f"{measured.tokens_per_second:,.0f} target tokens per second, {1000 * measured.seconds_per_step:,.0f} ms per "
        f"step (median of {measured.steps}) on {device}"
    )
    return Check("speed", True, measured.tokens_per_second, text)


def check_overfitting(updater: Updater) -> Check:
    """Train on one batch, without dropout, until its loss is near its minimum: with label smoothing, an entropy."""
    settings, model, corpus = updater.settings, updater.model, updater.corpus
    rows = distinct_rows(corpus)
    minimum = smoothed_minimum(settings.training.label_smoothing, len(model.target_embedding.weight))
    for module in model.modules():
        for name in ("dropout", "probability"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    rate, loss, step = maximum_rate(settings), math.inf, 0
    updater = Updater(model, corpus, with_rate(settings, rate, OVERFIT_WARMUP), updater.device)
    while step < OVERFIT_STEPS and not loss - minimum <= OVERFIT_LOSS:
        step += 1
        sums = updater.update([rows], step)
        loss = float(sums.smoothed) / sums.n_tokens
        if not math.isfinite(loss):
            break
    text = (
        f"{len(rows)} rows: loss {loss:.3f} after {step} steps, its minimum is {minimum:.3f} (learning rate {rate:.2g})"
    )
    advice = "a smaller training.learning_rate if the loss rises, a larger one if it hardly falls; a larger model"
    return Check("overfit one batch", loss - minimum <= OVERFIT_LOSS, loss - minimum, text, advice)


def distinct_rows(corpus: Corpus) -> NDArray[np.int64]:
    """Return up to OVERFIT_ROWS rows with different sources, short ones first: one answer to each can be learned."""
    chosen: dict[bytes, int] = {}
    lengths = corpus.source.lengths + corpus.target.lengths
    for row in np.argsort(lengths, kind="stable")[len(lengths) // 4 :].tolist():
        chosen.setdefault(corpus.source.packed(np.array([row])).tobytes(), row)
        if len(chosen) == OVERFIT_ROWS:
            break
    return np.array(list(chosen.values()))


def smoothed_minimum(smoothing: float, size: int) -> float:
    """Return the smallest label-smoothed loss: the entropy of (1 - smoothing) on one of `size` tokens, rest uniform."""
    if smoothing == 0:
        return 0.0
    other = smoothing / size
    right = 1 - smoothing + other
    return -right * math.log(right) - (size - 1) * other * math.log(other)
