"""The resume file: weights, optimizer, tokenizers, random state, settings and position of a run.

The file before the newest one is kept too. It is read when the newest one is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import nn

from glassformer.errors import ModelFileError, RunError, SettingsError, first_fault
from glassformer.runtime.processes import Processes
from glassformer.settings import Settings
from glassformer.storage.container import Arrays, read_tensors, write_tensors
from glassformer.storage.rundirectory import RunDirectory

RESUME_FORMAT = "glassformer-resume/2"


@dataclass(frozen=True)
class Decay:
    """The decay of the learning rate of wsd: it begins after a step, and ends at the last one of the run.

    `reason` is why, `is_settled` whether that is because there was no gain any more.
    """

    after: int
    last_step: int
    reason: str
    is_settled: bool = False


@dataclass
class Position:
    """The position of a run between two steps.

    `batch` is the number of batches of this epoch that are done, `seconds` the time of training so far, `without_gain`
    the number of validations since the last gain: a better metric, or a loss lower than `lowest_loss`. `rate_factor`
    multiplies the learning rate of the schedule. `max_tokens` limits the tokens of a part of a batch (padded, the
    longer side) once one did not fit into memory. `batch_parts` is the number of parts that are computed at the same
    time; None where they are not.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_value: float | None = None
    best_loss: float | None = None
    lowest_loss: float | None = None
    without_gain: int = 0
    rate_factor: float = 1.0
    max_tokens: int | None = None
    batch_parts: int | None = None
    decay: Decay | None = None


class SavedRun(BaseModel):
    """What the resume file says about a run: the JSON parts of the file, typed.

    `data` has the fingerprint of the pairs, which never changes, and describes the tables. It and `environment`, what
    computes the run, are only compared when the run is resumed. `tokenizers` are those of `tokenizers_to_dict`, and are
    not learned again. `damage` says what is wrong with the newest checkpoint, if this is the previous one.
    """

    model_config = ConfigDict(extra="forbid")

    position: Position
    data: dict[str, str]
    settings: Settings
    tokenizers: dict[str, Any]
    environment: dict[str, str] = {}
    damage: str | None = Field(default=None, exclude=True)


def save_resume(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    run: SavedRun,
    processes: Processes = Processes(),  # noqa: B008  (immutable)
) -> None:
    """Write the resume file, atomically; the old one is then the previous one of `RunDirectory`.

    All processes of a run must call it, and the first one writes.
    """
    device = next(model.parameters()).device
    states = {"random.cpu": torch.get_rng_state().numpy()}
    if device.type == "cuda":
        states["random.cuda"] = torch.cuda.get_rng_state(device).numpy()
    gathered = processes.gather(states)
    if not processes.is_first:
        return
    tensors = {f"model.{name}": value.detach().cpu().numpy() for name, value in model.named_parameters()}
    for name, parameter in model.named_parameters():
        state = optimizer.state.get(parameter, {})
        tensors |= {f"adam.{key}.{name}": torch.as_tensor(value).cpu().numpy() for key, value in state.items()}
    for rank, states in enumerate(gathered):
        tensors |= {f"{name}.{rank}" if rank else name: state for name, state in states.items()}
    write_tensors(path, RESUME_FORMAT, tensors, run.model_dump(mode="json"), previous=_previous(path))


def read_resume(path: Path) -> SavedRun:
    """Read what the resume file says about a run, or the previous one if it is damaged. Raises ModelFileError."""
    return _read_newest(path)[1]


def is_before_first(directory: RunDirectory) -> bool:
    """Whether a run was stopped before its first checkpoint: it has a recipe, and its history names no checkpoint."""
    if directory.resume.exists() or directory.previous_resume.exists() or not directory.recipe.exists():
        return False
    if not directory.history.exists():
        return not directory.model.exists()
    return directory.resume.name.encode() not in directory.history.read_bytes()


def load_resume(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    processes: Processes = Processes(),  # noqa: B008  (immutable)
) -> SavedRun:
    """Restore weights, optimizer and random state, and return what else the file says.

    The number of processes may be another than that which saved the file. A process that was not there draws new random
    numbers.

    Raises RunError when the shape of the model has changed, ModelFileError for a damaged file. That the table is the
    same is checked before, by `planning.resume`.
    """
    tensors, saved_run = _read_newest(path)
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
            keys = {key: f"adam.{key}.{name}" for key in ("step", "exp_avg", "exp_avg_sq", "average")}
            state = {key: torch.from_numpy(tensors[full].copy()) for key, full in keys.items() if full in tensors}
            if state:
                states[index] = state
    optimizer.load_state_dict(optimizer.state_dict() | {"state": states})
    processes.seed_apart(saved_run.settings.training.seed, saved_run.position.step)
    of_rank = f".{processes.rank}" if processes.rank else ""
    if f"random.cpu{of_rank}" in tensors:
        torch.set_rng_state(torch.from_numpy(tensors[f"random.cpu{of_rank}"]))
    if f"random.cuda{of_rank}" in tensors and (device := next(model.parameters()).device).type == "cuda":
        torch.cuda.set_rng_state(torch.from_numpy(tensors[f"random.cuda{of_rank}"]), device)
    return saved_run


def _previous(path: Path) -> Path:
    return path.with_name(RunDirectory(path).previous_resume.name)


def _read_newest(path: Path) -> tuple[Arrays, SavedRun]:
    """Read the resume file, or the previous one if it is damaged or not there. Raises ModelFileError."""
    try:
        return _read(path)
    except ModelFileError as error:
        try:
            tensors, saved = _read(_previous(path))
        except ModelFileError:
            error.hint = "there is no other checkpoint: restore it, or start a new run from the model with --init"
            raise error from None
        saved.damage = ": ".join(filter(None, (error.what, error.got)))
        return tensors, saved


def _read(path: Path) -> tuple[Arrays, SavedRun]:
    """Read the file of `save_resume`."""
    tensors, saved = read_tensors(path, RESUME_FORMAT)
    try:
        return tensors, SavedRun(**saved)
    except SettingsError as error:
        what = "the settings in the resume file are not valid"
        raise ModelFileError(what, where=str(path), got=error.what, hint=error.hint) from None
    except ValidationError as error:
        place, got, expected = first_fault(error)
        what = f"{place!r} in the resume file is not valid"
        raise ModelFileError(what, where=str(path), got=got, expected=expected) from None
