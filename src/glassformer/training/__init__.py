"""Training: `train(pairs)` gives a Run, an iterable of events."""

from glassformer.training.events import Event, Finished, Progress, Saved, Started, Stopped, Validated
from glassformer.training.loop import Run
from glassformer.training.plan import Choice, Notice, Plan, train

__all__ = [
    "Choice",
    "Event",
    "Finished",
    "Notice",
    "Plan",
    "Progress",
    "Run",
    "Saved",
    "Started",
    "Stopped",
    "Validated",
    "train",
]
