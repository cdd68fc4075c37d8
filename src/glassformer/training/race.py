"""The race before a run: candidates are trained in turn for a small part of it, and the best one continues.

After each round the better half is trained on (successive halving, Jamieson and Talwalkar 2016), until one is left.
Each candidate has the weights, optimizer and random numbers that it would have without the others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Sequence
from itertools import islice

import torch
from torch import Tensor

from glassformer.planning.plan import Plan
from glassformer.training.events import Raced, RacedCandidate, Racing
from glassformer.training.update import first_updater
from glassformer.training.validation import Validator

ROUND_TOKENS = 1_000_000  # that a candidate reads in a round, on its longer side, padding included
PART_OF_STEPS = 0.1  # of a run, that a round takes at most
SECONDS = 1.0  # of a candidate's turn
PART_OF_TIME = 0.2  # of training.max_minutes, that a race takes at most


class Contender:
    """A candidate in a race: its `steps` in a round, and the state of its random numbers."""

    def __init__(self, name: str, planned: Plan, device: torch.device) -> None:
        self.name, self.planned = name, planned
        self.updater, training = first_updater(planned, device), planned.settings.training
        self.steps = math.ceil(min(ROUND_TOKENS / training.batch_tokens, PART_OF_STEPS * training.steps))
        self.validator, self.seconds = Validator(planned.prepared, self.updater.objective), 0.0
        self._states = self._random_states()

    @property
    def step(self) -> int:
        """The number of its updates."""
        return self.updater.position.step

    def take_turn(self, last_step: int, is_stopping: Callable[[], bool]) -> None:
        """Make at least one update: until `last_step`, until the turn is over or `is_stopping`."""
        self.restore_random_states()
        began = time.perf_counter()
        for batches in islice(self.updater.batches(), last_step - self.step):
            self.updater.update(batches)
            if is_stopping() or time.perf_counter() - began >= SECONDS:
                break
        self.seconds += time.perf_counter() - began
        self._states = self._random_states()

    def seconds_until(self, last_step: int) -> float:
        """Return the time that its updates until a step would take, as fast as those before."""
        return self.seconds / self.step * (last_step - self.step)

    def restore_random_states(self) -> None:
        """Let its random numbers go on where they were."""
        torch.set_rng_state(self._states[0])
        if len(self._states) > 1:
            torch.cuda.set_rng_state(self._states[1], self.updater.device)

    def _random_states(self) -> list[Tensor]:
        device = self.updater.device
        return [torch.get_rng_state(), *([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])]

    def measure(self) -> RacedCandidate:
        """Measure on held-out rows; the loss of an answer does not depend on how many tokens it has."""
        with self.updater.averaged_weights():
            measured, valid = self.validator.measure(), self.planned.prepared.valid
        assert valid is not None
        loss = measured.loss * float((valid.target.lengths - 1).mean())
        n_answers = measured.errors.get("rows", 0)
        right = 1 - measured.errors["wrong"] / n_answers if n_answers else 0.0
        return RacedCandidate(self.name, self.step, loss, right, n_answers)


def race(
    left: Sequence[Contender], max_minutes: float | None, is_stopping: Callable[[], bool]
) -> Generator[Racing | Raced, None, tuple[Contender | None, str]]:
    """Yield where each candidate is, which have a second in turn, and the result of each round; return the winner and
    the last result.

    The winner is None as soon as `is_stopping`. It is the first candidate, that of the rule, as soon as a round would
    take too much of the `max_minutes` of the training.
    """
    clock, began, limit = time.perf_counter, time.perf_counter(), PART_OF_TIME * 60 * (max_minutes or math.inf)
    n_rounds = 0
    while len(left) > 1:
        n_rounds += 1
        is_too_long = False
        while not is_too_long and (behind := [each for each in left if each.step < n_rounds * each.steps]):
            for contender in behind:
                last_step = n_rounds * contender.steps
                contender.take_turn(last_step, is_stopping)
                yield Racing(contender.step, clock() - began, contender.name, last_step)
                if is_stopping():
                    return None, ""
            expected = sum(each.seconds_until(n_rounds * each.steps) for each in left)
            is_too_long = clock() - began + expected > limit
        results = [] if is_too_long else ranked([contender.measure() for contender in left])
        seconds = clock() - began
        names = (left[0].name,) if is_too_long else tuple(result.name for result in results[: len(left) // 2])
        left = [contender for contender in left if contender.name in names]
        raced = Raced(left[0].step, seconds, tuple(results), names)
        yield raced
    left[0].restore_random_states()
    left[0].updater.position.seconds = seconds
    return left[0], str(raced)


def ranked(results: Sequence[RacedCandidate]) -> list[RacedCandidate]:
    """Return results, the best one first: by loss, but before that by exact match if it differs by a standard error."""
    by_loss = sorted(results, key=lambda result: (not math.isfinite(result.loss), result.loss))
    first, most_right = by_loss[0], max(by_loss, key=lambda result: result.exact_match)
    mean = (first.exact_match + most_right.exact_match) / 2
    error = math.sqrt(2 * mean * (1 - mean) / max(1, most_right.answers))
    if most_right.exact_match - first.exact_match > error:
        by_loss.remove(most_right)
        by_loss.insert(0, most_right)
    return by_loss
