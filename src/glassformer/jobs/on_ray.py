"""The shards of a job as tasks of Ray, which puts them on the machines of a cluster and repeats those that die."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from glassformer.errors import GlassformerError, MissingExtraError, RunError
from glassformer.jobs.job import model_digests
from glassformer.jobs.manifest import Shard
from glassformer.jobs.shards import Shards
from glassformer.translator import Translator

RETRIES = 3
"""How often the task of a shard is repeated when its process or machine dies."""


def run_tasks(
    shards: Shards, left: Sequence[Shard], load: Callable[[], Translator], *, n_gpus: int
) -> Iterator[tuple[Shard, bool]]:
    """Translate shards, one task for each; yield those that are done, and whether it was by the task.

    `load` is called in each task, with a CPU and `n_gpus`. The cluster is that of $RAY_ADDRESS, or this machine. Raises
    RunError when a task died too often, and the first error of a task.
    """
    ray = load_ray()
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False, configure_logging=False)
    shards = replace(shards, input=shards.input.absolute())
    task = ray.remote(max_retries=RETRIES, num_cpus=1, num_gpus=n_gpus)(translate_shard)
    running = {task.remote(shards, shard, load): shard for shard in left}
    try:
        while running:
            done, _ = ray.wait(list(running))
            for each in done:
                shard = running.pop(each)
                try:
                    found = ray.get(each)
                except ray.exceptions.RayError as error:
                    raise RunError(
                        f"the task of {shard} failed",
                        got=str(error).strip().splitlines()[-1],
                        hint="the same command continues the shards that are not done",
                    ) from None
                if isinstance(found, GlassformerError):
                    raise found
                yield shard, found
    finally:
        for each in running:
            ray.cancel(each, force=True)


def load_ray() -> Any:
    """Return the library. Raises MissingExtraError where it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else it reports to its makers
    try:
        import ray
    except ImportError:
        raise MissingExtraError("translating on Ray", package="ray", extra="ray") from None
    return ray


def translate_shard(shards: Shards, shard: Shard, load: Callable[[], Translator]) -> bool | GlassformerError:
    """Translate a shard in a task; return whether it was free, or the error that ended it."""
    try:
        with shards.taken(shard) as is_ours:
            if is_ours and not shards.is_done(shard):
                translator = load()
                check_models(shards, translator)
                for _ in shards.translate(shard, translator):
                    pass
            return is_ours
    except GlassformerError as error:
        return error


def check_models(shards: Shards, translator: Translator) -> None:
    """Raise RunError when the model files of this machine are not those of the manifest."""
    found = model_digests(translator.model_files)
    if found != shards.name["model"]:
        raise RunError(
            "the model on the machine of a task is another one",
            where=str(translator.model_file.path),
            got=", ".join(found),
            expected=", ".join(shards.name["model"]),
            hint="put the model into a folder that all machines share",
        )
