"""The learning rate (section 5.3), and how long a training with the schedule wsd is."""

from __future__ import annotations

import math

from glassformer.settings import TrainingSettings
from glassformer.storage.checkpoints import Decay, Position

DECAY = 0.2  # fraction of all steps in which the rate of wsd decays

ALL_STEPS = "all steps done"  # reasons to end
OUT_OF_TIME = "stopped by training.max_minutes = {:g}"
NO_GAIN = "no gain in {} validations"
ALL_RIGHT = "every held-out answer was right"


def learning_rate(step: float, training: TrainingSettings, d_model: int, decay: Decay | None = None) -> float:
    """Return the rate of update `step`, counted from 1; `decay` is that of wsd, once it has begun.

    noam: rate · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), equation 3 of the paper. The others rise in a
    straight line to `learning_rate` at `warmup_steps`, then fall with step^-0.5, with a half cosine to 0 at `steps`, or
    stay constant; wsd stays constant until its decay, 1 - sqrt(the fraction of the decay that is done), to 0 (Hägele et
    al. 2024).
    """
    warmup = max(1, training.warmup_steps)
    rise = min(1.0, step / warmup)
    if training.schedule == "noam":
        return float(training.learning_rate * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    if training.schedule == "inverse_sqrt":
        return float(training.learning_rate * min(rise, (warmup / step) ** 0.5))
    if training.schedule == "cosine":
        progress = min(1.0, max(0.0, (step - warmup) / max(1, training.steps - warmup)))
        return float(training.learning_rate * rise * 0.5 * (1 + math.cos(math.pi * progress)))
    if decay is not None:
        rise *= 1 - math.sqrt(min(1.0, (step - decay.after) / (decay.last_step - decay.after)))
    return training.learning_rate * rise


def is_settled(position: Position, training: TrainingSettings) -> bool:
    """Whether there was no gain in `training.patience` validations; with wsd, nor in a fifth of the steps so far."""
    n_steps = position.without_gain * training.validate_every
    is_long = training.schedule != "wsd" or n_steps >= DECAY * position.step
    return is_long and 0 < training.patience <= position.without_gain


def begin_decay(position: Position, training: TrainingSettings) -> Decay | None:
    """Return the decay of wsd if it begins at this position: after `patience`, or one validation without a gain where
    every answer was right; or to end with the steps or minutes.

    It takes a fifth of all steps, or those that are left where that is less.
    """
    step, n_steps, reason = position.step, training.steps, ALL_STEPS
    if training.max_minutes and position.seconds:
        steps_in_time = int(step * 60 * training.max_minutes / position.seconds)
        if steps_in_time < n_steps:
            n_steps, reason = max(step + 1, steps_in_time), OUT_OF_TIME.format(training.max_minutes)
    all_right = training.metric == "exact_match" and position.best_value == 1
    settled = is_settled(position, training) or (all_right and position.without_gain > 0 and training.patience > 0)
    if training.schedule != "wsd" or not (settled or step >= (1 - DECAY) * n_steps):
        return None
    whole = math.ceil(step / (1 - DECAY))
    if settled and whole < n_steps:
        reason = ALL_RIGHT if all_right else NO_GAIN.format(training.patience)
        return Decay(step, whole, reason, is_settled=True)
    return Decay(step, n_steps, reason)
