"""What is decided before a run is resumed: that its tables and recipe are the same, and what changes.

Other tables are refused. Other versions and numbers of processes are allowed, and named: sums are then rounded in
another order, and several processes draw other numbers for dropout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from glassformer.before.notices import Notice, NoticeKind
from glassformer.before.recipes.overrides import flat, merge, nested, read_recipe
from glassformer.data.tables import Table
from glassformer.errors import RunError, SettingsError, UsageError
from glassformer.paper.settings import Settings
from glassformer.ship.storage.rundirectory import RunDirectory
from glassformer.training.checkpoints import SavedRun, read_resume
from glassformer.training.events import Change, shown_value
from glassformer.training.objective import learning_rate
from glassformer.training.prepare import tables_of
from glassformer.training.processes import Processes

DIGITS = 12  # of a fingerprint that is shown
FIXED = {
    "data.": "it decides which rows the run trains and validates on",
    "tokens.": "the weights belong to the tokens that the run began with",
    "model.": "the weights and the checkpoints have this shape",
    "training.seed": "the split and the order of the rows follow from it",
    "training.members": "it is a run of one model",
    "training.metric": "the validations so far could not be compared with the next ones",
    "training.validate_beams": "the validations so far could not be compared with the next ones",
    "training.validate_rows": "the validations so far could not be compared with the next ones",
}
"""Start of the full name of settings that cannot change in a resumed run -> the reason."""


@dataclass(frozen=True)
class Resumed:
    """A run that is resumed: its newest checkpoint, its settings from now on, and how they were changed."""

    saved: SavedRun
    settings: Settings
    changes: tuple[Change, ...]
    notices: tuple[Notice, ...]


def resume_run(directory: RunDirectory, given: Mapping[str, Any], processes: Processes) -> Resumed:
    """Decide how a run continues, with the settings that are given now.

    Raises RunError when its recipe was edited, UsageError for a given setting that cannot change.
    """
    directory.check_resumable()
    saved = read_resume(directory.resume)
    if directory.recipe.exists():
        _check_recipe(saved, directory.recipe)
    before, position = saved.settings, saved.position
    after = Settings(**merge(before.model_dump(), given))
    changes = changes_of(before, after, position.step, directory.recipe)
    texts: dict[NoticeKind, str | None] = {
        "damaged checkpoint": saved.damage
        and f"the newest checkpoint is damaged ({saved.damage}); "
        f"the run continues from the one before it, after step {position.step:,}",
        "environment": describe_environment(saved.environment, processes.environment()),
        "changed": description(saved, after, changes) if changes else None,
    }
    notices = tuple(Notice(kind, text, str(directory.path)) for kind, text in texts.items() if text)
    return Resumed(saved, after, changes, notices)


def recipe_of_run(path: Path, hint: str) -> Settings:
    """Read the recipe of a run. Raises SettingsError, with a hint."""
    try:
        return Settings(**read_recipe(path))
    except SettingsError as error:
        error.where = str(path)
        error.hint = error.hint or hint
        raise


def _check_recipe(saved: SavedRun, path: Path) -> None:
    """Raise RunError when the recipe of a run was edited.

    The recipe from before the last change is accepted: a process was killed between writing the two files.
    """
    recipe = recipe_of_run(path, "delete it: the checkpoint has all settings, and the recipe is written again")
    edited = differences(saved.settings, recipe)
    if not edited:
        return
    last = {change.setting: change.before for change in saved.changes if change.time == saved.changes[-1].time}
    if last and recipe == Settings(**merge(saved.settings.model_dump(), nested(last))):
        return
    raise RunError(
        "the recipe was changed after this run began",
        where=str(path),
        **got_and_expected(edited),
        hint="restore the old recipe.toml, and change a setting with --resume --set NAME=VALUE; "
        "or start a new run with the changed one: --recipe",
    )


# Settings


def differences(before: Settings, after: Settings) -> dict[str, tuple[Any, Any]]:
    """Full name of each setting that differs -> both values, as JSON values."""
    old, new = (flat(settings.model_dump(mode="json")) for settings in (before, after))
    return {name: (old[name], new[name]) for name in new if old[name] != new[name]}


def got_and_expected(found: Mapping[str, tuple[Any, Any]]) -> dict[str, str]:
    """Return what an error says of the first differences: each setting with its value now, and with that before."""
    first = [*found.items()][:5]
    got, expected = (", ".join(f"{name} = {values[i]}" for name, values in first) for i in (1, 0))
    return {"got": got, "expected": expected}


def changes_of(before: Settings, after: Settings, step: int, where: Path) -> tuple[Change, ...]:
    """Return the changes from the saved settings of a run to others, now. Raises UsageError for one that is fixed."""
    found = differences(before, after)
    for name, (old, new) in found.items():
        reason = next((FIXED[start] for start in FIXED if name.startswith(start)), None)
        if reason is not None:
            kept = [one.removeprefix("training.") for one in FIXED if one.startswith("training.")]
            changeable = f"decoding.…, and training.… except {', '.join(kept)}"
            raise UsageError(
                f"the setting {name!r} cannot change in a run that is resumed: {reason}",
                where=str(where),
                got=shown_value(new),
                expected=shown_value(old),
                hint=f"what can change: {changeable}; or start a new run from this model with --init",
            )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return tuple(Change(name, old, new, step, now) for name, (old, new) in found.items())


def description(saved: SavedRun, after: Settings, changes: Sequence[Change]) -> str:
    """Return what a resumed run does with its changes: a line for each, and the learning rate of the next step."""
    step, names = saved.position.step, {change.setting for change in changes}
    lines = [f"continues after step {step:,}, from the weights of that step (not the best ones), with changes:"]
    lines += [f"  {change}" for change in changes]
    rates = [learning_rate(step + 1, each.training, each.model.d_model) for each in (saved.settings, after)]
    if rates[0] != rates[1]:
        shape = f"{after.training.schedule} schedule, {after.training.steps:,} steps"
        lines.append(f"  learning rate of step {step + 1:,}: {rates[0]:.2g} → {rates[1]:.2g} ({shape})")
    if "training.batch_tokens" in names and saved.position.batch:
        lines.append("  the rows that are left of this epoch are divided into new batches; no row is repeated")
    if after.training.steps <= step:
        lines.append("  all steps are done: the run ends here")
    return "\n".join(lines)


def describe_environment(saved: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """Return what differs between the environments of a run until now and from now on; None: nothing."""
    names = [name for name in saved if saved[name] != now.get(name)]
    if not names:
        return None
    before, after = (", ".join(f"{name} {record.get(name, 'none')}" for name in names) for record in (saved, now))
    return (
        f"the run was computed with {before}, and continues with {after}: allowed, but its weights may differ by "
        "rounding (and dropout, with several processes) from those of a run that was not interrupted"
    )


# Tables


def check_tables(saved: SavedRun, table: Table, valid: Table | None, path: Path) -> None:
    """Raise RunError when a table is not that of the run whose checkpoint is at `path`."""
    before, now = saved.data, tables_of(table, valid)
    if before.get("fingerprint") == now["fingerprint"]:
        return
    what, got = (
        "the table is not the one that this run was trained on",
        f"{_shown(now, 'rows', 'table')} in {table.path}",
    )
    expected = _shown(before, "rows", "table")
    if before.get("table") == now["table"]:
        what = "the validation table is not the one of this run"
        got, expected = (_shown(record, "valid_rows", "valid") for record in (now, before))
    hint = "restore the old table (--valid too, if there was one), or start a new run with --init"
    raise RunError(what, where=str(path), got=got, expected=expected, hint=hint)


def _shown(record: Mapping[str, str], rows: str, name: str) -> str:
    if name not in record:
        return "no validation table: held-out rows"
    return f"{int(record[rows]):,} rows with fingerprint {record[name][:DIGITS]}"
