"""The run directory, and what `--resume` needs: weights, optimizer, tokenizers, random state, position in one file.

RUN/
├── model.safetensors    what translate uses: the best weights so far, in the end perhaps their mean
├── recipe.toml          every setting
├── history.jsonl        one event a line
├── ledger.jsonl         every row that was not kept, and why
├── README.md            a model card, for people
├── .lock                there while a process trains here
└── checkpoints/
    ├── step-0000500.safetensors   weights of the last validations: ordinary model files
    └── resume.safetensors         where training stands
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from torch import nn

from glassformer.errors import RunError
from glassformer.files import cannot_write
from glassformer.modelfile import Arrays, read_tensors, tokenizers_from_dict, write_tensors
from glassformer.text import Tokenizer
from glassformer.training.events import Event

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)
_HALF_WRITTEN = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part")  # what an interrupted `files.atomic` may leave
_WEIGHTS = re.compile(r"(step|moment)-\d{7,}\.safetensors|resume\.safetensors")
RESUME_FORMAT = "glassformer-resume/1"


@dataclass
class Position:
    """Where a run stands between two updates."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best_value: float | None = None
    best_loss: float | None = None
    without_gain: int = 0


@dataclass(frozen=True)
class RunDirectory:
    """Paths of a run."""

    path: Path

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.toml"

    @property
    def history(self) -> Path:
        return self.path / "history.jsonl"

    @property
    def ledger(self) -> Path:
        return self.path / "ledger.jsonl"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def resume(self) -> Path:
        return self.path / "checkpoints" / "resume.safetensors"

    def checkpoint(self, step: int) -> Path:
        return self.path / "checkpoints" / f"step-{step:07d}.safetensors"

    def moment(self, step: int) -> Path:
        return self.path / "checkpoints" / f"moment-{step:07d}.safetensors"

    @property
    def errors(self) -> Path:
        return self.path / "errors.json"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    def checkpoints(self) -> list[Path]:
        """Kept weights, oldest first."""
        return sorted((self.path / "checkpoints").glob("step-*.safetensors"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else writes this run meanwhile. Raises RunError when somebody does already.

        Where the file system refuses locks, nothing is held.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.lock, blocking=False, thread_local=False)
            lock.acquire()
        except Timeout:
            raise RunError(
                "this run is being trained already",
                where=str(self.path),
                hint="wait for that training or stop it, or choose another --out",
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise cannot_write(self.path, error) from None
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows does it when the lock is released
                self.lock.unlink()
            lock.release()

    def create(self, *, overwrite: bool) -> None:
        """Make an empty run directory. Raises RunError when something is there, or it cannot be made."""
        self.check_free(overwrite=overwrite)
        try:
            # The folder itself stays: it may be a link, a mount or where the user stands.
            for entry in self.path.iterdir() if self.path.exists() else ():
                if entry == self.lock:
                    continue
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
            (self.path / "checkpoints").mkdir(parents=True)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def check_free(self, *, overwrite: bool) -> None:
        """Raise RunError when `create` would destroy something that it must not."""
        try:
            if self.path.exists() and not self.path.is_dir():
                raise RunError("the run directory is a file", where=str(self.path), hint="choose another --out")
            entries = self.path.iterdir() if self.path.exists() else ()
            names = sorted(entry.name for entry in entries if entry != self.lock)
        except OSError as error:
            raise cannot_write(self.path, error) from None
        if not names:
            return
        if self.recipe.name not in names:
            raise RunError(
                "this folder is not a run of glassformer and is not empty; nothing was written",
                where=str(self.path),
                hint="choose another --out",
            )
        if not overwrite:
            raise RunError(
                "there is a run already; nothing was written",
                where=str(self.path),
                hint="go on with --resume, replace it with --overwrite, or choose another --out",
            )
        if strangers := self._strangers():
            raise RunError(
                "this folder holds more than a run, which --overwrite would delete; nothing was written",
                where=str(self.path),
                got=", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else ""),
                hint="move these away, or choose another --out",
            )

    def check_resumable(self) -> None:
        """Raise RunError when there is no run to go on with."""
        if not self.resume.exists() or not self.recipe.exists():
            raise RunError(
                "there is no run to resume",
                where=str(self.path),
                expected=f"{self.recipe.name} and {self.resume.relative_to(self.path)} in it",
                hint=f"start it anew, {'with --overwrite' if self.recipe.exists() else 'without --resume'}",
            )

    def _strangers(self) -> list[str]:
        """What `create` would delete though no run wrote it."""
        own = (
            self.model,
            self.recipe,
            self.history,
            self.ledger,
            self.card,
            self.errors,
            self.lock,
            self.resume.parent,
        )
        checkpoints = self.resume.parent
        kept = checkpoints.iterdir() if checkpoints.is_dir() and not checkpoints.is_symlink() else ()
        strangers = []
        for file in (*self.path.iterdir(), *kept):
            whole = file.with_name(_HALF_WRITTEN.sub(r"\1", file.name))
            if whole not in own and not (whole.parent == checkpoints and _WEIGHTS.fullmatch(whole.name)):
                strangers.append(str(file.relative_to(self.path)))
        return sorted(strangers)

    def mend_history(self) -> None:
        """Take away a last line that was not written to its end."""
        with contextlib.suppress(OSError):
            whole = self.history.read_bytes().rfind(b"\n") + 1
            os.truncate(self.history, whole)

    def record(self, event: Event) -> None:
        """Append an event to the history."""
        try:
            # A path that is not UTF-8 reaches us with lone surrogates; written as \udcXX they are still JSON.
            with self.history.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(json.dumps(event.to_json(), ensure_ascii=False) + "\n")
        except OSError as error:
            raise cannot_write(self.history, error) from None


def save_resume(
    path: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    position: Position,
    data: str,
    tokenizers: Mapping[str, Any],
) -> None:
    """Write everything that `load_resume` and `saved_tokenizers` need, atomically.

    `data` is the fingerprint of the table, `tokenizers` what `tokenizers_to_dict` gives.
    """
    tensors = {f"model.{name}": value.detach().cpu().numpy() for name, value in model.named_parameters()}
    for (name, _), state in zip(model.named_parameters(), _states(optimizer), strict=True):
        tensors |= {f"adam.{key}.{name}": torch.as_tensor(value).cpu().numpy() for key, value in state.items()}
    tensors["random.cpu"] = torch.get_rng_state().numpy()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state().numpy()
    parts = {"position": asdict(position), "data": {"fingerprint": data}, "tokenizers": tokenizers}
    write_tensors(path, RESUME_FORMAT, tensors, parts)


def saved_tokenizers(path: Path, data: str) -> tuple[Tokenizer, Tokenizer]:
    """Source and target as they were: those of `--init`, or learned, perhaps by another release of a library.

    Raises RunError when the fingerprint of the table is not `data`.
    """
    return tokenizers_from_dict(_read_resume(path, data)[1].get("tokenizers", {}))


def load_resume(path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, data: str) -> Position:
    """Put weights, optimizer and random state back.

    Raises RunError when the table or the model's shape is not the same any more, ModelFileError for a damaged file.
    """
    tensors, parts = _read_resume(path, data)
    saved = {name: array.shape for name, array in tensors.items() if name.startswith("model.")}
    if saved != {f"model.{name}": tuple(value.shape) for name, value in model.named_parameters()}:
        raise RunError(
            "the saved weights do not fit the model of the recipe",
            where=str(path),
            hint="bring the old recipe.toml back, or start a new run",
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
    return Position(**parts["position"])


def _read_resume(path: Path, data: str) -> tuple[Arrays, dict[str, Any]]:
    """What `save_resume` wrote. Raises RunError when the fingerprint of the table is not `data`."""
    tensors, parts = read_tensors(path, RESUME_FORMAT)
    if parts["data"]["fingerprint"] != data:
        raise RunError(
            "the table is not the one that this run was trained on",
            where=str(path),
            got=f"rows with fingerprint {data[:12]}",
            expected=f"fingerprint {parts['data']['fingerprint'][:12]}",
            hint="bring the old table back (--valid too, if there was one), or start a new run with --init",
        )
    return tensors, parts


def _states(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    return [optimizer.state.get(parameter, {}) for group in optimizer.param_groups for parameter in group["params"]]
