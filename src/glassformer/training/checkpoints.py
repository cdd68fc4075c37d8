"""The resume file: weights, optimizer, tokenizers, random state, recipe and position of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import nn

from glassformer.container import Arrays, read_tensors, write_tensors
from glassformer.errors import ModelFileError, RunError, quoted
from glassformer.modelfile import tokenizers_from_dict
from glassformer.settings import Settings
from glassformer.text import Tokenizer

RESUME_FORMAT = "glassformer-resume/2"


@dataclass
class Position:
    """The position of a run between two steps.

    `batch` is the number of batches of this epoch that are done, `seconds` the time of training so far, `without_gain`
    the number of validations since the best one. `rate_factor` and `max_tokens` are those of the `Updater`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_value: float | None = None
    best_loss: float | None = None
    without_gain: int = 0
    rate_factor: float = 1.0
    max_tokens: int | None = None

    def go_to(self, other: Position) -> None:
        """Take the values of another position."""
        vars(self).update(vars(other))


@dataclass(frozen=True)
class Origin:
    """The fingerprint of the pairs of a run, and its settings: a run is resumed with the same ones."""

    fingerprint: str
    settings: Settings


def save_resume(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    origin: Origin,
    tokenizers: Mapping[str, Any],
) -> None:
    """Write the resume file, atomically. `tokenizers` is the result of `tokenizers_to_dict`."""
    tensors = {f"model.{name}": value.detach().cpu().numpy() for name, value in model.named_parameters()}
    for (name, _), state in zip(model.named_parameters(), _states(optimizer), strict=True):
        tensors |= {f"adam.{key}.{name}": torch.as_tensor(value).cpu().numpy() for key, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state().numpy()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state().numpy()
    parts = {
        "position": asdict(position),
        "data": {"fingerprint": origin.fingerprint},
        "settings": origin.settings.model_dump(mode="json"),
        "tokenizers": tokenizers,
    }
    write_tensors(path, RESUME_FORMAT, tensors, parts)


def saved_tokenizers(path: Path, origin: Origin) -> tuple[Tokenizer, Tokenizer]:
    """Read the source and the target tokenizer of the run, instead of learning them with another library version.

    Raises RunError when the table or the settings are not those of `origin`.
    """
    return tokenizers_from_dict(_read_resume(path, origin)[1].tokenizers)


def load_resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, origin: Origin) -> Position:
    """Restore weights, optimizer and random state, and return the position.

    Raises RunError when the table, the settings or the shape of the model have changed, ModelFileError for a damaged
    file.
    """
    tensors, saved_parts = _read_resume(path, origin)
    saved = {name: array.shape for name, array in tensors.items() if name.startswith("model.")}
    if saved != {f"model.{name}": tuple(value.shape) for name, value in model.named_parameters()}:
        raise RunError(
            "the saved weights do not fit the model of the recipe",
            where=str(path),
            hint="restore the old recipe.toml, or start a new run",
        )
    states: dict[int, dict[str, Any]] = {}
    with torch.no_grad():
        for index, (name, parameter) in enumerate(model.named_parameters()):
            parameter.copy_(torch.from_numpy(tensors[f"model.{name}"]))
            keys = {key: f"adam.{key}.{name}" for key in ("step", "exp_avg", "exp_avg_sq")}
            if keys["step"] in tensors:
                states[index] = {key: torch.from_numpy(tensors[full].copy()) for key, full in keys.items()}
    optimizer.load_state_dict(optimizer.state_dict() | {"state": states})
    torch.set_rng_state(torch.from_numpy(tensors["random.cpu"]))
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(torch.from_numpy(tensors["random.cuda"]))
    return saved_parts.position


class _Parts(BaseModel):
    """The JSON parts of the file, typed."""

    model_config = ConfigDict(extra="forbid")

    position: Position
    data: dict[str, str]
    settings: dict[str, Any]
    tokenizers: dict[str, Any]


def _read_resume(path: Path, origin: Origin) -> tuple[Arrays, _Parts]:
    """Read the file of `save_resume`. Raises RunError when the table or the settings are not those of `origin`."""
    tensors, saved = read_tensors(path, RESUME_FORMAT)
    try:
        parts = _Parts(**saved)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        raise ModelFileError(
            f"{name!r} in the resume file is not valid",
            where=str(path),
            got=quoted(first["input"]),
            expected=first["msg"],
        ) from None
    found = parts.data.get("fingerprint", "")
    if found != origin.fingerprint:
        raise RunError(
            "the table is not the one that this run was trained on",
            where=str(path),
            got=f"rows with fingerprint {origin.fingerprint[:12]}",
            expected=f"fingerprint {found[:12]}",
            hint="restore the old table (--valid too, if there was one), or start a new run with --init",
        )
    if changed := _differences(parts.settings, origin.settings.model_dump(mode="json")):
        raise RunError(
            "the recipe was changed after this run began",
            where=str(path.parents[1] / "recipe.toml"),
            got=", ".join(f"{name} = {now}" for name, _, now in changed[:5]),
            expected=", ".join(f"{name} = {before}" for name, before, _ in changed[:5]),
            hint="restore the old recipe.toml, or start a new run with the changed one: --recipe",
        )
    return tensors, parts


def _differences(before: Any, now: Any, name: str = "") -> list[tuple[str, Any, Any]]:
    """Full name and both values of every setting that differs."""
    if not (isinstance(before, dict) and isinstance(now, dict)):
        return [] if before == now else [(name, before, now)]
    names = [*now, *(key for key in before if key not in now)]
    both = ((before.get(key), now.get(key), f"{name}.{key}" if name else key) for key in names)
    return [found for old, new, full in both for found in _differences(old, new, full)]


def _states(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [optimizer.state.get(parameter, {}) for group in optimizer.param_groups for parameter in group["params"]]
