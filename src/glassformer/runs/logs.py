"""The events of a run for other programs: TensorBoard and MLflow. Training knows nothing of it.

    log = open_log("tensorboard", "run")
    for event in run:
        log(event)

A log that cannot be written never ends a training: it says so once, and the training continues without it.
"""

from __future__ import annotations

import math
import os
import queue
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from glassformer.errors import MissingExtraError, UsageError, nearest, quoted
from glassformer.recipes.overrides import flat, read_recipe
from glassformer.rundirectory import LOGS, RunDirectory

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
    """Return a log ("tensorboard" or "mlflow") for the events of the run in a directory. Nothing is written yet.

    `on_failure` gets the sentence of a failure, once; by default it is a RuntimeWarning. Raises UsageError for another
    name, MissingExtraError when the library is not installed.
    """
    if name not in LOGS:
        raise UsageError(f"there is no log {quoted(name)}", hint=nearest(name, LOGS))
    writer: type[_TensorBoard] | type[_MLflow] = _MLflow if name == "mlflow" else _TensorBoard
    try:
        writer.check()
    except ImportError:
        package = {"tensorboard": "tensorboardX", "mlflow": "mlflow-skinny"}[name]
        raise MissingExtraError(f"--log {name}", package=package, extra=name) from None
    return Log(name, lambda: writer(RunDirectory(Path(run))), on_failure or _warn)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class _Writer(Protocol):
    def write(self, event: dict[str, Any], now: float) -> None: ...

    def close(self) -> None: ...


class Log:
    """Writes events in a thread of its own, so that a slow disk or server does not slow down the training.

    The last event of a run closes it.
    """

    def __init__(self, name: str, writer: Callable[[], _Writer], on_failure: Callable[[str], None]) -> None:
        self.name, self._writer, self._on_failure = name, writer, on_failure
        self._events: queue.SimpleQueue[tuple[dict[str, Any], float] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def __call__(self, event: LoggedEvent) -> None:
        """Log an event."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=f"log {self.name}", daemon=True)
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
            writer = self._writer()
            while (found := self._events.get()) is not None:
                writer.write(*found)
            writer.close()
        except Exception as error:  # of a library or a server: whatever it is, the training continues
            text = str(error).strip() or type(error).__name__
            self._fail(text.splitlines()[0][:300])

    def _fail(self, reason: str) -> None:
        self._on_failure(f"the log for {self.name} is not complete; the training continues without it: {reason}")


def _scalars(event: dict[str, Any]) -> dict[str, float]:
    """The numbers of an event by their name in a log; those that are not finite are left out."""
    kind = event["event"]
    group = {"progress": "train", "validated": "valid"}.get(kind)
    found = {f"{group}/{name}": event[name] for name in METRICS.get(kind, ())}
    if kind == "validated":
        found[f"valid/{event['metric']}"] = event["value"]
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


class _TensorBoard:
    """Event files in RUN/tensorboard."""

    def __init__(self, run: RunDirectory) -> None:
        from tensorboardX.event_file_writer import EventsWriter

        folder = run.path / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        self._file = EventsWriter(str(folder / "events"))

    @staticmethod
    def check() -> None:
        """Raise ImportError when the library is missing."""
        import tensorboardX.event_file_writer  # noqa: F401

    def write(self, event: dict[str, Any], now: float) -> None:
        """Write the numbers of an event."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.summary import scalar

        for name, value in _scalars(event).items():
            self._file.write_event(Event(wall_time=now, step=event["step"], summary=scalar(name, value)))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _MLflow:
    """A run on the server of MLFLOW_TRACKING_URI, or in files in RUN/mlflow; a resumed run continues its own."""

    def __init__(self, run: RunDirectory) -> None:
        self.check()
        from mlflow import MlflowClient

        folder = run.path / "mlflow"
        folder.mkdir(parents=True, exist_ok=True)
        uri = os.environ.get("MLFLOW_TRACKING_URI") or (folder / "store").resolve().as_uri()
        if uri.startswith("file:"):
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # the default waits for minutes
        self._client, self._id_file, self._run = MlflowClient(uri), folder / "run_id", run
        self._id = ""

    @staticmethod
    def check() -> None:
        """Raise ImportError when the library is missing."""
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # else it reports to its makers
        import mlflow  # noqa: F401

    def write(self, event: dict[str, Any], now: float) -> None:
        """Write the numbers of an event; the first one of a run creates it, with its settings."""
        from mlflow.entities import Metric, Param

        if event["event"] == "started":
            self._id = self._run_id(is_resumed=event["resumed"])
            settings = flat(read_recipe(self._run.recipe))
            if not event["resumed"]:  # a setting that changes cannot be changed there
                params = [Param(name, str(value)[:500]) for name, value in settings.items()]
                self._client.log_batch(self._id, params=params)
        metrics = [Metric(name, value, int(1000 * now), event["step"]) for name, value in _scalars(event).items()]
        if metrics:
            self._client.log_batch(self._id, metrics=metrics)
        if event["event"] in ("finished", "stopped"):
            self._client.set_terminated(self._id, "FINISHED" if event["event"] == "finished" else "KILLED")

    def _run_id(self, *, is_resumed: bool) -> str:
        if is_resumed and self._id_file.exists():
            run_id = self._id_file.read_text(encoding="utf-8").strip()
            self._client.update_run(run_id, status="RUNNING")
            return run_id
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "glassformer")
        known = self._client.get_experiment_by_name(name)
        experiment = self._client.create_experiment(name) if known is None else known.experiment_id
        created = self._client.create_run(experiment, run_name=self._run.path.resolve().name)
        self._id_file.write_text(created.info.run_id, encoding="utf-8")
        return str(created.info.run_id)

    def close(self) -> None:
        """Nothing is left open."""
