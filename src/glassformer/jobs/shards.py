"""A job in shards, which any number of workers take, retry and continue, and whose answers are merged in order.

    DIR/manifest.json        what the job is, and its shards; written once, and checked by every worker
    DIR/shard-00001.csv      the answers to the rows of a shard, by one rename; until then as any output (`FileOutput`)
    DIR/shard-00001.lock     locked by the worker that translates the shard; the end of its process frees it

The locks are files that stay: one that is deleted could be locked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from glassformer.data.rows import InputRow, OpenRows
from glassformer.decoding import GreedyFirst
from glassformer.errors import RunError
from glassformer.files import atomic, cannot_write, check_writable
from glassformer.jobs.alignment import Aligner
from glassformer.jobs.inputs import Digest, Input, JobRow, take
from glassformer.jobs.job import Job
from glassformer.jobs.layout import Layout
from glassformer.jobs.manifest import FORMAT, Manifest, Shard, ranges
from glassformer.jobs.output import FileOutput, file_digest
from glassformer.jobs.progress import Progress
from glassformer.jobs.stream import Search, translate_chunk
from glassformer.translator import Translator

SUFFIX = {"lines": ".txt"}
"""The suffix of a format, where it is not its name."""

BLOCK = 1 << 20
NAMED = 10
"""How many shards are named in an error."""


@dataclass(frozen=True)
class Shards:
    """The shards of a job in a folder. The other fields are those of `Job`; it can be pickled."""

    folder: Path
    input: Input
    search: Search
    layout: Layout
    prefix: str
    name: dict[str, Any]

    @property
    def manifest_path(self) -> Path:
        return self.folder / "manifest.json"

    def check_folder(self) -> None:
        """Raise RunError for a folder that cannot be written, or that holds other files and no manifest."""
        check_writable(self.manifest_path)
        if self.manifest_path.exists() or not self.folder.exists():
            return
        others = sorted(path.name for path in self.folder.iterdir() if "manifest." not in path.name)
        if others:
            raise RunError(
                "the folder of the shards holds other files, and no manifest; nothing was written",
                where=str(self.folder),
                got=", ".join(others[:NAMED]),
                expected="a new or empty folder, or one with the shards of this job",
                hint="another --out",
            )

    def open(self, n_shards: int, n_rows: int, digest: str, load: Callable[[], Translator] | None) -> Manifest:
        """Return the manifest; the first worker writes it, with the model that `load` returns, and the others wait.

        `n_rows` and `digest` are those of the input as it is now. Raises RunError when the folder has the shards of
        another job, or of none and there is no `load`.
        """
        bounds = ranges(n_rows, n_shards)
        if load is None and not self.manifest_path.exists():
            raise RunError("there are no shards to merge", where=str(self.folder), hint="translate them: no --merge")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with FileLock(self.folder / "manifest.lock"):
                if load is not None and not self.manifest_path.exists():
                    manifest = self._plan(bounds, digest, load())
                    with atomic(self.manifest_path) as temporary:
                        temporary.write_text(manifest.to_json(), encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise cannot_write(self.manifest_path, error) from None
        found = Manifest.load(self.manifest_path)
        found.check(self.name, n_rows, digest, n_shards, self.manifest_path)
        return found

    def _plan(self, bounds: Sequence[tuple[int, int]], digest: str, translator: Translator) -> Manifest:
        """Return a new manifest. The first rows are translated, for the decision that one job takes by them."""
        search = replace(self.search, greedy_first=GreedyFirst())
        state, shards = search.greedy_first, []
        decides = search.decoding.num_beams > 1
        with self.input.open() as opened:
            for number, (first, last) in enumerate(bounds, 1):
                tried, certain, own = state.tried, state.certain, Digest()
                for group in take(opened.rows, last - first + 1, 256):
                    rows = self.input.job_rows(opened, group, self.prefix)
                    own.add(rows)
                    if decides and state.probes_left:
                        decides = self._try(rows, search, translator)
                shards.append(
                    Shard(number=number, first=first, last=last, digest=str(own), tried=tried, certain=certain)
                )
        return Manifest(format=FORMAT, job=self.name, rows=bounds[-1][1], digest=digest, shards=tuple(shards))

    def _try(self, rows: Sequence[JobRow], search: Search, translator: Translator) -> bool:
        """Translate rows for `search.greedy_first`; return whether a search of this kind uses it."""
        answers = translate_chunk(
            translator,
            [row.source for row in rows],
            search,
            prefixes=[row.prefix for row in rows] if self.prefix or self.input.prefix_column is not None else None,
            where=[f"row {row.number}" for row in rows],
        )
        return search.greedy_first.tried > 0 or not any(answer.tokens for answer in answers)

    def output(self, shard: Shard) -> FileOutput:
        """Return the output of a shard, whose record is kept when it is done."""
        suffix = SUFFIX.get(self.layout.format, f".{self.layout.format}")
        return FileOutput(self.folder / f"shard-{shard.number:05}{suffix}", keep_record=True)

    def progress(self, shard: Shard) -> Progress:
        """Return what is done of a shard. Raises RunError for files that are not of it, or not as they were written."""
        output = self.output(shard)
        with self._explained(output):
            exists = output.path.exists()  # before its record, which a worker writes first
            if output.record.exists():
                found = Progress.load(output.record)
                found.check_same_job(self._name(shard), output.record)
                if not output.is_finished(found):
                    return found
                if not exists:
                    return self._not_begun(shard)  # somebody deleted it
                if output.path.stat().st_size == found.n_bytes:
                    return found
            elif not exists:
                return self._not_begun(shard)
            raise self._changed(output, f"{output.path.stat().st_size:,} bytes")

    @staticmethod
    def _changed(output: FileOutput, got: str) -> RunError:
        what = "the file of a shard is not as it was written"
        return RunError(what, where=str(output.path), got=got, hint="--overwrite starts again")

    def _check_contents(self, shard: Shard, progress: Progress) -> None:
        """Raise RunError when the file of a shard that is done does not have the bytes that were written."""
        output = self.output(shard)
        with self._explained(output):
            if progress.output_digest and file_digest(output.path) != progress.output_digest:
                raise self._changed(output, "other bytes")

    def _not_begun(self, shard: Shard) -> Progress:
        return Progress(job=self._name(shard), tried=shard.tried, certain=shard.certain)

    def _name(self, shard: Shard) -> dict[str, Any]:
        return {**self.name, "rows": shard.digest}

    def is_done(self, shard: Shard) -> bool:
        """Whether all rows of a shard are translated, and its file has its name."""
        return self.output(shard).is_finished(self.progress(shard))

    @contextmanager
    def taken(self, shard: Shard) -> Iterator[bool]:
        """Lock a shard, unless another worker has it; yield whether it is ours."""
        lock = FileLock(self.folder / f"shard-{shard.number:05}.lock", blocking=False, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
        except OSError as error:
            raise cannot_write(Path(lock.lock_file), error) from None
        try:
            yield True
        finally:
            lock.release()

    def take(self, manifest: Manifest) -> Generator[Shard]:
        """Yield each shard that is neither done nor taken, and is ours until the next one; last those freed since."""
        left, took = list(manifest.shards), True
        while took:
            taken_by_others, took = [], False
            for shard in left:
                with self.taken(shard) as is_ours:
                    if not is_ours:
                        taken_by_others.append(shard)
                    elif not self.is_done(shard):
                        took = True
                        yield shard
            left = taken_by_others

    def translate(
        self, shard: Shard, translator: Translator, on_answers: Callable[[int], None] | None = None
    ) -> Iterator[Progress]:
        """Translate the rows of a shard that are not done; it must be ours. Yields and raises as `Job.run` does."""
        output, progress = self.output(shard), self.progress(shard)
        aligner = Aligner(translator) if self.layout.alignments else None
        search = replace(self.search, greedy_first=GreedyFirst())
        job = Job(self.input, translator, search, self.layout, output, self.prefix, self._name(shard), aligner)
        with self._explained(output), self.input.open() as opened:
            yield from job.run(replace(opened, rows=self._rows(opened, shard)), progress, on_answers)

    def _rows(self, opened: OpenRows, shard: Shard) -> Iterator[InputRow]:
        """Yield the rows of a shard. Raises RunError after them when they are not those of the manifest."""
        digest = Digest()
        for row in islice(opened.rows, shard.first - 1, shard.last):
            digest.add(self.input.job_rows(opened, [row], self.prefix))
            yield row
        if str(digest) != shard.digest:
            raise RunError(
                "the input has changed since the shards were planned",
                where=opened.path,
                got=f"other texts in rows {shard.first:,} to {shard.last:,}",
                hint="restore it, or another --out starts a new job",
            )

    @contextmanager
    def _explained(self, output: FileOutput) -> Iterator[None]:
        """Let an error say what to do with a shard, instead of with an output of its own."""
        try:
            yield
        except RunError as error:
            again = f"the shard starts again when {output.path.stem}.* of its folder are deleted"
            hint = (error.hint or "").replace("--overwrite starts again", again)
            error.hint = hint.replace("--resume continues", "the same command continues") or None
            raise

    def merged(self, manifest: Manifest) -> tuple[Progress, Iterator[bytes]]:
        """Return what was notable, and the bytes of the output of one job.

        Raises RunError, before any byte, when shards are missing or their files were changed.
        """
        missing = [shard for shard in manifest.shards if not self.is_done(shard)]
        if missing:
            named = ", ".join(map(str, missing[:NAMED]))
            raise RunError(
                f"{len(missing):,} of {len(manifest.shards):,} shards are missing: {named}"
                + (f" and {len(missing) - NAMED:,} more" if len(missing) > NAMED else ""),
                where=str(self.folder),
                hint="the same command without --merge translates them",
            )
        done = [self.progress(shard) for shard in manifest.shards]
        for shard, progress in zip(manifest.shards, done, strict=True):
            self._check_contents(shard, progress)
        return Progress.joined(done), self._bytes(manifest)

    def _bytes(self, manifest: Manifest) -> Iterator[bytes]:
        n_head = len(self.layout.head())
        for shard in manifest.shards:
            with self.output(shard).path.open("rb") as file:
                if shard.number > 1:
                    file.seek(n_head)
                while block := file.read(BLOCK):
                    yield block
