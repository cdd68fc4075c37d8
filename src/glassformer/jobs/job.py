"""A translation job: read a chunk, translate it, write it, record it; again until the input ends."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from glassformer.data.rows import OpenRows
from glassformer.errors import RunError, counted
from glassformer.inference.translator import Translator
from glassformer.jobs.answers import JobAnswer
from glassformer.jobs.chunks import arriving_chunks, chunks
from glassformer.jobs.inputs import JobInput, JobRow
from glassformer.jobs.layout import OutputForm
from glassformer.jobs.output import FileOutput, StreamOutput
from glassformer.jobs.progress import JobProgress
from glassformer.jobs.stream import SearchOptions, translate_chunk
from glassformer.storage.modelfile import ModelFile

GROUP = 4096  # rows that are read again together

Chunks = Iterator[list[JobRow]]
Answered = Generator[tuple[list[JobRow], list[JobAnswer]]]
"""Rows and their answers, in order."""
OnCount = Callable[[int], None] | None
"""Called with the number of rows that were answered."""
Workers = Callable[[Chunks, SearchOptions, OnCount], Answered]
"""Translates the rows of a job: in this process (`here`), or on a cluster (`on_ray.OnRay`)."""


def here(translator: Translator) -> Workers:
    """Return what translates rows in this process, chunk by chunk."""
    return lambda chunks, search, on_count: ((rows, answer(translator, rows, search, on_count)) for rows in chunks)


def answer(
    translator: Translator, rows: Sequence[JobRow], search: SearchOptions, on_count: OnCount = None
) -> list[JobAnswer]:
    """Return the answers to some rows."""
    sources, names, prefixes = zip(*((row.source, f"row {row.number}", row.prefix) for row in rows), strict=True)
    return translate_chunk(
        translator, sources, search, names, prefixes=prefixes if any(prefixes) else None, progress=on_count
    )


@dataclass
class Job:
    """Rows of an input, translated to an output, in order: row i of the output answers row i of the input.

    `name` says what the job is (see `JobProgress.job`), for a job that can be resumed.
    """

    input: JobInput
    workers: Workers
    search: SearchOptions
    layout: OutputForm
    output: StreamOutput | FileOutput
    name: dict[str, Any] | None = None

    def run(
        self, opened: OpenRows, resumed: JobProgress | None = None, on_count: OnCount = None
    ) -> Iterator[JobProgress]:
        """Translate the rows; yield the progress when a chunk is written. The last one is complete.

        `resumed` is the progress of an interrupted job; its rows are read and compared, and not translated again.
        `on_count` is called with the number of rows that were answered, while a chunk is translated. Raises RunError
        when the job to resume is another one or its input begins otherwise, and when the output cannot be written.
        """
        progress = resumed or JobProgress(job=self.name or {})
        with ExitStack() as stack:
            if isinstance(self.output, FileOutput):
                if resumed is not None:
                    resumed.check_same_job(self.name or {}, self.output.record)
                stack.enter_context(self.output.opened(progress))
            digest = self._skip(opened, progress)
            if not progress.n_bytes:
                self.output.append(self.layout.head(), progress)
            group = arriving_chunks if self.input.arrives else chunks
            parts = (self.input.job_rows(opened, chunk) for chunk in group(opened.rows))
            answered = self.workers(parts, self.search, on_count)
            for rows, answers in stack.enter_context(closing(answered)):
                _add_rows(digest, rows)
                self.output.append(self.layout.encode(rows, answers), progress)
                progress.add(rows, answers, digest.hexdigest())
                self.output.save(progress)
                yield progress
            self.output.finish(progress, self.layout)

    def _skip(self, opened: OpenRows, progress: JobProgress) -> hashlib._Hash:
        """Read the rows that are done; return their SHA-256. Raises RunError when they are not the same as before."""
        digest, count = hashlib.sha256(), 0
        done = islice(opened.rows, progress.rows)
        while group := list(islice(done, GROUP)):
            _add_rows(digest, self.input.job_rows(opened, group))
            count += len(group)
        if progress.rows and (count, digest.hexdigest()) != (progress.rows, progress.digest):
            raise RunError(
                "the input is not that of the interrupted job",
                where=opened.path,
                got=counted(count, "row") if count < progress.rows else f"other texts in the first {count:,} rows",
                expected=f"the same first {progress.rows:,} rows",
                hint="resume it with the same input, or --overwrite starts again",
            )
        return digest


def _add_rows(digest: hashlib._Hash, rows: Sequence[JobRow]) -> None:
    for row in rows:
        digest.update(repr(row).encode())


def describe_job(
    models: Sequence[ModelFile], search: SearchOptions, layout: OutputForm, opened: OpenRows, prefix: str | None
) -> dict[str, Any]:
    """Return what must be the same when a job is resumed, as JSON values."""
    return {
        "model": [_digest(model.path) for model in models],
        "version": version("glassformer"),
        **search.decoding.model_dump(mode="json"),
        "long": search.long,
        "confidence": search.min_confidence,
        "format": layout.format,
        "json": layout.full,
        "columns": list(layout.names),
        "alignments": search.alignments,
        "input": opened.format,
        "input columns": list(opened.taken),
        "lexicon": _digest_of(search.lexicon),
        "prefix": prefix,
        "allowed": _digest_of(search.constraint),
    }


def _digest_of(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _digest(path: Path | None) -> str:
    """Return the SHA-256 of a model file."""
    if path is None:
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
