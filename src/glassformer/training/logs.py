"""The events of a run for TensorBoard. Training knows nothing of it.

    log = open_log("tensorboard", "run")
    for event in run:
        log(event)

A log that cannot be written never ends a training: it says so once, and the training continues without it.
"""

from __future__ import annotations

import math
import queue
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from glassformer.errors import MissingExtraError, UsageError, quoted

CLOSE_SECONDS = 30.0
METRICS = {
    "progress": ("loss", "perplexity", "learning_rate", "gradient_norm", "tokens_per_second"),
    "validated": ("loss",),
}


class LoggedEvent(Protocol):
    """An event of `training.events`."""

    def to_json(self) -> dict[str, Any]:
        """The event as one JSON object."""
        ...


def open_log(name: str, run: str | Path, on_failure: Callable[[str], None] | None = None) -> Log:
    """Return a log ("tensorboard", the only one) for the events of the run in a directory. Nothing is written yet.

    `on_failure` gets the sentence of a failure, once; by default it is a RuntimeWarning. Raises UsageError for another
    name, MissingExtraError when the library is not installed.
    """
    if name != "tensorboard":
        hint = "send the events to it: for event in train(…), in docs/tutorial.md" if name == "mlflow" else None
        raise UsageError(f"there is no log {quoted(name)}", expected="tensorboard", hint=hint)
    try:
        import tensorboardX.event_file_writer  # noqa: F401
    except ImportError:
        raise MissingExtraError("--log tensorboard", package="tensorboardX", extra=name) from None
    return Log(Path(run) / name, on_failure or _warn)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class Log:
    """Writes event files for TensorBoard in a thread of its own, so that a slow disk does not slow down the training.

    The last event of a run closes it.
    """

    def __init__(self, folder: Path, on_failure: Callable[[str], None]) -> None:
        self.folder, self._on_failure = folder, on_failure
        self._events: queue.SimpleQueue[tuple[dict[str, Any], float] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, event: LoggedEvent) -> None:
        """Log an event."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="log", daemon=True)
            self._thread.start()
        fields = event.to_json()
        self._events.put((fields, time.time()))
        if fields["event"] in ("finished", "stopped"):
            self.close()

    def close(self) -> None:
        """Write what is left, for at most CLOSE_SECONDS."""
        if self._thread is not None:
            self._events.put(None)
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                self._fail("the last events could not be written in time")
            self._thread = None

    def _work(self) -> None:
        try:
            from tensorboardX.event_file_writer import EventsWriter
            from tensorboardX.proto.event_pb2 import Event
            from tensorboardX.summary import scalar

            self.folder.mkdir(parents=True, exist_ok=True)
            file = EventsWriter(str(self.folder / "events"))
            while (found := self._events.get()) is not None:
                fields, now = found
                for name, value in _scalars(fields).items():
                    file.write_event(Event(wall_time=now, step=fields["step"], summary=scalar(name, value)))
                file.flush()
            file.close()
        except Exception as error:  # of a library: whatever it is, the training continues
            text = str(error).strip() or type(error).__name__
            self._fail(text.splitlines()[0][:300])

    def _fail(self, reason: str) -> None:
        self._on_failure(f"the log for tensorboard is not complete; the training continues without it: {reason}")


def _scalars(event: dict[str, Any]) -> dict[str, float]:
    """The numbers of an event by their name in a log; those that are not finite are left out."""
    kind = event["event"]
    group = {"progress": "train", "validated": "valid"}.get(kind)
    found = {f"{group}/{name}": event[name] for name in METRICS.get(kind, ())}
    if kind == "validated":
        found[f"valid/{event['metric']}"] = event["value"]
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}
