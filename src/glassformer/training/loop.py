"""A run of training: `for event in train(pairs, settings, out)`. The caller prints, logs, plots or stops."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from glassformer.advise import advise
from glassformer.data.batches import padding_share, plan_batches
from glassformer.data.tables import Table
from glassformer.engines.torch import (
    TorchEngine,
    autocast,
    build_model,
    find_device,
    get_weights,
    has_fast_bfloat16,
    set_weights,
)
from glassformer.errors import RunError
from glassformer.files import write_text
from glassformer.metrics import higher_is_better, quick_metric
from glassformer.model import Transformer
from glassformer.modelfile import Arrays, ModelFile, count_parameters
from glassformer.settings import DecodingSettings, Settings, read_recipe
from glassformer.training.card import model_card
from glassformer.training.checkpoints import Position, RunDirectory, load_resume, save_resume
from glassformer.training.events import Event, Finished, Progress, Sample, Saved, Started, Stopped, Validated
from glassformer.training.objective import cross_entropy, learning_rate
from glassformer.training.prepare import Prepared, as_table, prepare
from glassformer.translator import Translator

PROGRESS_SECONDS = 1.0


def train(
    pairs: Table | Iterable[tuple[str, str]],
    settings: Settings | None = None,
    out: str | Path = "run",
    *,
    valid: Table | Iterable[tuple[str, str]] | None = None,
    init: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> Run:
    """Prepare a run of training; iterate over it, or call `finish()`.

    Without `settings` they are advised from the pairs. `valid` replaces the held-out rows. `init` is a model whose
    weights, tokenizers and shape are the start. `resume` goes on with the run in `out`, with its own recipe and the
    same pairs. Raises RunError when `out` is taken, TableError when there is too little to train on.
    """
    directory = RunDirectory(Path(out))
    table = as_table(pairs)
    start = ModelFile.load(init) if init is not None else None
    if resume:
        if not directory.resume.exists():
            raise RunError(
                "there is no run to resume", where=str(directory.path), hint="start it without --resume"
            )
        settings = Settings(**read_recipe(directory.recipe))
    else:
        directory.check_free(overwrite=overwrite)
        settings = settings or Settings(**advise(table.pairs).settings)
    if start is not None:
        settings = settings.model_copy(update={"model": start.settings.model, "tokens": start.settings.tokens})
    place = find_device(device)
    prepared = prepare(table, settings, None if valid is None else as_table(valid), start)
    if not resume:
        directory.create(overwrite=overwrite)
        write_text(directory.recipe, settings.to_toml())
        prepared.ledger.write(directory.ledger)
    return Run(prepared, directory, place, start=start, resume=resume)


class Run:
    """Training, as an iterable of events that is gone through once."""

    def __init__(
        self,
        prepared: Prepared,
        directory: RunDirectory,
        device: torch.device,
        *,
        start: ModelFile | None = None,
        resume: bool = False,
    ) -> None:
        self.prepared, self.directory, self.device, self.resumed = prepared, directory, device, resume
        self.settings = prepared.settings
        training = self.settings.training
        torch.manual_seed(training.seed)
        sizes = len(prepared.source_tokenizer), len(prepared.target_tokenizer)
        self.model = build_model(start) if start is not None else Transformer(self.settings.model, *sizes)
        self.model.to(device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=0.0,
            betas=(training.beta_1, training.beta_2),
            eps=training.epsilon,
            weight_decay=training.weight_decay,
            fused=device.type in ("cpu", "cuda"),
        )
        self.position = Position()
        if resume:
            self.position = load_resume(
                directory.resume, self.model, self.optimizer, prepared.data["fingerprint"]
            )
        vocabulary = prepared.target_tokenizer.vocabulary
        self.engine = TorchEngine(
            [self.model],
            vocabulary.bos_id,
            vocabulary.eos_id,
            tuple(sorted(vocabulary.special_ids - {vocabulary.eos_id})),
            device,
        )
        self._stopping = False

    def stop(self) -> None:
        """Ask the run to save and stop after the update that is under way."""
        self._stopping = True

    def finish(self) -> Translator:
        """Train to the end and load the model that came out."""
        for _ in self:
            pass
        return Translator.load(self.directory.model, device=str(self.device))

    def __iter__(self) -> Iterator[Event]:
        for event in self._events():
            self.directory.record(event)
            yield event

    def _events(self) -> Iterator[Event]:
        yield self._started()
        training, position = self.settings.training, self.position
        earlier, begun = position.seconds, time.perf_counter()
        meter = _Meter()
        reason = None if position.step < training.steps else "all steps done"
        while reason is None:
            for batches in self._epoch():
                meter.add(*self._update(batches))
                position.seconds = earlier + time.perf_counter() - begun
                if meter.seconds >= PROGRESS_SECONDS:
                    yield self._progress(meter)
                    meter = _Meter()
                last = position.step >= training.steps
                if position.step % training.validate_every == 0 or last:
                    yield self._validate()
                    self._save()
                    yield Saved(position.step, position.seconds, self.directory.resume)
                    meter = _Meter()
                position.seconds = earlier + time.perf_counter() - begun
                reason = self._reason_to_end()
                if reason is not None or self._stopping:
                    break
            if self._stopping and reason is None:
                self._save()
                yield Stopped(position.step, position.seconds, self.directory.resume)
                return
        yield self._finish(reason)

    def _epoch(self) -> Iterator[list[NDArray[np.int64]]]:
        """The batches of each update that is left of this epoch; then the position is at the next epoch."""
        plan, accumulate = self._plan(self.position.epoch), self.settings.training.accumulate
        for first in range(self.position.batch, len(plan), accumulate):
            self.position.batch = first + accumulate
            if self.position.batch >= len(plan):
                self.position.epoch, self.position.batch = self.position.epoch + 1, 0
            yield plan[first : first + accumulate]

    def _plan(self, epoch: int) -> list[NDArray[np.int64]]:
        corpus, training = self.prepared.train, self.settings.training
        return plan_batches(
            corpus.source.lengths, corpus.target.lengths, training.batch_tokens, training.seed, epoch
        )

    def _update(self, batches: Sequence[NDArray[np.int64]]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
        """One update of the weights. Returns the sums of smoothed and plain loss, the gradient's norm, the tokens."""
        training = self.settings.training
        self.model.train()
        n_tokens = sum(int((self.prepared.train.target.lengths[rows] - 1).sum()) for rows in batches)
        losses = [self._loss(rows, n_tokens) for rows in batches]
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip_norm or math.inf)
        self.position.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.position.step, training, self.settings.model.d_model)
        self.optimizer.step()
        self.optimizer.zero_grad()
        smoothed, plain = (torch.stack(column).sum() for column in zip(*losses, strict=True))
        return smoothed, plain, norm, n_tokens

    def _loss(self, rows: NDArray[np.int64], n_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Forward and backward of one batch; its gradient is that of the mean over all `n_tokens` of the update."""
        training = self.settings.training
        with autocast(self.device, training.precision):
            logits, wanted = self._logits(rows)
        smoothed, plain = cross_entropy(logits, wanted, training.label_smoothing)
        (smoothed / n_tokens).backward()  # type: ignore[no-untyped-call]
        return smoothed.detach(), plain

    def _logits(self, rows: NDArray[np.int64], corpus: str = "train") -> tuple[torch.Tensor, torch.Tensor]:
        """Teacher-forced logits of every real target token of some rows, and those tokens: [tokens V], [tokens]."""
        pairs = getattr(self.prepared, corpus)
        source, source_visible = pairs.source.padded(rows, 0)
        target, target_visible = pairs.target.padded(rows, 0)
        real = torch.from_numpy(np.flatnonzero(target_visible[:, 1:])).to(self.device)
        visible = torch.from_numpy(source_visible).to(self.device)
        ids = torch.from_numpy(target).to(self.device)
        memory = self.model.encode(torch.from_numpy(source).to(self.device), visible)
        hidden = self.model.decode(ids[:, :-1], memory, visible).flatten(0, 1)
        return self.model.project(hidden[real]), ids[:, 1:].flatten()[real]

    def _started(self) -> Started:
        corpus, training = self.prepared.train, self.settings.training
        plan = self._plan(0)
        precision = training.precision
        if precision == "auto":
            precision = "bfloat16" if has_fast_bfloat16(self.device) else "float32"
        return Started(
            self.position.step,
            self.position.seconds,
            train_rows=len(corpus),
            valid_rows=len(self.prepared.valid_pairs),
            n_parameters=count_parameters(
                self.settings.model, len(self.prepared.source_tokenizer), len(self.prepared.target_tokenizer)
            ),
            steps=training.steps,
            steps_per_epoch=math.ceil(len(plan) / training.accumulate),
            padding_share=padding_share(corpus.target.lengths, plan),
            device=str(self.device),
            precision=precision,
            resumed=self.resumed,
        )

    def _progress(self, meter: _Meter) -> Progress:
        plan_length = math.ceil(len(self._plan(self.position.epoch)) / self.settings.training.accumulate)
        return Progress(
            self.position.step,
            self.position.seconds,
            epoch=self.position.step / plan_length,
            loss=meter.mean(meter.smoothed),
            perplexity=math.exp(min(700.0, meter.mean(meter.plain))),
            learning_rate=self.optimizer.param_groups[0]["lr"],
            gradient_norm=float(torch.stack(meter.norms).mean()),
            tokens_per_second=meter.tokens / meter.seconds,
        )

    def _validate(self) -> Validated:
        """Loss and metric on the held-out rows; the best weights become the model of the run."""
        loss = self._validation_loss()
        value, samples = self._measure(loss)
        metric = self._metric
        position = self.position
        best = position.best_value is None or (
            value > position.best_value if higher_is_better(metric) else value < position.best_value
        )
        weights = get_weights(self.model)
        if best:
            position.best_value, position.best_step, position.without_gain = value, position.step, 0
            self._write(self.directory.model, weights, value)
        else:
            position.without_gain += 1
        keep = self.settings.training.average_last
        if keep:
            self._write(self.directory.checkpoint(position.step), weights, value)
            for old in self.directory.checkpoints()[:-keep]:
                old.unlink()
        return Validated(position.step, position.seconds, loss, metric, value, best, samples)

    @property
    def _metric(self) -> str:
        return self.settings.training.metric if self.prepared.valid is not None else "loss"

    def _validation_loss(self) -> float:
        """Plain loss per target token on the held-out rows (on the rows of training where none are held out)."""
        name = "valid" if self.prepared.valid is not None else "train"
        corpus = getattr(self.prepared, name)
        rows = np.arange(min(len(corpus), self.settings.data.max_valid_rows))
        total, n_tokens = 0.0, 0
        self.model.eval()
        with torch.no_grad(), autocast(self.device, self.settings.training.precision):
            plan = plan_batches(
                corpus.source.lengths[rows],
                corpus.target.lengths[rows],
                self.settings.training.batch_tokens,
                seed=0,
                epoch=0,
            )
            for batch in plan:
                logits, wanted = self._logits(batch, name)
                total += float(cross_entropy(logits, wanted, 0.0)[1])
                n_tokens += len(wanted)
        return total / n_tokens

    def _measure(self, loss: float) -> tuple[float, tuple[Sample, ...]]:
        """The metric of free-running translation on held-out rows, and three of them to look at."""
        training, prepared = self.settings.training, self.prepared
        pairs = prepared.valid_pairs[: training.validate_rows if self._metric != "loss" else 3]
        if not pairs:
            return loss, ()
        decoding = DecodingSettings(num_beams=training.validate_beams)
        longest = math.ceil(1.25 * prepared.data["longest_target"]) + 4
        sources = [prepared.source_tokenizer.frame(ids) for ids in prepared.source_tokenizer.encode_many([p.source for p in pairs])]
        found = self.engine.search(sources, decoding, longest)
        answers = [prepared.target_tokenizer.decode(answer[0].ids) for answer in found]
        samples = tuple(Sample(pair.source, pair.target, answer) for pair, answer in zip(pairs, answers, strict=True))[:3]
        if self._metric == "loss":
            return loss, samples
        gold = [pair.target for pair in pairs]
        return quick_metric(self._metric, answers, gold, prepared.target_tokenizer.split), samples

    def _reason_to_end(self) -> str | None:
        training, position = self.settings.training, self.position
        if position.step >= training.steps:
            return "all steps done"
        if training.patience and position.without_gain >= training.patience:
            return f"no better {self._metric} in {position.without_gain} validations"
        if training.max_minutes and position.seconds >= 60 * training.max_minutes:
            return f"{training.max_minutes:g} minutes are over"
        return None

    def _save(self) -> None:
        save_resume(
            self.directory.resume, self.model, self.optimizer, self.position, self.prepared.data["fingerprint"]
        )

    def _write(self, path: Path, weights: Arrays, value: float) -> None:
        metrics = {"metric": self._metric, "value": value, "step": self.position.step, "rows": "validation"}
        self.prepared.model_file(weights, metrics).save(path)

    def _finish(self, reason: str) -> Finished:
        """Try the mean of the last weights against the best ones; the better become the model."""
        position, chosen = self.position, "best"
        if position.best_value is None or position.best_step > position.step:
            self._validate()
        assert position.best_value is not None
        kept = [ModelFile.load(path).tensors for path in self.directory.checkpoints()]
        if len(kept) > 1:
            mean = {name: np.mean([weights[name] for weights in kept], axis=0) for name in kept[0]}
            set_weights(self.model, mean)
            value, _ = self._measure(self._validation_loss())
            better = value >= position.best_value if higher_is_better(self._metric) else value <= position.best_value
            if better:
                position.best_value, chosen = value, f"mean of the last {len(kept)}"
                self._write(self.directory.model, mean, value)
        finished = Finished(
            position.step, position.seconds, reason, chosen, self._metric, position.best_value, self.directory.model
        )
        write_text(self.directory.card, model_card(self.prepared, finished))
        return finished


class _Meter:
    """Sums since the last Progress. Losses stay on the device until they are asked for."""

    def __init__(self) -> None:
        self.begun = time.perf_counter()
        self.smoothed: list[torch.Tensor] = []
        self.plain: list[torch.Tensor] = []
        self.norms: list[torch.Tensor] = []
        self.tokens = 0

    def add(self, smoothed: torch.Tensor, plain: torch.Tensor, norm: torch.Tensor, n_tokens: int) -> None:
        self.smoothed.append(smoothed)
        self.plain.append(plain)
        self.norms.append(norm)
        self.tokens += n_tokens

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.begun

    def mean(self, sums: list[torch.Tensor]) -> float:
        return float(torch.stack(sums).sum()) / self.tokens
