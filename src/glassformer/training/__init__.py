"""Training: `train(pairs)` gives a Run, an iterable of events."""

from glassformer.training.events import Event, Finished, Progress, Saved, Started, Stopped, Validated
from glassformer.training.loop import Run, train

__all__ = ["Event", "Finished", "Progress", "Run", "Saved", "Started", "Stopped", "Validated", "train"]
