"""What a run does in trouble: it goes back after numbers that are not finite, and splits what exceeds the memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from glassformer.errors import DivergedError
from glassformer.storage.checkpoints import Position
from glassformer.storage.container import Arrays
from glassformer.storage.rundirectory import RunDirectory
from glassformer.storage.weights import set_weights
from glassformer.training.events import Restored
from glassformer.training.update import Updater

MAX_SKIPPED = 5  # updates in a row that were not finite, before the run goes back to its newest checkpoint
MAX_RESTORED = 10  # times, each with half the learning rate


def restore(
    updater: Updater, directory: RunDirectory, load: Callable[[], None], initial_weights: Callable[[], Arrays]
) -> Restored:
    """Go back to the newest checkpoint, or to the beginning, with half the learning rate.

    Raises DivergedError when that was done `MAX_RESTORED` times.
    """
    before = replace(updater.position)
    factor = before.rate_factor / 2
    if factor < 2.0**-MAX_RESTORED:
        raise diverged(before, directory)
    if updater.processes.from_first(directory.resume.exists()):
        load()
    else:
        set_weights(updater.model, initial_weights())
        updater.processes.seed_apart(updater.settings.training.seed)
        updater.optimizer.state.clear()
        updater.go_to(Position())
    position = updater.position
    position.seconds, position.rate_factor, position.max_tokens = before.seconds, factor, before.max_tokens
    return Restored(position.step, position.seconds, MAX_SKIPPED, factor)


def diverged(position: Position, directory: RunDirectory) -> DivergedError:
    """Return the error of a run whose loss is not finite."""
    return DivergedError(
        f"training diverged: the loss is not finite by step {position.step:,}",
        where=str(directory.path),
        hint="train again with a smaller training.learning_rate, or with training.clip_norm=1",
    )
