"""The records of a run: its training, its wrong answers, and the text translated by each checkpoint that it kept."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError

from glassformer.errors import ModelFileError, first_fault
from glassformer.glassbox.explained import Explained
from glassformer.glassbox.run_records import CheckpointAnswer, Errors, HistoryPoint, TrainingRecord, Validation
from glassformer.glassbox.whatif import Edits
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.rundirectory import RunDirectory
from glassformer.training.history import HistoryEvent, read_history, unreadable

MAX_EVENTS = 400  # of training progress
MAX_CHECKPOINTS = 12

Kind = TypeVar("Kind")


def training_of(folder: Path, explained: Explained) -> TrainingRecord | None:
    """The history of a run, and the text translated by each checkpoint, thinned out; None if there is no history.

    Raises RunError for a damaged history (it names the line) and for a checkpoint without a step in its name,
    ModelFileError for a checkpoint that is damaged or of another model.
    """
    run = RunDirectory(folder)
    if not run.history.is_file():
        return None
    events = read_history(run.history)
    progress = [_record_of(HistoryPoint, event, run.history) for event in events if event.kind == "progress"]
    validated = [_record_of(Validation, event, run.history) for event in events if event.kind == "validated"]
    paths = {run.step_of(path): path for path in run.checkpoints_and_snapshots()}  # one of each step
    thinned = _thin(list(paths.items()), MAX_CHECKPOINTS)
    checkpoints = [_answer_of(step, _checkpoint(path, explained), explained) for step, path in thinned]
    return TrainingRecord(_thin(progress, MAX_EVENTS), validated, checkpoints)


def errors_of(folder: Path) -> Errors | None:
    """The wrong answers on held-out rows of a run directory; None if it has none."""
    path = RunDirectory(folder).errors
    if not path.is_file():
        return None
    try:
        errors = TypeAdapter(Errors).validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise unreadable("wrong answers", str(path), error.strerror or str(error)) from None
    except ValidationError as error:
        place, got, expected = first_fault(error)
        raise unreadable("wrong answers", str(path), f"{place}: {got}", expected) from None
    if not len(errors.examples) <= errors.wrong <= errors.rows < 2**53:
        counts = f"{len(errors.examples)} examples of {errors.wrong} wrong answers in {errors.rows} rows"
        raise unreadable("wrong answers", str(path), counts)
    return errors


def last_sample(folder: Path) -> str | None:
    """A source that was translated in the last validation of a run; None if its history does not have one.

    Samples of another form are skipped. Raises RunError for a history that cannot be read.
    """
    path = RunDirectory(folder).history
    for event in reversed(read_history(path) if path.is_file() else []):
        match event.fields:
            case {"samples": [[str(source), *_], *_]} if source.strip():
                return source
    return None


def _record_of(kind: type[Kind], event: HistoryEvent, path: Path) -> Kind:
    """The fields of an event that are in the trace; a number that is missing or not finite is None."""
    values = {field.name: event.fields.get(field.name) for field in fields(cast("Any", kind))}
    for name, value in values.items():
        if name != "step" and isinstance(value, float) and not math.isfinite(value):
            values[name] = None
    try:
        record: Kind = _adapter(cast("Any", kind)).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        place, got, expected = first_fault(error)
        raise unreadable("history", f"{path}, line {event.line}", f"{place}: {got}", expected) from None
    return record


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _thin(items: Sequence[Kind], limit: int) -> list[Kind]:
    """At most `limit` of the items, evenly spaced, with the first and the last."""
    if len(items) <= limit:
        return list(items)
    return [items[round(index)] for index in np.linspace(0, len(items) - 1, limit)]


def _checkpoint(path: Path, explained: Explained) -> ModelFile:
    """Load a checkpoint of the model that is explained."""
    file = ModelFile.load(path)
    parts = [
        (model.settings.model, model.source_tokenizer.vocabulary, model.target_tokenizer.vocabulary)
        for model in (file, explained.file)
    ]
    if parts[0] != parts[1]:
        raise ModelFileError("a checkpoint of the run is of another model", where=str(path), hint="train again")
    return file


def _answer_of(step: int, file: ModelFile, explained: Explained) -> CheckpointAnswer:
    """The translation of the text by a checkpoint, by greedy search."""
    forward = explained.forward(Edits(), file.tensors)
    answer = explained.search(forward, 1).answers[0]
    fed, targets = explained.rows_of_answer(answer)
    return CheckpointAnswer(
        step=step,
        text=answer.text,
        score=answer.score,
        finished=answer.finished,
        tokens=file.target_tokenizer.tokens(targets),
        attention=forward.record(fed).cross_attention().round(4).tolist(),
    )
