"""The files of a run: every name, who may write them, and how one run replaces another without losing it.

RUN/
├── model.safetensors    what translate uses: the best weights so far, in the end perhaps their mean
├── recipe.toml          every setting
├── history.jsonl        one event a line
├── ledger.jsonl         every row that was not kept, and why
├── errors.json          the wrong answers on held-out rows
├── README.md            a model card, for people
├── .lock                there while a process trains here
├── .replaced/           the run that --overwrite replaces, until the new one has its first model
└── checkpoints/
    ├── step-0000500.safetensors       weights of the last validations: ordinary model files
    ├── snapshot-0000250.safetensors   earlier weights, kept to look back at: likewise
    └── resume.safetensors             what --resume needs
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from glassformer.errors import RunError
from glassformer.files import cannot_write, check_path

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)
_PART = re.compile(r"\.(.+)\.[0-9a-f]{8}\.part")  # what an interrupted `files.atomic` may leave
_LIBRARY_PART = re.compile(r"\.tmp[A-Za-z0-9]{6}")  # what safetensors may leave when it is killed while writing
_WEIGHTS = re.compile(r"(step|snapshot)-\d{7,}\.safetensors|resume\.safetensors")


@dataclass
class RunDirectory:
    """The paths of a run, its lock, and what may be written or deleted in it."""

    path: Path
    _identity: tuple[int, int] | None = field(default=None, init=False, repr=False, compare=False)

    # Names

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
    def errors(self) -> Path:
        return self.path / "errors.json"

    @property
    def card(self) -> Path:
        return self.path / "README.md"

    @property
    def lock(self) -> Path:
        return self.path / ".lock"

    @property
    def replaced(self) -> Path:
        return self.path / ".replaced"

    @property
    def _half_replaced(self) -> Path:
        """Where a run is while its files are moved to `replaced`, or back."""
        return self.path / ".replaced.part"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def resume(self) -> Path:
        return self.checkpoints / "resume.safetensors"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:07d}.safetensors"

    def snapshot(self, step: int) -> Path:
        return self.checkpoints / f"snapshot-{step:07d}.safetensors"

    def kept_checkpoints(self) -> list[Path]:
        """The weights of the last validations, oldest first."""
        return sorted(self.checkpoints.glob("step-*.safetensors"))

    def kept_weights(self) -> list[Path]:
        """All kept weights, those of snapshots too, by their step. Raises RunError for a name without a step."""
        kept = [*self.checkpoints.glob("snapshot-*.safetensors"), *self.kept_checkpoints()]
        return sorted(kept, key=self.step_of)

    @staticmethod
    def step_of(weights: Path) -> int:
        """The step in the name of kept weights. Raises RunError for a name that no run gives."""
        kind, _, digits = weights.stem.partition("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 16):
            raise RunError(
                "a checkpoint of the run has no step in its name",
                where=str(weights),
                expected=f"a name such as {kind}-0000500.safetensors",
            )
        return int(digits)

    # Who writes

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
        self._identity = self._look()
        try:
            yield
        finally:
            if self._look() == self._identity:  # else another folder has this name now
                with contextlib.suppress(OSError):  # Windows does it when the lock is released
                    self.lock.unlink()
            self._identity = None
            lock.release()

    def check_held(self) -> None:
        """Raise RunError when the folder that is held was moved or removed, before anything is written beside it."""
        if self._identity is not None and self._look() != self._identity:
            raise RunError(
                "the run directory was moved or removed during training",
                where=str(self.path),
                hint="resume the run where it is now: --out NEW_PATH --resume (it goes on from its last save)",
            )

    def _look(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    # What is there

    def check_free(self, *, overwrite: bool) -> None:
        """Raise RunError when `create` would destroy something that it must not."""
        check_path(self.snapshot(2**53))  # the longest name in it
        try:
            if self.path.exists() and not self.path.is_dir():
                raise RunError("the run directory is a file", where=str(self.path), hint="choose another --out")
            names = self._names()
            strangers = self._strangers()
        except OSError as error:
            raise cannot_write(self.path, error) from None
        if not names:
            return
        if self.recipe.name not in names and (strangers or not self._has_marker(names)):
            raise RunError(
                "this folder is not a run of glassformer and is not empty; nothing was written",
                where=str(self.path),
                hint="choose another --out",
            )
        if not overwrite:
            raise RunError(
                "there is a run already; nothing was written",
                where=str(self.path),
                hint="resume it with --resume, replace it with --overwrite, or choose another --out",
            )
        if strangers:
            raise RunError(
                "this folder holds more than a run, which --overwrite would delete; nothing was written",
                where=str(self.path),
                got=", ".join(strangers[:5]) + (", …" if len(strangers) > 5 else ""),
                hint="move these away, or choose another --out",
            )

    def check_resumable(self) -> None:
        """Raise RunError when there is no run to resume."""
        if not self.resume.exists() or not self.recipe.exists():
            raise RunError(
                "there is no run to resume",
                where=str(self.path),
                expected=f"{self.recipe.name} and {self.resume.relative_to(self.path)} in it",
                hint=f"start a new one, {'with --overwrite' if self.recipe.exists() else 'without --resume'}",
            )

    def _names(self) -> list[str]:
        """What is in the folder, but for what an interrupted process may leave and nobody needs."""
        if not self.path.exists():
            return []
        found = [entry for entry in self.path.iterdir() if entry != self.lock and not _is_litter(entry)]
        if [entry.name for entry in found] == [self.checkpoints.name] and self.checkpoints.is_dir():
            found = [entry for entry in self.checkpoints.iterdir() if not _is_litter(entry)]
        return [entry.name for entry in found]

    def _has_marker(self, names: list[str]) -> bool:
        """Whether there is a file that only a run has; a README.md, a model or a folder may be anybody's."""
        anybodys = {self.card.name, self.model.name, self.checkpoints.name}
        return bool(set(names) - anybodys) or bool(self.kept_weights()) or self.resume.exists()

    def _strangers(self) -> list[str]:
        """What `create` would delete though no run wrote it."""
        if not self.path.exists():
            return []
        own = {self.model, self.recipe, self.history, self.ledger, self.card, self.errors, self.lock}
        own |= {self.replaced, self._half_replaced, self.checkpoints}
        inside = self.checkpoints.is_dir() and not self.checkpoints.is_symlink()
        kept = self.checkpoints.iterdir() if inside else ()
        strangers = []
        for file in (*self.path.iterdir(), *kept):
            is_weights = file.parent == self.checkpoints and _WEIGHTS.fullmatch(file.name)
            if file not in own and not is_weights and not self._is_own_litter(file, own):
                strangers.append(str(file.relative_to(self.path)))
        return sorted(strangers)

    def _is_own_litter(self, file: Path, own: set[Path]) -> bool:
        """Whether a run left this half-written file."""
        if not _is_litter(file):
            return False
        whole = _PART.fullmatch(file.name)
        if whole is None:
            return True
        name = whole[1]
        return file.with_name(name) in own or (file.parent == self.checkpoints and bool(_WEIGHTS.fullmatch(name)))

    # One run in place of another

    def create(self, *, overwrite: bool) -> None:
        """Make an empty run directory. Raises RunError when something is there, or it cannot be made.

        A run that is overwritten is moved to `replaced`, until `discard_replaced` or `restore_replaced`.
        """
        self.check_free(overwrite=overwrite)
        try:
            if self.replaced.exists():  # and what was to replace it never had a model
                self._clear()
            elif self._names():
                self._half_replaced.mkdir()
                self._move(self.path, self._half_replaced)
                self._half_replaced.rename(self.replaced)
            self.checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def discard_replaced(self) -> None:
        """Delete the run that was replaced: the new one has a model."""
        if self.replaced.exists():
            shutil.rmtree(self.replaced, ignore_errors=True)

    def restore_replaced(self) -> None:
        """Bring the run that was to be replaced back: the new one ended before it had a model or could be resumed."""
        if self.replaced.exists() and not self.model.exists() and not self.resume.exists():
            self.check_held()
            try:
                self._clear()
                self.replaced.rename(self._half_replaced)
                self.recover()
            except OSError as error:
                raise cannot_write(self.path, error) from None

    def recover(self) -> None:
        """Put right what an interrupted process left; call it while the directory is held.

        A run that was being moved aside is moved back, one that is replaced is deleted, half-written files are too.
        """
        try:
            for folder in (self.path, self.checkpoints):
                for file in folder.iterdir() if folder.is_dir() else ():
                    if _is_litter(file):
                        file.unlink()
            if self._half_replaced.is_dir():
                self._move(self._half_replaced, self.path)
                self._half_replaced.rmdir()
            if self.model.exists():
                self.discard_replaced()
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def finish_move(self) -> None:
        """Where a process was interrupted while it moved a run aside or back, bring the run back."""
        if self._half_replaced.exists():
            with self.held():
                self.recover()

    def _movable(self, folder: Path) -> list[Path]:
        """What belongs to a run in a folder, the recipe last: as long as it is there, the folder is a run."""
        stay = {self.lock.name, self.replaced.name, self._half_replaced.name}
        found = [entry for entry in folder.iterdir() if entry.name not in stay]
        return sorted(found, key=lambda entry: entry.name == self.recipe.name)

    def _move(self, source: Path, target: Path) -> None:
        for entry in self._movable(source):
            entry.rename(target / entry.name)

    def _clear(self) -> None:
        # The folder itself stays: it may be a link, a mount or the working directory of a shell.
        for entry in self._movable(self.path):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    # The history

    def record(self, event: Mapping[str, Any]) -> None:
        """Append an event to the history."""
        self.check_held()
        try:
            # A path that is not UTF-8 reaches us with lone surrogates; written as \udcXX they are still JSON.
            with self.history.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(json.dumps(event, ensure_ascii=False) + "\n")
        except OSError as error:
            raise cannot_write(self.history, error) from None

    def repair_history(self) -> None:
        """Take away a last line that was not written to its end."""
        with contextlib.suppress(OSError):
            whole = self.history.read_bytes().rfind(b"\n") + 1
            os.truncate(self.history, whole)


def _is_litter(file: Path) -> bool:
    """Whether this is a file that an interrupted process left half written."""
    is_named_so = _PART.fullmatch(file.name) or _LIBRARY_PART.fullmatch(file.name)
    return bool(is_named_so) and file.is_file() and not file.is_symlink()
