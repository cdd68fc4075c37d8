"""The self-test before a training: is the model wired correctly, does it fit into memory, how long will it take.

    tested = check(plan("pairs.csv"))       tested.passed, .checks, .to_json()

The checks make updates of their own, from the first weights: `planned.updater()`. Nothing is written, and a run that
is made afterwards sets the random seed again, so it trains as without a self-test.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from glassformer.before.checks import (
    Check,
    check_gradients,
    check_leaks,
    check_memory,
    check_overfitting,
    check_speed,
    check_tokens,
)
from glassformer.before.measure import Measurement, time_validation
from glassformer.before.plan import Plan
from glassformer.errors import RunError, counted
from glassformer.ship.storage.modelfile import count_parameters

LONG = 600  # seconds
MAX_SECONDS, MAX_SECONDS_BEFORE = 10.0, 3.0  # of measured updates
SLOW_STEP, SLOW_SPEED = 0.02, 2e10
"""Seconds of a step, and operations per second, of a slow core: what is short even there is not measured."""


@dataclass(frozen=True)
class SelfTest:
    """The checks of a plan. `seconds` is the expected time of the training, None where it was not measured."""

    checks: tuple[Check, ...]
    seconds: float | None
    measured: Measurement | None

    @property
    def passed(self) -> bool:
        """Whether no check failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(one for one in self.checks if not one.passed)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values; `format` changes with their meaning. An infinite number is null."""
        report = dataclasses.asdict(self)
        for one in report["checks"]:
            one["value"] = one["value"] if one["value"] is not None and math.isfinite(one["value"]) else None
        return {"format": "glassformer-check/1", "passed": self.passed, **report}


def check(planned: Plan, device: str = "auto", *, on_check: Callable[[Check], None] = lambda _: None) -> SelfTest:
    """Test a plan before its run. Writes nothing; `on_check` gets each check when it is made.

    Raises DeviceError for a device that is not available or is too small for the model.
    """
    made: list[Check] = []

    def add(*checks: Check) -> None:
        for one in checks:
            made.append(one)
            on_check(one)

    updater = planned.updater(device)
    add(*check_leaks(updater), *check_tokens(planned))
    measured, memory = check_memory(updater, MAX_SECONDS)
    add(memory)
    if measured is None:
        return SelfTest(tuple(made), None, None)
    add(check_gradients(measured))
    updater = planned.updater(device)  # with the first weights again
    add(check_overfitting(updater))
    validation = time_validation(planned.prepared, updater)  # now: an untrained model finds no end of its answers
    seconds = expected_seconds(planned, measured, validation)
    add(check_speed(measured, updater.device), _time(planned, seconds, measured, validation))
    return SelfTest(tuple(made), seconds, measured)


def check_before_training(planned: Plan, device: str = "auto") -> SelfTest | None:
    """Make the checks that take some seconds, if the run is expected to take over LONG seconds; otherwise None.

    A run that is resumed, that has several processes, or that `training.max_minutes` ends before, is not tested. The
    expected time is that of the updates alone. Raises RunError when a leak was found: what such a run measures is
    wrong.
    """
    if planned.resumed or planned.are_members_resumed or planned.processes.count > 1 or not _may_be_long(planned):
        return None
    measured, memory = check_memory(planned.updater(device), MAX_SECONDS_BEFORE)
    if measured is None:
        return SelfTest((memory,), None, None)
    seconds = expected_seconds(planned, measured)
    if seconds <= LONG:
        return None
    updater = planned.updater(device)
    checks = [*check_leaks(updater), check_gradients(measured), memory, check_speed(measured, updater.device)]
    checks.append(_time(planned, seconds, measured))
    for leak in checks[:2]:
        if not leak.passed:
            what = "the self-test of the model failed; nothing was trained"
            raise RunError(what, where=leak.name, got=leak.text, hint=leak.advice)
    return SelfTest(tuple(checks), seconds, measured)


def expected_seconds(planned: Plan, measured: Measurement, validation: float = 0.0) -> float:
    """Return the seconds of a run, at most: its steps, and `validation` seconds for each validation, of all members."""
    training = planned.settings.training
    n_validations = math.ceil(training.steps / training.validate_every)
    seconds = training.members * (training.steps * measured.seconds_per_step + n_validations * validation)
    return min(seconds, 60 * training.max_minutes) if training.max_minutes else seconds


def _may_be_long(planned: Plan) -> bool:
    """Return whether a slow core would need over LONG seconds."""
    settings, prepared = planned.settings, planned.prepared
    training = settings.training
    if training.max_minutes and 60 * training.max_minutes <= LONG:
        return False
    tokens = training.accumulate * min(training.batch_tokens, int(prepared.train.target.lengths.sum()))
    products = 6 * count_parameters(settings.model, *map(len, prepared.tokenizers)) * tokens  # forward and backward
    return training.members * training.steps * (SLOW_STEP + products / SLOW_SPEED) > LONG


def _time(planned: Plan, seconds: float, measured: Measurement, validation: float | None = None) -> Check:
    training = planned.settings.training
    text = f"{duration(seconds)} to the end: {training.steps:,} steps of {measured.seconds_per_step:.3g} s"
    if validation is not None:
        n_validations = math.ceil(training.steps / training.validate_every)
        text += f", {counted(n_validations, 'validation')} of {validation:.3g} s"
    else:
        text += ", validations not counted"
    if training.members > 1:
        text += f", {training.members} members"
    if training.max_minutes:
        text += f"; training.max_minutes={training.max_minutes:g}"
    return Check("time", True, seconds, text)


def duration(seconds: float) -> str:
    """Return a time as text, in its unit."""
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} seconds"
