"""The events of a run for TensorBoard. The loop of training knows nothing of it.

log = TensorBoard("run")
for event in run:
    log(event)
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glassformer.errors import MissingExtraError
from glassformer.training.events import Event, Finished, Progress, Stopped, Validated


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)


class TensorBoard:
    """Writes event files into the folder `tensorboard` of a run. The last event of a run closes them.

    A file that cannot be written never ends a training: `on_failure` gets the sentence of the failure, once, and the
    training continues without it. Raises MissingExtraError when the library is not installed.
    """

    def __init__(self, run: str | Path, on_failure: Callable[[str], None] = _warn) -> None:
        try:
            import tensorboardX.event_file_writer  # noqa: F401
        except ImportError:
            raise MissingExtraError("--tensorboard", package="tensorboardX", extra="tensorboard") from None
        self.folder, self._on_failure = Path(run) / "tensorboard", on_failure
        self._file: Any = None
        self._has_failed = False

    def __call__(self, event: Event) -> None:
        """Log an event."""
        if self._has_failed:
            return
        try:
            self._write(event)
        except Exception as error:  # of a library: whatever it is, the training continues
            self._has_failed = True
            reason = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
            self._on_failure(f"the log for tensorboard is not complete; the training continues without it: {reason}")

    def _write(self, event: Event) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event as FileEvent
        from tensorboardX.summary import scalar

        if self._file is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = EventsWriter(str(self.folder / "events"))
        numbers: dict[str, float] = {}
        if isinstance(event, Progress):
            names = ("loss", "perplexity", "learning_rate", "gradient_norm", "tokens_per_second")
            numbers = {f"train/{name}": getattr(event, name) for name in names}
        elif isinstance(event, Validated):
            numbers = {"valid/loss": event.loss, f"valid/{event.metric}": event.value}
        for name, value in numbers.items():
            if math.isfinite(value):
                self._file.write_event(FileEvent(wall_time=time.time(), step=event.step, summary=scalar(name, value)))
        self._file.flush()
        if isinstance(event, Finished | Stopped):
            self._file.close()
