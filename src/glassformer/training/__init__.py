"""A run of training: an iterable of events. What is decided before it is in `before`.

Names are loaded when they are first used: recipes need no PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.training.events import (
        Decaying,
        Event,
        Finished,
        Progress,
        Raced,
        Racing,
        Restored,
        Saved,
        Skipped,
        Split,
        Started,
        Stopped,
        Validated,
    )
    from glassformer.training.loop import Run

__all__ = [
    "Decaying",
    "Event",
    "Finished",
    "Progress",
    "Raced",
    "Racing",
    "Restored",
    "Run",
    "Saved",
    "Skipped",
    "Split",
    "Started",
    "Stopped",
    "Validated",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"glassformer.training.{'loop' if name == 'Run' else 'events'}"), name)
