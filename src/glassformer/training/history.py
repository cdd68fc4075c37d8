"""The history of a run: its events, one JSON object a line."""

from __future__ import annotations

import contextlib
import json
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.errors import RunError

if TYPE_CHECKING:
    from glassformer.storage.checkpoints import Position


@dataclass(frozen=True)
class HistoryEvent:
    """An event of a run, not checked: its line in the history, from 1, and its JSON object."""

    line: int
    fields: dict[str, Any]

    @property
    def kind(self) -> object:
        return self.fields.get("event")


def read_history(path: Path) -> list[HistoryEvent]:
    """The events of a run, without a last line that was cut off. Raises RunError for a line that is not an event."""
    try:
        *lines, _cut_off = path.read_text(encoding="utf-8").split("\n")  # a text may contain other line ends
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable("history", str(path), getattr(error, "strerror", "it is not UTF-8")) from None
    events = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise unreadable("history", where, str(error), "a JSON object") from None
        if not isinstance(fields, dict):
            raise unreadable("history", where, reprlib.repr(fields), "a JSON object")
        events.append(HistoryEvent(number, fields))
    return events


def loss_fell(path: Path, end: Position) -> float | None:
    """Return the fraction by which the loss of a run fell in the second half of its steps, without those of a decay.

    0 where there was no gain any more; None where there are too few events. It is that of validations, or with too few
    of them that of progress, or of all steps. Other events are skipped, and so is a history that cannot be read.
    """
    if end.decay is not None and end.decay.is_settled:
        return 0.0
    stable = end.step if end.decay is None else end.decay.after
    losses: dict[str, dict[int, float]] = {"validated": {}, "progress": {}}  # the last one at a step: it may go back
    with contextlib.suppress(RunError):
        for event in read_history(path):
            match event.fields:
                case {"event": "validated" | "progress" as kind, "step": int(step), "loss": float(loss)}:
                    losses[kind][step] = loss
    falls = (_fall(of_kind, last_step) for last_step in (stable, end.step) for of_kind in losses.values())
    return next((fall for fall in falls if fall is not None), None)


def _fall(losses: Mapping[int, float], last_step: int) -> float | None:
    last = max((step for step in losses if step <= last_step), default=0)
    middle = max((step for step in losses if 2 * step <= last), default=None)
    return None if middle is None or losses[middle] <= 0 else 1 - losses[last] / losses[middle]


def unreadable(name: str, where: str, got: str, expected: str | None = None) -> RunError:
    """Return the error for a record of a run that cannot be read."""
    return RunError(f"cannot read the {name} of the run", where=where, got=got[:200], expected=expected)
