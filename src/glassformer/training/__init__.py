"""Training: `train(pairs)` gives a Run, an iterable of events."""

from glassformer.advise import Choice
from glassformer.training.events import (
    Event,
    Finished,
    Progress,
    Restored,
    Saved,
    Skipped,
    Spiked,
    Split,
    Started,
    Stopped,
    Validated,
)
from glassformer.training.loop import Run
from glassformer.training.notices import Notice
from glassformer.training.plan import Plan, train

__all__ = [
    "Choice",
    "Event",
    "Finished",
    "Notice",
    "Plan",
    "Progress",
    "Restored",
    "Run",
    "Saved",
    "Skipped",
    "Spiked",
    "Split",
    "Started",
    "Stopped",
    "Validated",
    "train",
]
