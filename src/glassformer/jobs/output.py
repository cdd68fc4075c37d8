"""Where the rows of a job go: to a stream, or to a file that an interrupted job can resume.

    OUT.part            the rows so far, whole rows only
    OUT.progress.json   which job they are of, and how many rows and bytes are done; the bytes after these are dropped
    OUT                 all rows, by one rename at the end

A process may be killed at any moment: the record of progress is replaced after the rows were synced, so that a resumed
job neither loses nor repeats a row.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from glassformer.data.lines import compressed, pyarrow
from glassformer.errors import RunError
from glassformer.jobs.layout import CONFIDENCE, OutputForm
from glassformer.jobs.progress import JobProgress
from glassformer.storage.files import cannot_write, check_path, check_writable, locked, replace_file

PARQUET_ROWS = 65_536  # in a group of a Parquet file
RESUME = "--resume continues it, --overwrite starts again"


class StreamOutput:
    """Rows go to a stream, such as standard output, as soon as they are there."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def append(self, rows: bytes, _progress: JobProgress) -> None:
        """Write rows."""
        self._stream.write(rows)
        self._stream.flush()

    def save(self, _progress: JobProgress) -> None:
        """Do nothing: a stream cannot be resumed."""

    def finish(self, _progress: JobProgress, _layout: OutputForm | None = None) -> None:
        """Do nothing: the rows are written."""


class FileOutput:
    """Rows go to the part file of `path`, which becomes `path` when all rows are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._target = Path(os.path.realpath(path))
        self.part, self.record = self._beside(".part"), self._beside(".progress.json")
        # Names of our own, which a killed process leaves and the next one uses again.
        self._temporary, self._lock = self._beside(".new"), self._beside(".lock")
        self._file: BinaryIO | None = None

    def _beside(self, suffix: str) -> Path:
        return self._target.with_name(self._target.name + suffix)

    def check(self, *, resume: bool, overwrite: bool) -> JobProgress | None:
        """Return the progress to resume, or None for a new job. Raises RunError when neither is possible."""
        check_writable(self.path)
        check_path(self.record)  # the longest of the names
        exists, begun = self.path.exists(), self.record.exists()
        if resume:
            if not begun and self.part.exists() and not exists:
                return None  # it was killed before its first rows were recorded
            if not begun:
                what = "the output is there, and no interrupted job" if exists else "there is no interrupted job"
                raise RunError(f"{what} to resume", where=str(self.path), hint="leave out --resume")
            return JobProgress.load(self.record)
        if begun and not overwrite:
            with self._locked():  # otherwise the job is not interrupted
                pass
            done = JobProgress.load(self.record).rows
            raise RunError(
                "an interrupted job is here; nothing was written",
                where=str(self.part),
                got=f"{done:,} rows",
                hint=RESUME,
            )
        if exists and not overwrite:
            hint = "--overwrite, or another --out"
            raise RunError("the output exists already; nothing was written", where=str(self.path), hint=hint)
        return None

    @property
    def was_opened(self) -> bool:
        """Whether this process had the part file open; otherwise another process wrote its rows."""
        return self._file is not None

    def is_finished(self, progress: JobProgress) -> bool:
        """Whether the output has its name already, and only the record was not removed."""
        return progress.complete and not self.part.exists()

    def _locked(self) -> contextlib.AbstractContextManager[bool]:
        hint = "wait for it or stop it, or choose another --out"
        return locked(self._lock, RunError("another process is writing this output", where=str(self.path), hint=hint))

    @contextlib.contextmanager
    def opened(self, progress: JobProgress) -> Iterator[None]:
        """Open the part file at the end of the rows that are done. Raises RunError when another process has it."""
        with self._errors(progress), self._locked():
            # The permissions of a file that is replaced may be narrower than the default.
            mode = stat.S_IMODE(self._target.stat().st_mode) if self._target.is_file() else 0o666
            part = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_APPEND, mode)
            with os.fdopen(part, "ab") as self._file:
                if self._file.seek(0, os.SEEK_END) < progress.n_bytes:
                    raise RunError(
                        "the rows of the interrupted job are not all there",
                        where=str(self.part),
                        got=f"{self._file.tell():,} bytes",
                        expected=f"{progress.n_bytes:,} bytes",
                        hint="--overwrite starts again",
                    )
                self._file.truncate(progress.n_bytes)
                yield

    def append(self, rows: bytes, progress: JobProgress) -> None:
        """Add rows, compressed as the suffix says. After an error the part file has whole rows only."""
        assert self._file is not None
        rows = compressed(rows, self.path) if rows else b""
        with self._errors(progress):
            try:
                self._file.write(rows)
                self._file.flush()
                os.fsync(self._file.fileno())
            except BaseException:
                with contextlib.suppress(OSError):
                    os.truncate(self.part, progress.n_bytes)
                raise
        progress.n_bytes += len(rows)

    def save(self, progress: JobProgress) -> None:
        """Record the rows that were appended as done."""
        with self._errors(progress):
            self._temporary.write_text(progress.to_json(), encoding="utf-8", errors="backslashreplace")
            replace_file(self._temporary, self.record)

    def finish(self, progress: JobProgress, layout: OutputForm | None = None) -> None:
        """Give the output its name, and remove the record. A Parquet file is written from the rows of JSON Lines."""
        if self._file is not None:
            self._file.close()
        if not self.is_finished(progress):
            progress.complete = True
            self.save(progress)
            with self._errors(progress):
                if layout is not None and layout.format == "parquet":
                    _write_parquet(self.part, layout.names, self._temporary)
                    replace_file(self._temporary, self._target)
                    self.part.unlink()
                else:
                    replace_file(self.part, self._target)
        self.record.unlink()
        self._temporary.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _errors(self, progress: JobProgress) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            failure = cannot_write(self.part, error)
            failure.hint = f"{failure.hint or 'choose another --out'}; --resume continues after row {progress.rows:,}"
            raise failure from None


def _write_parquet(rows: Path, names: tuple[str, ...], out: Path) -> None:
    """Write rows of JSON Lines as Parquet, in groups. Raises MissingExtraError where pyarrow is not installed."""
    arrow = pyarrow("writing Parquet")
    from pyarrow.parquet import ParquetWriter

    schema = arrow.schema([(name, arrow.float64() if name == CONFIDENCE else arrow.string()) for name in names])
    with rows.open(encoding="utf-8") as lines, ParquetWriter(out, schema) as writer:
        while group := [json.loads(line) for line in islice(lines, PARQUET_ROWS)]:
            writer.write_table(arrow.Table.from_pylist(group, schema))
