"""The manifest of a job in shards: what the job is, and which rows each shard has. It is written once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError, model_validator

from glassformer.errors import RunError, UsageError, quoted

FORMAT = 1
NEW = "another --out starts a new job"


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Shard(_Record):
    """Some rows of a job: `number` from 1, rows `first` to `last` from 1, both included.

    `digest` is that of its rows. `tried` and `certain` are those of `GreedyFirst` after the rows before it, so that its
    scores are those of one job.
    """

    number: PositiveInt
    first: PositiveInt
    last: PositiveInt
    digest: str
    tried: NonNegativeInt = 0
    certain: NonNegativeInt = 0

    @property
    def n_rows(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        return f"shard {self.number} (rows {self.first:,} to {self.last:,})"


class Manifest(_Record):
    """A job in shards. `job` is what `describe_job` returns, `digest` that of all `rows` of the input."""

    format: int
    job: dict[str, Any]
    rows: NonNegativeInt
    digest: str
    shards: tuple[Shard, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ends = [0, *(shard.last for shard in self.shards)]
        starts = [*(shard.first - 1 for shard in self.shards), self.rows]
        numbers = [shard.number for shard in self.shards]
        if starts != ends or numbers != list(range(1, len(numbers) + 1)) or any(s.n_rows < 1 for s in self.shards):
            raise ValueError("the shards are not the rows of the job in order")
        return self

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """Read a manifest. Raises RunError for one that cannot be read, is not valid or of another version."""
        try:
            found = cls.model_validate_json(path.read_bytes(), strict=True)
        except OSError as error:
            raise RunError("the manifest of the shards cannot be read", where=str(path), got=error.strerror) from None
        except ValidationError as error:
            name, message = error.errors()[0]["loc"], error.errors()[0]["msg"]
            got = f"{'.'.join(map(str, name))}: {message}" if name else message
            raise RunError("the manifest of the shards is damaged", where=str(path), got=got, hint=NEW) from None
        if found.format != FORMAT:
            raise RunError(
                "the manifest of the shards is of another version of glassformer",
                where=str(path),
                got=f"format {found.format}",
                expected=f"format {FORMAT}",
                hint=f"continue with that version, or {NEW}",
            )
        return found

    def to_json(self) -> str:
        """Return what `load` reads."""
        return json.dumps(self.model_dump(), ensure_ascii=False, indent=1) + "\n"

    def check(self, job: Mapping[str, Any], rows: int, digest: str, n_shards: int, where: Path) -> None:
        """Raise RunError when the shards are of another model, options, input or number; what differs is named."""
        current = json.loads(json.dumps(job)) | {"number of rows": rows, "rows": digest, "number of shards": n_shards}
        known = self.job | {"number of rows": self.rows, "rows": self.digest, "number of shards": len(self.shards)}
        names = [name for name in dict.fromkeys((*current, *known)) if current.get(name) != known.get(name)]
        if names:
            name = names[0]
            raise RunError(
                f"the shards in this folder are of another job: {', '.join(names)}",
                where=str(where),
                got=f"{name} {quoted(current.get(name))}",
                expected=f"{name} {quoted(known.get(name))}",
                hint=f"the same model, input, options and --shards continue it; {NEW}",
            )


def ranges(n_rows: int, n_shards: int) -> Sequence[tuple[int, int]]:
    """Return the first and last row of each shard, from 1. Raises UsageError for more shards than rows, or none."""
    if not 1 <= n_shards <= n_rows:
        raise UsageError(
            "each shard needs a row",
            got=f"{n_shards:,} shards of {n_rows:,} rows",
            expected=f"1 to {n_rows:,} shards" if n_rows else "rows",
            hint="fewer --shards" if n_rows else None,
        )
    bounds = [n_rows * number // n_shards for number in range(n_shards + 1)]
    return [(start + 1, stop) for start, stop in pairwise(bounds)]
