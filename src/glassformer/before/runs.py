"""Several runs compared: how good each is, what it cost, and which settings differ."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, get_args

from filelock import FileLock, Timeout

from glassformer.before.recipes.overrides import flat, read_recipe
from glassformer.errors import GlassformerError, RunError, shortened
from glassformer.inference.metrics import higher_is_better
from glassformer.paper.settings import Metric
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.history import HistoryEvent, read_history


@dataclass(frozen=True)
class RunSummary:
    """One run: a value is None where its history does not have it.

    `state` is "finished", "running" or "stopped"; `step` is the last one, `value` the best of `metric`, at
    `best_step`, which is None where the weights are a mean of several. `settings` are those that differ between the
    runs that are compared, by full name.
    """

    name: str
    state: str
    step: int
    steps: int | None = None
    metric: str | None = None
    value: float | None = None
    best_step: int | None = None
    n_parameters: int | None = None
    train_rows: int | None = None
    minutes: float | None = None
    tokens_per_second: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """The runs of a directory, the best first, and what else is in it: name -> why it is not compared."""

    runs: tuple[RunSummary, ...]
    left_out: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """The comparison as one JSON object."""
        return {"runs": [asdict(run) for run in self.runs], "left_out": self.left_out}


def compare_runs(folder: Path) -> Comparison:
    """Compare the runs in the folders of a directory, or the one run that it is, or the members of that.

    A damaged run, and a folder that is not a run, are left out and named. Raises RunError for a directory that does not
    exist or contains no run.
    """
    if not folder.is_dir():
        raise RunError("this is not a directory", where=str(folder), expected="a directory with runs in it")
    folder = members if (members := RunDirectory(folder).members).is_dir() else folder
    own = RunDirectory(folder).recipe.exists()
    found = [folder] if own else sorted(each for each in folder.iterdir() if each.is_dir() and each.name[0] != ".")
    if not found:
        raise RunError("there is no run in this directory", where=str(folder), hint="glassformer train TABLE --out RUN")
    runs, left_out = [], {}
    for each in found:
        name = each.resolve().name
        try:
            runs.append(_summary(name, RunDirectory(each)))
        except GlassformerError as error:
            left_out[name] = f"{error.what}" + (f": {error.got}" if error.got else "")
    if not runs:
        named = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise RunError("there is no run to read in this directory", where=str(folder), got=shortened(named, 300))
    return Comparison(tuple(sorted(_differing(runs), key=_rank)), left_out)


def _summary(name: str, run: RunDirectory) -> RunSummary:
    """Return the summary of a run with all its settings. Raises an error for one that is damaged, or is not a run."""
    if not run.recipe.exists():
        raise RunError("not a run: it has no recipe.toml")
    settings = flat(read_recipe(run.recipe))
    if run.members.is_dir():
        raise RunError(f"a run of several models, which are compared by: glassformer runs {run.path}")
    if not run.history.exists():
        raise RunError("a run without a history: it ended before it began to train")
    events = read_history(run.history)
    try:
        return RunSummary(name, settings=settings, **_facts(events, run))
    except (TypeError, ValueError, ArithmeticError) as error:
        raise RunError("its history is damaged", got=str(error)[:200]) from None


def _facts(events: Sequence[HistoryEvent], run: RunDirectory) -> dict[str, Any]:
    by_kind = {kind: [event.fields for event in events if event.kind == kind] for kind in ("started", "progress")}
    started = by_kind["started"][-1] if by_kind["started"] else {}
    last = events[-1].fields if events else {}
    best = [event.fields for event in events if event.kind == "validated" and event.fields.get("best")]
    speeds = [float(fields["tokens_per_second"]) for fields in by_kind["progress"] if "tokens_per_second" in fields]
    chosen = best[-1] if best else {}
    is_finished = events[-1].kind == "finished" if events else False
    value = last.get("value") if is_finished else chosen.get("value")
    step = None if str(last.get("chosen")).startswith("the mean") else chosen.get("step")
    return {
        "state": "running" if _is_locked(run) else "finished" if is_finished else "stopped",
        "step": int(last.get("step", 0)),
        "steps": started.get("steps"),
        "metric": chosen.get("metric"),
        "value": None if value is None else float(value),
        "best_step": None if step is None else int(step),
        "n_parameters": started.get("n_parameters"),
        "train_rows": started.get("train_rows"),
        "minutes": float(last.get("seconds", 0)) / 60,
        "tokens_per_second": statistics.median(speeds) if speeds else None,
    }


def _differing(runs: Sequence[RunSummary]) -> Iterable[RunSummary]:
    """Yield the runs with only those settings that are not the same in all of them."""
    names = {name for run in runs for name in run.settings}
    differing = sorted(
        name for name in names if any(run.settings.get(name) != runs[0].settings.get(name) for run in runs)
    )
    for run in runs:
        yield RunSummary(**{**vars(run), "settings": {name: run.settings.get(name) for name in differing}})


def _rank(run: RunSummary) -> tuple[str, bool, float, str]:
    """Order: by metric, and of one metric the best value first; runs without a value last."""
    for metric in get_args(Metric):
        if run.metric == metric and isinstance(run.value, int | float):
            return (metric, False, -run.value if higher_is_better(metric) else run.value, run.name)
    return ("~", True, 0.0, run.name)


def _is_locked(run: RunDirectory) -> bool:
    """Whether a process trains there now; a lock file alone may be left by one that was killed."""
    try:
        with FileLock(run.lock, blocking=False) if run.lock.exists() else contextlib.nullcontext():
            return False
    except (Timeout, OSError):
        return True
