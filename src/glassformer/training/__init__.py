"""A run of training: an iterable of events. What is decided before it is in `before`."""

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

__all__ = [
    "Event",
    "Finished",
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
]
