"""From a table to a model, in one call.

for event in train("pairs.csv"): ...
translator = train("pairs.csv", members=5).finish()
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.data.given import Given
from glassformer.errors import UsageError
from glassformer.planning.plan import plan
from glassformer.runtime.devices import find_device
from glassformer.settings import Settings
from glassformer.training.loop import Run
from glassformer.training.members import Members


def train(
    pairs: Given,
    settings: Settings | None = None,
    out: str | Path = "run",
    *,
    overrides: Mapping[str, Any] | None = None,
    valid: Given | None = None,
    init: str | Path | None = None,
    members: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> Run | Members:
    """Plan a run and return it; iterate over its events, or call `finish()`. See `plan`, which raises the errors.

    `settings` are complete ones, `overrides` settings over what is advised; one of the two at most. With several
    `members`, so many models are trained into one file; `pairs` and `valid` are then paths.
    """
    if settings is not None and overrides:
        raise UsageError("settings are complete already", got="overrides too", hint="give settings or overrides")
    find_device(device)
    user_settings = settings if settings is not None else overrides
    planned = plan(
        pairs, out, overrides=user_settings, valid=valid, init=init, members=members, resume=resume, overwrite=overwrite
    )
    return Members(planned, pairs, valid, device, resume=resume) if members > 1 else Run(planned, device)
