"""The progress of a job, as it is kept next to its output: which job it is, what is done, and what was notable."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, NonNegativeInt, ValidationError

from glassformer.errors import RunError, first_fault, quoted
from glassformer.jobs.answers import JobAnswer
from glassformer.jobs.inputs import JobRow

NAMED = 10
"""How many rows of a kind are named in a warning."""


class NamedRows(BaseModel, extra="forbid"):
    """Rows of one kind: their number, and the first NAMED of them, each as text."""

    count: NonNegativeInt = 0
    named: list[str] = []

    def add(self, name: str) -> None:
        self.count += 1
        if len(self.named) < NAMED:
            self.named.append(name)

    def __str__(self) -> str:
        more = f" and {self.count - len(self.named):,} more" if self.count > len(self.named) else ""
        return ", ".join(self.named) + more


class JobProgress(BaseModel, extra="forbid"):
    """The rows of a job that are done.

    `job` says what the job is: models, options, columns; all of it must be the same when it is resumed. `digest` is
    that of the input rows that are done, `n_bytes` the size of their output. `left_out`, `held_back`,
    `unfinished`, `unlike` and `unknown` are for the warnings at the end, `from_lexicon` for a note.
    """

    format: Literal[1] = 1
    job: dict[str, Any] = {}
    rows: NonNegativeInt = 0
    n_bytes: NonNegativeInt = 0
    digest: str = ""
    complete: bool = False
    left_out: NamedRows = Field(default_factory=NamedRows)
    held_back: NonNegativeInt = 0
    from_lexicon: NonNegativeInt = 0
    unfinished: NamedRows = Field(default_factory=NamedRows)
    unlike: NamedRows = Field(default_factory=NamedRows)
    unknown: dict[str, NonNegativeInt] = {}
    unknown_rows: NonNegativeInt = 0

    @classmethod
    def load(cls, path: Path) -> JobProgress:
        """Read a record. Raises RunError for one that cannot be read or is not valid."""
        try:
            return cls.model_validate_json(path.read_bytes(), strict=True)
        except OSError as error:
            raise RunError("the record of progress cannot be read", where=str(path), got=error.strerror) from None
        except ValidationError as error:
            place, got, expected = first_fault(error)
            raise RunError(
                "the record of progress is damaged, or of another version of glassformer",
                where=str(path),
                got=f"{place}: {got}",
                expected=expected,
                hint="resume with that version, or --overwrite starts again",
            ) from None

    def to_json(self) -> str:
        """Return what `load` reads."""
        return json.dumps(self.model_dump(), ensure_ascii=False, indent=1) + "\n"

    def add(self, rows: Sequence[JobRow], answers: Sequence[JobAnswer], digest: str) -> None:
        """Count rows that are translated."""
        self.rows += len(rows)
        self.digest = digest
        unknown = Counter(self.unknown)
        for row, answer in zip(rows, answers, strict=True):
            self.held_back += answer.held_back
            if answer.left_out and not answer.held_back:
                self.left_out.add(f"row {row.number} ({answer.left_out})")
            self.from_lexicon += answer.from_lexicon
            if not answer.finished:
                self.unfinished.add(str(row.number))
            if answer.unlike:
                self.unlike.add(f"row {row.number} ({answer.unlike})")
            if answer.unknown:
                unknown.update(answer.unknown)
                self.unknown_rows += 1
        self.unknown = dict(unknown)

    def check_same_job(self, job: Mapping[str, Any], where: Path) -> None:
        """Raise RunError when the record is of another job; what differs is named."""
        current = json.loads(json.dumps(job))
        names = [name for name in (*current, *self.job) if current.get(name) != self.job.get(name)]
        if names:
            name = names[0]
            raise RunError(
                f"the interrupted job is another one: {', '.join(dict.fromkeys(names))}",
                where=str(where),
                got=f"{name} {quoted(current.get(name))}",
                expected=f"{name} {quoted(self.job.get(name))}",
                hint="resume it with the same model, input and options, or --overwrite starts again",
            )
