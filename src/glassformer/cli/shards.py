"""A translation job in shards, of the command line: a worker, the tasks of Ray, and the merge of the answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import typer

from glassformer.cli.console import Reporter
from glassformer.cli.jobs import Files, Models, Rows, Shape
from glassformer.cli.narrate_job import print_input, show_progress, warn_about
from glassformer.errors import EXIT_LEFT_OUT, UsageError, nearest

if TYPE_CHECKING:
    from glassformer.jobs.manifest import Manifest
    from glassformer.jobs.shards import Shards
    from glassformer.jobs.stream import Long
    from glassformer.translator import Translator

RAY = "ray"


@dataclass(frozen=True)
class Sharding:
    """Into how many shards a job is divided, whether they are merged, and what translates them."""

    n_shards: int | None
    merge: bool
    on: str | None

    def check(self, files: Files) -> bool:
        """Return whether the job has shards. Raises UsageError for options that do not fit."""
        if self.n_shards is None:
            if self.merge or self.on is not None:
                raise UsageError("--merge and --on are for a job in shards", hint="--shards N --out DIR")
            return False
        if self.on not in (None, RAY):
            raise UsageError(f"--on {self.on} is not available", hint=nearest(str(self.on), [RAY]))
        if self.merge and self.on is not None:
            raise UsageError("--merge and --on are both given", hint="translate first, then merge")
        if self.on is not None:
            from glassformer.jobs.on_ray import load_ray

            load_ray()
        if files.out is None:
            raise UsageError("--shards needs a folder", hint="--out DIR")
        if files.resume or files.overwrite or files.ledger is not None:
            raise UsageError(
                "--resume, --overwrite and --ledger are not for a job in shards",
                hint="the same command continues it, another --out starts a new one",
            )
        return True


def run_shards(
    reporter: Reporter,
    files: Files,
    models: Models,
    rows: Rows,
    shape: Shape,
    options: dict[str, Any],
    *,
    sharding: Sharding,
    prefix: str,
    long: str,
) -> None:
    """Translate the shards of a job that are free, or print all answers. Raises typer.Exit when rows were left out."""
    from glassformer.jobs.inputs import Digest
    from glassformer.jobs.job import describe_job
    from glassformer.jobs.shards import Shards
    from glassformer.jobs.stream import Search

    assert files.out is not None
    assert sharding.n_shards is not None
    if prefix and rows.prefix_column is not None:
        raise UsageError("--prefix and --prefix-column are both given", hint="give one of them")
    model_files = models.read()
    given = rows.input(model_files[0].source_tokenizer.inputs, None)
    if given.arrives:
        raise UsageError("--shards needs an input that every worker can read", got=rows.source, hint="a file")
    search = Search(model_files[0].settings.decoding.override(options), cast("Long", long))
    digest = Digest()
    scanned = given.scan(digest)
    layout = shape.layout(given, scanned, None)
    more = {"prefix": prefix, "precision": models.precision, "engine": models.engine}
    name = describe_job(model_files, search, layout, scanned, **more)
    shards = Shards(files.out.absolute(), given, search, layout, prefix, name)
    shards.check_folder()
    load = None if sharding.merge else cache(partial(models.load, model_files))
    if load is not None:
        print_input(reporter, given, scanned, None)
    manifest = shards.open(sharding.n_shards, scanned.ledger.read, str(digest), load)
    if load is None:
        _merge(reporter, shards, manifest)
    elif sharding.on == RAY:
        _run_on_ray(reporter, shards, manifest, models)
    else:
        _work(reporter, shards, manifest, load)


def _work(reporter: Reporter, shards: Shards, manifest: Manifest, load: Callable[[], Translator]) -> None:
    """Translate the shards that are neither done nor taken, one after the other."""
    with closing(shards.take(manifest)) as free:
        for shard in free:
            reporter.print(f"{shard} of {len(manifest.shards):,}")
            progress = shards.progress(shard)
            try:
                with show_progress(reporter, shard.n_rows, progress.rows, to_terminal=False) as on_answers:
                    for progress in shards.translate(shard, load(), on_answers):  # noqa: B007, the last one counts
                        pass
            finally:
                warn_about(reporter, progress)
    _print_left(reporter, shards, manifest)


def _print_left(reporter: Reporter, shards: Shards, manifest: Manifest) -> None:
    left = [str(shard.number) for shard in manifest.shards if not shards.is_done(shard)]
    n_shards = len(manifest.shards)
    if left:
        reporter.print(
            f"{n_shards - len(left):,} of {n_shards:,} shards are done; other workers have {', '.join(left[:10])}"
            f"{', …' if len(left) > 10 else ''}. If one of them has ended, the same command continues its shard"
        )
    else:
        reporter.print(f"all {n_shards:,} shards are done; the same command with --merge prints the answers")


def _merge(reporter: Reporter, shards: Shards, manifest: Manifest) -> None:
    """Print the answers of all shards in the order of the rows."""
    progress, blocks = shards.merged(manifest)
    for block in blocks:
        sys.stdout.buffer.write(block)
    sys.stdout.buffer.flush()
    warn_about(reporter, progress)
    if progress.left_out.count:
        raise typer.Exit(EXIT_LEFT_OUT)


def _run_on_ray(reporter: Reporter, shards: Shards, manifest: Manifest, models: Models) -> None:
    """Translate the shards as tasks of Ray, one for each."""
    from glassformer.jobs.on_ray import run_tasks

    absolute = replace(models, path=models.path.absolute(), ensemble=[path.absolute() for path in models.ensemble])
    left = [shard for shard in manifest.shards if not shards.is_done(shard)]
    with show_progress(reporter, sum(shard.n_rows for shard in left), 0, to_terminal=False) as on_answers:
        for shard, is_ours in run_tasks(shards, left, absolute.load_anew, n_gpus=int(models.device.startswith("cuda"))):
            if is_ours and on_answers is not None:
                on_answers(shard.n_rows)
    _print_left(reporter, shards, manifest)
