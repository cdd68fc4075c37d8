"""One update of the weights: forward, loss, gradient, optimizer (section 5.3 of the paper)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn

from glassformer.data.batches import Rows, batches_of_epoch
from glassformer.data.corpus import Corpus
from glassformer.data.prepare import Prepared
from glassformer.errors import is_out_of_memory
from glassformer.paper.model import Transformer
from glassformer.planning.plan import Plan
from glassformer.runtime.devices import avoid_cudnn
from glassformer.runtime.processes import Processes
from glassformer.settings import Settings
from glassformer.storage.checkpoints import Position
from glassformer.storage.container import Arrays
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.weights import build_model, set_weights
from glassformer.text.vocabulary import copied_ids
from glassformer.training.objective import Objective
from glassformer.training.recovery import smaller_limit, split_rows
from glassformer.training.schedule import learning_rate

AVERAGED = 0.25  # fraction of the steps so far, over which the weights are averaged


class Update(NamedTuple):
    """One update: sums over its target tokens (nats), the norm of the gradient before clipping, and its batches."""

    step: int
    batches: Sequence[Rows]
    smoothed: Tensor
    plain: Tensor
    norm: Tensor
    n_tokens: int


class Updater:
    """Updates the weights of a model, from rows of one corpus. `position` is that of the run."""

    def __init__(
        self,
        model: Transformer,
        corpus: Corpus,
        settings: Settings,
        device: torch.device,
        processes: Processes = Processes(),  # noqa: B008  (immutable)
    ) -> None:
        self.model, self.corpus, self.settings, self.device = model, corpus, settings, device
        self.objective = objective_of(model, settings, device)
        self.processes = processes
        training = settings.training
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=0.0,
            betas=(training.beta_1, training.beta_2),
            eps=training.epsilon,
            weight_decay=training.weight_decay,
            fused=device.type in ("cpu", "cuda"),
        )
        avoid_cudnn(device)
        self.position = Position()
        self.go_to(Position())

    def go_to(self, position: Position) -> None:
        """Continue as the run did at a position: with the same parts of a batch, where batches have parts."""
        parts = self.objective.batch_parts
        vars(self.position).update(vars(position), batch_parts=parts and (position.batch_parts or parts))

    def begin_again(self, weights: Arrays) -> None:
        """Go back to the beginning, with these weights."""
        set_weights(self.model, weights)
        self.processes.seed_apart(self.settings.training.seed)
        self.optimizer.state.clear()
        self.go_to(Position())

    def batches(self) -> Iterator[list[Rows]]:
        """Yield the batches of each update from the position on, without end; it advances before each update."""
        position, training = self.position, self.settings.training
        epoch, plan = -1, list[Rows]()
        while True:
            if position.epoch != epoch:
                epoch, plan = position.epoch, batches_of_epoch(self.corpus, training, position.epoch)
            first = position.batch
            position.batch += training.accumulate
            if position.batch >= len(plan):
                position.epoch, position.batch = epoch + 1, 0
            yield plan[first : first + training.accumulate]

    @property
    def learning_rate(self) -> float:
        """The rate of the last update."""
        return float(self.optimizer.param_groups[0]["lr"])

    def update(self, batches: Sequence[Rows]) -> Update:
        """Make the next update, with the mean gradient over all its tokens.

        When loss or gradient is not finite, weights and optimizer stay as they are. A batch that does not fit into
        memory is split, now and in all later updates; the sum of the gradients is the same. Raises RunError when a
        single row does not fit; the weights are then those before the update.
        """
        with self.objective.threads():
            self.model.train()
            n_tokens = sum(int((self.corpus.target.lengths[rows] - 1).sum()) for rows in batches)
            losses = self._accumulate(batches, n_tokens)
            self.processes.sum_gradients(self.model.parameters())
            smoothed, plain = self.processes.sum_(torch.stack(losses).sum(dim=0)).unbind()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.training.clip_norm or math.inf)
            self.position.step += 1
            self._step(torch.isfinite(norm) & torch.isfinite(smoothed))
            self._average()
        return Update(self.position.step, batches, smoothed, plain, norm, n_tokens)

    def _step(self, is_finite: Tensor) -> None:
        """Change the weights, if all is finite. A device decides that by itself: nothing waits for it."""
        now, settings = self.position, self.settings
        rate = learning_rate(now.step, settings.training, settings.model.d_model, now.decay)
        for group in self.optimizer.param_groups:
            group["lr"] = now.rate_factor * rate
        if self.optimizer.defaults["fused"]:
            self.optimizer.found_inf = (~is_finite).float()  # type: ignore[attr-defined]  # as torch.amp.GradScaler does
            self.optimizer.step()
        elif is_finite:
            self.optimizer.step()
        self.optimizer.zero_grad()

    @property
    def has_averages(self) -> bool:
        """Whether there are averages of the weights: with wsd, while its rate is constant."""
        return self.settings.training.schedule == "wsd" and self.position.decay is None

    def _average(self) -> None:
        """Let the averages follow the weights, over a quarter of the steps so far (Karras et al. 2024).

        They are next to the means of Adam in the state of the optimizer, which a checkpoint has.
        """
        state = self.optimizer.state
        weights = [weight for weight in self.model.parameters() if state[weight]] if self.has_averages else []
        for weight in weights:
            if "average" not in state[weight]:
                state[weight]["average"] = weight.detach().clone()
        if weights:
            decay = 1 - 1 / max(1.0, AVERAGED * self.position.step)
            follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
            follow([state[weight]["average"] for weight in weights], weights, None)

    @contextlib.contextmanager
    def averaged_weights(self) -> Iterator[None]:
        """Let the model have the averages of its weights for a time."""
        weights = {weight: weight.detach().clone() for weight in self.model.parameters()}
        with torch.no_grad():
            for weight in weights:
                weight.copy_(self.optimizer.state[weight].get("average", weight))
            try:
                yield
            finally:
                for weight, value in weights.items():
                    weight.copy_(value)

    def _accumulate(self, batches: Sequence[Rows], n_tokens: int) -> list[Tensor]:
        """Compute the gradient of an update, in parts that fit into memory; return the losses of each part."""
        while True:
            shares = [share(rows, self.processes.rank, self.processes.count) for rows in batches]
            parts = [
                (part, weight)
                for rows, weight in shares
                for part in split_rows(rows, self.corpus, self.position.max_tokens)
            ]
            try:
                return [self._forward_backward(rows, n_tokens, weight) for rows, weight in parts]
            except (RuntimeError, MemoryError) as error:  # of which PyTorch's OutOfMemoryError is one
                if not is_out_of_memory(error):
                    raise
                rows_of_parts = [rows for rows, _ in parts]
                self.position.max_tokens = smaller_limit(
                    rows_of_parts, self.corpus, self.device, self.position.step + 1
                )
            self.optimizer.zero_grad()  # a part of the gradient may be there already
            if self.device.type == "cuda":
                torch.cuda.empty_cache()

    def _forward_backward(self, rows: Rows, n_tokens: int, weight: float) -> Tensor:
        return self.objective.add_gradient(self.corpus, rows, n_tokens, weight, self.position.batch_parts or 1)


def share(rows: Rows, rank: int, count: int) -> tuple[Rows, float]:
    """Return the rows of a batch that one of `count` processes computes, and their weight.

    It is 0 for a row of another that stands in for none: every process must compute something, because the others wait
    for it.
    """
    own_rows = rows[rank::count]
    return (own_rows, 1.0) if len(own_rows) else (rows[:1], 0.0)


def objective_of(model: Transformer, settings: Settings, device: torch.device) -> Objective:
    """Return the fastest way to train a model on a device; the model is changed for it. The room may be missing."""
    try:
        from glassformer.training.fast_objective import FastObjective
    except ModuleNotFoundError as error:
        if error.name != "glassformer.fast":
            raise
        return Objective(model, settings, device)
    return FastObjective(model, settings, device)


def initial_model(prepared: Prepared, start: ModelFile | None = None) -> Transformer:
    """Return the model to start from, or a new one; the random seed is that of the training then."""
    torch.manual_seed(prepared.settings.training.seed)
    if start is not None:
        return build_model(start)
    source, target = prepared.tokenizers
    ids = copied_ids(source.vocabulary, target.vocabulary)
    return Transformer(prepared.settings.model, len(source), len(target), ids)


def first_updater(planned: Plan, device: torch.device) -> Updater:
    """Return what updates the initial model of a run, before the first update."""
    model = initial_model(planned.prepared, planned.start).to(device)
    updater = Updater(model, planned.prepared.train, planned.settings, device, planned.processes)
    planned.processes.seed_apart(planned.settings.training.seed)
    return updater
