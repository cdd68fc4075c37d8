"""Through time: what a run directory remembers of its training, and the same text through the checkpoints it kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import TypeAdapter, ValidationError

from glassformer.errors import ModelFileError, RunError
from glassformer.glassbox.remembered import Errors, Moment, Past, Training, Validation
from glassformer.glassbox.subject import Subject
from glassformer.glassbox.whatif import Edits, attentions
from glassformer.modelfile import ModelFile

MOST_MOMENTS = 400  # of the history
MOST_CHECKPOINTS = 12

Kind = TypeVar("Kind")


def training_of(folder: Path, subject: Subject) -> Training | None:
    """The history of a run, and the text translated by each checkpoint, thinned out; None where there is no history.

    Raises RunError for a damaged history and ModelFileError for a checkpoint that is damaged or of another model.
    """
    path = folder / "history.jsonl"
    if not path.is_file():
        return None
    events = read_history(path)
    progress = [event for event in events if event.get("event") == "progress"]
    validated = [event for event in events if event.get("event") == "validated"]
    kept = (path for kind in ("snapshot", "step") for path in (folder / "checkpoints").glob(f"{kind}-*.safetensors"))
    checkpoints = sorted(kept, key=lambda path: path.stem.partition("-")[2])
    return Training(
        history=_thin([_take(Moment, event, path) for event in progress], MOST_MOMENTS),
        validations=[_take(Validation, event, path) for event in validated],
        checkpoints=[_past(each, subject) for each in _thin(checkpoints, MOST_CHECKPOINTS)],
    )


def errors_of(folder: Path) -> Errors | None:
    """The wrong answers on held-out rows that a run directory holds as `errors.json`; None where it has none."""
    path = folder / "errors.json"
    if not path.is_file():
        return None
    try:
        return TypeAdapter(Errors).validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise RunError("cannot read the wrong answers of the run", where=str(path), got=str(error)[:200]) from None


def read_history(path: Path) -> list[dict[str, Any]]:
    """The events of a run, but for a last line that was cut off. Raises RunError for a damaged file."""
    try:
        *lines, _cut_off = path.read_text(encoding="utf-8").split("\n")  # other ends of lines may stand in a text
        found = [json.loads(line) for line in lines if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        raise RunError("cannot read the history of the run", where=str(path), got=str(error)) from None
    return [event for event in found if isinstance(event, dict)]


def _take(kind: type[Kind], event: dict[str, Any], path: Path) -> Kind:
    """The fields of an event that the trace shows; a number that is not finite is None."""
    names = kind.__dataclass_fields__  # type: ignore[attr-defined]
    finite = {name: _finite(event.get(name)) for name in names}
    try:
        return TypeAdapter(kind).validate_python(finite)
    except ValidationError as error:
        raise RunError("cannot read the history of the run", where=str(path), got=str(error)[:200]) from None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _thin(items: Sequence[Kind], most: int) -> list[Kind]:
    """At most so many of the items, evenly, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(place)] for place in np.linspace(0, len(items) - 1, most)]


def _past(path: Path, subject: Subject) -> Past:
    """What a checkpoint makes of the text, by greedy search."""
    file = ModelFile.load(path)
    if file.settings.model != subject.file.settings.model:
        raise ModelFileError("a checkpoint of the run is of another model", where=str(path), hint="train again")
    run, space, tokenizer = subject.run(Edits(), file.tensors), subject.space(Edits()), file.target_tokenizer
    answer = run.search(space, tokenizer, subject.decoding, 1).answers[0]
    fed, asked = subject.rows_of(answer)
    arrays = run.record(fed).arrays
    cross = [arrays[f"{name}.weights"] for name in attentions(run.model) if name.endswith(".cross")]
    return Past(
        step=int(path.stem.partition("-")[2]),
        text=answer.text,
        score=answer.score,
        finished=answer.finished,
        tokens=tokenizer.tokens(asked),
        attention=np.mean(cross, axis=(0, 1)).round(4).tolist(),
    )
