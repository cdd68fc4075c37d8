"""What is decided before a run is resumed: that its tables, recipe and settings are the same, except a few settings.

Other tables are refused. Other versions and numbers of processes are allowed, and named in a notice: sums are then
rounded in another order, and several processes draw other numbers for dropout.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer.data.prepare import tables_of
from glassformer.data.tables import Table
from glassformer.errors import RunError, SettingsError, UsageError
from glassformer.planning.recipes.overrides import check_settings, flat, merge, nested, read_recipe
from glassformer.runtime.processes import Processes
from glassformer.settings import Settings
from glassformer.storage.checkpoints import SavedRun, is_before_first, read_resume
from glassformer.storage.rundirectory import RunDirectory

DIGITS = 12  # of a fingerprint that is shown
CHANGEABLE = {f"training.{name}" for name in ("steps", "max_minutes", "patience", "precision")}
"""The settings that can change when a run is resumed."""
BEGINS_AGAIN = (
    "the run was stopped before its first checkpoint: it begins again at step 0, with the settings of its recipe"
)


@dataclass(frozen=True)
class Notice:
    """A notice before a run: `kind` for programs, `text` for people, and the path of its table, or of a resumed run."""

    kind: str
    text: str
    table: str


@dataclass(frozen=True)
class Resumed:
    """A run that is resumed: its newest checkpoint, its settings from now on, and a line for each change of them."""

    saved: SavedRun
    settings: Settings
    changes: tuple[str, ...]
    notices: tuple[Notice, ...]


@dataclass(frozen=True)
class Beginning:
    """What a run begins with, or continues from.

    `overrides` are settings over what is advised; with `complete`, all settings, nothing is. `init` is the model to
    start from, `resumed` what a run of one model continues from.
    """

    overrides: Mapping[str, Any]
    complete: Settings | None = None
    init: str | Path | None = None
    overwrite: bool = False
    is_resumed: bool = False
    resumed: Resumed | None = None
    notices: tuple[Notice, ...] = ()


def resumed_beginning(
    directory: RunDirectory, overrides: Mapping[str, Any], members: int, processes: Processes, *, replaces: bool
) -> Beginning:
    """Decide how the run in a directory goes on, with the settings that are given now.

    A run without a checkpoint begins again, with its recipe. Raises UsageError for arguments that exclude `resume` (its
    weights or files would be replaced: `replaces`), and for settings that cannot change; RunError for a run that cannot
    be resumed.
    """
    _check_resume(directory, members, replaces=replaces)
    if members > 1:
        settings = _settings_of_members(directory, overrides)
        return Beginning(settings.model_dump(), settings, init_of(directory.recipe), is_resumed=True)
    notice = Notice("no checkpoint", BEGINS_AGAIN, str(directory.path))
    if (raced := settings_before_race(directory.recipe)) is not None:
        fixed = check_settings(merge(raced, overrides))
        return Beginning(fixed, overwrite=True, is_resumed=True, notices=(notice,))
    if is_before_first(directory):
        settings = Settings(**merge(recipe_of_run(directory.recipe).model_dump(), overrides))
        init = init_of(directory.recipe)
        return Beginning(settings.model_dump(), settings, init, overwrite=True, is_resumed=True, notices=(notice,))
    resumed = resume_run(directory, overrides, processes)
    return Beginning(resumed.settings.model_dump(), is_resumed=True, resumed=resumed, notices=resumed.notices)


def _check_resume(directory: RunDirectory, members: int, *, replaces: bool) -> None:
    """Raise UsageError for arguments that exclude `resume`, and for another number of models than was begun."""
    what, has_members = "", directory.members.is_dir()
    if replaces:
        what = "resume excludes init and overwrite: a run that is resumed keeps its weights and its files"
        hint = "leave them out to continue the run, or leave out resume to start a new one"
    elif directory.recipe.exists() and has_members != (members > 1):
        what = "the run has several models" if has_members else "it is a run of one model"
        hint = "members: the number that it was begun with"
    if what:
        raise UsageError(what, where=str(directory.path), hint=hint)


def _settings_of_members(directory: RunDirectory, overrides: Mapping[str, Any]) -> Settings:
    """Return the settings that members were begun with. Raises UsageError for changes."""
    before = recipe_of_run(directory.recipe)
    if changed := differences(before, Settings(**merge(before.model_dump(), overrides))):
        what = "the settings of members cannot change when they are resumed"
        where, hint = str(directory.recipe), "leave them out, or start again: --overwrite"
        raise UsageError(what, where=where, hint=hint, **got_and_expected(changed))
    return before


def resume_run(directory: RunDirectory, overrides: Mapping[str, Any], processes: Processes) -> Resumed:
    """Decide how a run continues, with the settings that are given now.

    Raises RunError when its recipe was edited, UsageError for a given setting that cannot change.
    """
    directory.check_resumable()
    saved = read_resume(directory.resume)
    step, before, after = saved.position.step, saved.settings, Settings(**merge(saved.settings.model_dump(), overrides))
    changed = differences(before, after)
    if fixed := {name: values for name, values in changed.items() if name not in CHANGEABLE}:
        what = "only steps, minutes, patience and precision can change when a run is resumed"
        hint = "start a new run from its model, in another folder: --init RUN"
        raise UsageError(what, where=str(directory.recipe), hint=hint, **got_and_expected(fixed))
    if after.training.steps < step:
        what, got = f"the run has already made {step:,} steps", f"training.steps = {after.training.steps:,}"
        raise UsageError(what, where=str(directory.path), got=got, expected="no fewer")
    if directory.recipe.exists():
        _check_recipe(directory.recipe, before, after)
    changes = tuple(f"{name}: {old} → {new}" for name, (old, new) in changed.items())
    continues = f"continues after step {step:,}, from the weights of that step (not the best ones), with changes:"
    texts = {
        "damaged checkpoint": saved.damage
        and f"the newest checkpoint is damaged ({saved.damage}); "
        f"the run continues from the one before it, after step {step:,}",
        "environment": describe_environment(saved.environment, processes.environment()),
        "changed": "\n  ".join((continues, *changes)) if changes else None,
    }
    notices = tuple(Notice(kind, text, str(directory.path)) for kind, text in texts.items() if text)
    return Resumed(saved, after, changes, notices)


def recipe_of_run(path: Path, hint: str = "restore it, or start a new run with --overwrite") -> Settings:
    """Read the recipe of a run. Raises SettingsError, with a hint."""
    try:
        return Settings(**read_recipe(path))
    except SettingsError as error:
        error.where = str(path)
        error.hint = error.hint or hint
        raise


def _check_recipe(path: Path, before: Settings, after: Settings) -> None:
    """Raise RunError when the recipe of a run was edited.

    The one from `after` a change is accepted: a process was killed between writing it and the checkpoint.
    """
    recipe = recipe_of_run(path, "delete it: the checkpoint has all settings, and the recipe is written again")
    if recipe not in (before, after):
        what, changed = "the recipe was changed after this run began", got_and_expected(differences(before, recipe))
        change = "change its steps, minutes, patience or precision with --set NAME=VALUE"
        hint = f"restore or delete it, and {change}; or start a new run with the changed one: --recipe"
        raise RunError(what, where=str(path), hint=hint, **changed)


def differences(before: Settings, after: Settings) -> dict[str, tuple[Any, Any]]:
    """Full name of each setting that differs -> both values, as JSON values."""
    old, new = (flat(settings.model_dump(mode="json")) for settings in (before, after))
    return {name: (old[name], new[name]) for name in new if old[name] != new[name]}


def got_and_expected(changed: Mapping[str, tuple[Any, Any]]) -> dict[str, str]:
    """Return what an error says of the first differences: each setting with its value now, and with that before."""
    first = [*changed.items()][:5]
    got, expected = (", ".join(f"{name} = {values[i]}" for name, values in first) for i in (1, 0))
    return {"got": got, "expected": expected}


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


def check_tables(saved: SavedRun, table: Table, valid: Table | None, path: Path) -> None:
    """Raise RunError when a table is not the table of the run whose checkpoint is at `path`."""
    before, now = saved.data, tables_of(table, valid)
    if before.get("fingerprint") == now["fingerprint"]:
        return
    what = "the table is not the one that this run was trained on"
    got = f"{_shown(now, 'rows', 'table')} in {table.path}"
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


# The model to start from, in the recipe

_INIT = "# Starts from the model: "
_RACE = "# A race decides on settings but these: "


def recipe_of(settings: Settings, init: Path | None = None, reasons: Mapping[str, str] | None = None) -> str:
    """Return the recipe of a run as TOML, with the model to start from and the reasons of settings as comments."""
    return (f"{_INIT}{json.dumps(str(init))}\n\n" if init else "") + settings.to_toml(reasons)


def recipe_before_race(settings: Settings, fixed: Mapping[str, Any]) -> str:
    """Return the recipe of a run before its race, with the settings that are `fixed` in it, by full name."""
    return f"{_RACE}{json.dumps(fixed)}\n\n{settings.to_toml()}"


def settings_before_race(recipe: Path) -> dict[str, Any] | None:
    """Return the settings that are fixed in the race of a run that was stopped before its end; None: there is none."""
    first = recipe.read_text(encoding="utf-8", errors="replace").partition("\n")[0] if recipe.exists() else ""
    try:
        return nested(json.loads(first.removeprefix(_RACE))) if first.startswith(_RACE) else None
    except ValueError:
        what, expected = "the recipe does not name the settings of its race", f"{_RACE}{{}}"
        raise SettingsError(what, where=f"{recipe}, line 1", got=first, expected=expected) from None


def reasons_in(recipe: Path, settings: Settings) -> dict[str, str]:
    """Return the reasons that a recipe has for settings, by full name, of those whose values are still the same."""
    text = recipe.read_text(encoding="utf-8")
    before, section, reasons = recipe_of_run(recipe), "", dict[str, str]()
    for line in text.splitlines():
        key, _, value = line.partition(" = ")
        if line.startswith("["):
            section = line.strip("[]")
        elif not line.startswith("#") and "  # " in value:
            reasons[f"{section}.{key}"] = value.rpartition("  # ")[2]
    return {name: reason for name, reason in reasons.items() if name not in differences(before, settings)}


def init_of(recipe: Path) -> str | None:
    """Return the model that the run with this recipe starts from, if any. Raises SettingsError for a damaged line."""
    first = recipe.read_text(encoding="utf-8").partition("\n")[0]
    try:
        return str(json.loads(first.removeprefix(_INIT))) if first.startswith(_INIT) else None
    except ValueError:
        what, expected = "the recipe does not name the model to start from", f'{_INIT}"MODEL"'
        raise SettingsError(what, where=f"{recipe}, line 1", got=first, expected=expected) from None
