"""Settings that are changed when a run is resumed: which may change, which may not and why, and what is recorded.

A change is written into the resume file, the history, the model card and, as a comment, into `recipe.toml`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict

from glassformer.errors import SettingsError, UsageError
from glassformer.paper.settings import Settings
from glassformer.training.objective import learning_rate
from glassformer.training.recipes.overrides import flat, merge, nested

FIXED = {
    "data.": "it decides which rows the run trains and validates on",
    "tokens.": "the weights belong to the tokens that the run began with",
    "model.": "the weights and the checkpoints have this shape",
    "training.seed": "the split and the order of the rows follow from it",
    "training.metric": "the validations so far could not be compared with the next ones",
    "training.validate_beams": "the validations so far could not be compared with the next ones",
    "training.validate_rows": "the validations so far could not be compared with the next ones",
}
"""Start of the full name of settings that cannot change in a resumed run -> the reason."""

_INIT = "# Starts from the model: "


@dataclass(frozen=True)
class Change:
    """A setting that was changed after `step` updates, at `time` (UTC)."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    setting: str
    before: Any
    after: Any
    step: int
    time: str

    def __str__(self) -> str:
        return f"{self.setting}: {_shown(self.before)} → {_shown(self.after)}"

    @property
    def when(self) -> str:
        """Step and time, for people."""
        return f"after step {self.step:,}, {self.time}"


def differences(before: Settings, after: Settings) -> dict[str, tuple[Any, Any]]:
    """Full name of each setting that differs -> both values, as JSON values."""
    old, new = (flat(settings.model_dump(mode="json")) for settings in (before, after))
    return {name: (old[name], new[name]) for name in new if old[name] != new[name]}


def changes_of(before: Settings, after: Settings, step: int, where: Path) -> tuple[Change, ...]:
    """Return the changes from the saved settings of a run to others, now. Raises UsageError for one that is fixed."""
    found = differences(before, after)
    for name, (old, new) in found.items():
        reason = next((FIXED[start] for start in FIXED if name.startswith(start)), None)
        if reason is not None:
            raise UsageError(
                f"the setting {name!r} cannot change in a run that is resumed: {reason}",
                where=str(where),
                got=_shown(new),
                expected=_shown(old),
                hint=f"what can change: {_changeable()}; or start a new run from this model with --init",
            )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return tuple(Change(name, old, new, step, now) for name, (old, new) in found.items())


def undo_last(settings: Settings, changes: Sequence[Change]) -> Settings:
    """Return settings without the changes of the last resume."""
    last = {change.setting: change.before for change in changes if change.time == changes[-1].time}
    return Settings(**merge(settings.model_dump(), nested(last)))


def recipe_of(settings: Settings, changes: Iterable[Change], init: Path | None = None) -> str:
    """Return the recipe of a run as TOML, with comments at the top: the model to start from, or what has changed."""
    lines = [f"#   {change} ({change.when})\n" for change in changes]
    header = [f"{_INIT}{json.dumps(str(init))}\n\n"] if init else []
    header += ["# Changed when the run was resumed:\n", *lines, "\n"] if lines else []
    return "".join(header) + settings.to_toml()


def init_of(recipe: Path) -> str | None:
    """Return the model that the run with this recipe starts from, if any. Raises SettingsError for a damaged line."""
    first = recipe.read_text(encoding="utf-8").partition("\n")[0]
    try:
        return str(json.loads(first.removeprefix(_INIT))) if first.startswith(_INIT) else None
    except ValueError:
        what, expected = "the recipe does not name the model to start from", f'{_INIT}"MODEL"'
        raise SettingsError(what, where=f"{recipe}, line 1", got=first, expected=expected) from None


def description(before: Settings, after: Settings, changes: Sequence[Change], step: int, batch: int) -> str:
    """Return what a resumed run does with its changes: a line for each, and the learning rate of the next step.

    `batch` is the number of batches that are done in the epoch.
    """
    lines = [f"continues after step {step:,}, from the weights of that step (not the best ones), with changes:"]
    lines += [f"  {change}" for change in changes]
    names = {change.setting for change in changes}
    rates = [learning_rate(step + 1, each.training, each.model.d_model) for each in (before, after)]
    if rates[0] != rates[1]:
        shape = f"{after.training.schedule} schedule, {after.training.steps:,} steps"
        lines.append(f"  learning rate of step {step + 1:,}: {rates[0]:.2g} → {rates[1]:.2g} ({shape})")
    if "training.batch_tokens" in names and batch:
        lines.append("  the rows that are left of this epoch are divided into new batches; no row is repeated")
    if after.training.steps <= step:
        lines.append("  all steps are done: the run ends here")
    return "\n".join(lines)


def _changeable() -> str:
    kept = [name.removeprefix("training.") for name in FIXED if name.startswith("training.")]
    return f"decoding.…, and training.… except {', '.join(kept)}"


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)
