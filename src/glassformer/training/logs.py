"""The events of a run for TensorBoard. The loop of training knows nothing of it.

    log = open_log("tensorboard", "run")
    for event in run:
        log(event)

A log that cannot be written never ends a training: it says so once, and the training continues without it.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.errors import MissingExtraError, UsageError, quoted
from glassformer.training.events import Event

METRICS = {
    "progress": ("loss", "perplexity", "learning_rate", "gradient_norm", "tokens_per_second"),
    "validated": ("loss",),
}


def open_log(name: str, run: str | Path, on_failure: Callable[[str], None] | None = None) -> Log:
    """Return a log ("tensorboard", the only one) for the events of the run in a directory. Nothing is written yet.

    `on_failure` gets the sentence of a failure, once; by default it is a RuntimeWarning. Raises UsageError for another
    name, MissingExtraError when the library is not installed.
    """
    if name != "tensorboard":
        hint = "send the events to it: for event in train(…), in docs/resume.md" if name == "mlflow" else None
        raise UsageError(f"there is no log {quoted(name)}", expected="tensorboard", hint=hint)
    try:
        import tensorboardX.event_file_writer  # noqa: F401
    except ImportError:
        raise MissingExtraError("--log tensorboard", package="tensorboardX", extra=name) from None
    return Log(Path(run) / name, on_failure or _warn)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class Log:
    """Writes event files for TensorBoard, next to the history of the run. The last event of a run closes it."""

    def __init__(self, folder: Path, on_failure: Callable[[str], None]) -> None:
        self.folder, self._on_failure = folder, on_failure
        self._file: Any = None
        self._has_failed = False

    def __call__(self, event: Event) -> None:
        """Log an event."""
        if self._has_failed:
            return
        try:
            self._write(event.to_json())
        except Exception as error:  # of a library: whatever it is, the training continues
            self._has_failed = True
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
            self._on_failure(f"the log for tensorboard is not complete; the training continues without it: {reason}")

    def _write(self, fields: dict[str, Any]) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = EventsWriter(str(self.folder / "events"))
        for name, value in _scalars(fields).items():
            self._file.write_event(Event(wall_time=time.time(), step=fields["step"], summary=scalar(name, value)))
        self._file.flush()
        if fields["event"] in ("finished", "stopped"):
            self._file.close()


def _scalars(event: dict[str, Any]) -> dict[str, float]:
    """The numbers of an event by their name in a log; those that are not finite are left out."""
    kind = event["event"]
    group = {"progress": "train", "validated": "valid"}.get(kind)
    found = {f"{group}/{name}": event[name] for name in METRICS.get(kind, ())}
    if kind == "validated":
        found[f"valid/{event['metric']}"] = event["value"]
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}
