"""The files of a run: their names, the lock for writing, and the safe replacement of one run by another.

RUN/
├── model.safetensors    the model: the best weights so far; at the end they may be averaged
├── recipe.toml          every setting
├── history.jsonl        one event per line
├── ledger.jsonl         every row that was not kept, and why
├── errors.json          the wrong answers on held-out rows
├── sources.safetensors  the sources trained on, as hashes: what the overlap with other tables is counted with
├── held_out.jsonl       held-out rows, at most 1,000: what an export is checked on
├── README.md            a model card
├── tensorboard/         its event files, if requested
├── members/             with --members: a run for each random seed; RUN then has no history and no checkpoints
├── .lock                exists while a process trains here
├── .replaced/           the run that --overwrite replaces, until the new one has its first model
└── checkpoints/
    ├── step-0000500.safetensors       weights of the last validations: ordinary model files
    ├── snapshot-0000250.safetensors   snapshots for inspection: the same
    ├── resume.safetensors             the newest checkpoint: what --resume needs
    └── resume-previous.safetensors    the one before it, in case the newest is damaged
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import RunError, WriteError
from glassformer.storage.files import check_path, identity_of, locked, write_text, writing

HELD_OUT_ROWS = 1000
HELD_OUT_COLUMNS = ("source", "target")  # of sources with one input
_PART = re.compile(r"\.(.+\.)?[0-9a-f]{8}\.part")  # an interrupted `files.atomic` may leave it
_WEIGHTS = re.compile(r"((step|snapshot)-(?P<step>\d{7,16})|resume(-previous)?)\.safetensors", re.ASCII)


class RunDirectory:
    """The paths of a run, its lock, and the checks before files in it are written or deleted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.model = path / "model.safetensors"
        self.recipe = path / "recipe.toml"
        self.history = path / "history.jsonl"
        self.ledger = path / "ledger.jsonl"
        self.errors = path / "errors.json"
        self.held_out = path / "held_out.jsonl"
        self.sources = path / "sources.safetensors"
        self.card = path / "README.md"
        self.members = path / "members"
        self.lock = path / ".lock"
        self.replaced = path / ".replaced"
        self._half_replaced = path / ".replaced.part"  # a run while its files are moved to `replaced`, or back
        self.checkpoints = path / "checkpoints"
        self.resume = self.checkpoints / "resume.safetensors"
        self.previous_resume = self.checkpoints / "resume-previous.safetensors"
        self._identity: tuple[int, ...] | None = None

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:07d}.safetensors"

    def snapshot(self, step: int) -> Path:
        return self.checkpoints / f"snapshot-{step:07d}.safetensors"

    def kept_checkpoints(self) -> list[Path]:
        """Return the weights of the last validations, oldest first."""
        return sorted(self.checkpoints.glob("step-*.safetensors"))

    def checkpoints_and_snapshots(self) -> list[Path]:
        """Return weights of the last validations, and snapshots, by step."""
        matches = {file: _WEIGHTS.fullmatch(file.name) for file in self.checkpoints.glob("*-*.safetensors")}
        return sorted((file for file, match in matches.items() if match and match["step"]), key=self.step_of)

    @staticmethod
    def step_of(weights: Path) -> int:
        """Return the step in the name of a checkpoint or snapshot."""
        return int(weights.stem.partition("-")[2])

    # The lock

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run for this process. Raises RunError when another process holds the lock."""
        hint = "wait for that training or stop it, or choose another --out"
        with locked(self.lock, RunError("this run is already being trained", where=str(self.path), hint=hint)):
            self._identity = identity_of(self.path)
            try:
                yield
            finally:
                self._identity = None

    @property
    def is_held(self) -> bool:
        """Whether the directory is still the one that was locked."""
        return self._identity is None or identity_of(self.path) == self._identity

    def check_locked(self) -> None:
        """Raise WriteError when the locked directory was moved or removed, before a new one is created in its path."""
        if not self.is_held:
            what = "the run directory was moved or removed during training"
            hint = "if it was moved, resume it there: --out NEW_PATH --resume (it continues from its last save)"
            raise WriteError(what, where=str(self.path), hint=hint)

    def check_free(self, *, overwrite: bool) -> None:
        """Raise RunError when `create` would delete a run without `overwrite`, or files that are not of a run."""
        check_path(self.snapshot(2**53))  # the longest name in a run
        with writing(self.path):
            if self.path.exists() and not self.path.is_dir():
                raise RunError("the run directory is a file", where=str(self.path), hint="choose another --out")
            files = self._files()
        if not files:
            return
        foreign = [str(file.relative_to(self.path)) for file in files if not self._is_own(file)]
        common = {self.card, self.model, self.members, self.path / "tensorboard"}  # other directories may have these
        is_run = not foreign and not common.issuperset(files)
        if self.recipe not in files and not is_run:
            raise RunError(
                "the directory is not empty and is not a run of glassformer; nothing was written",
                where=str(self.path),
                hint="choose another --out",
            )
        if not overwrite:
            hint = "resume it with --resume, replace it with --overwrite, or choose another --out"
            raise RunError("the run already exists; nothing was written", where=str(self.path), hint=hint)
        if foreign:
            raise RunError(
                "the directory contains other files, which --overwrite would delete; nothing was written",
                where=str(self.path),
                got=", ".join(foreign[:5]) + (", …" if len(foreign) > 5 else ""),
                hint="move these files, or choose another --out",
            )

    def check_resumable(self) -> None:
        """Raise RunError when the directory has no run to resume."""
        if not (self.resume.exists() or self.previous_resume.exists()):
            expected = f"{self.resume.relative_to(self.path)} in it"
            hint = f"start a new one, {'with --overwrite' if self.recipe.exists() else 'without --resume'}"
            raise RunError("there is no run to resume", where=str(self.path), expected=expected, hint=hint)

    def _files(self) -> list[Path]:
        """Return all in the directory and its checkpoints, without the lock and files of an interrupted process."""
        has_checkpoints = self.checkpoints.is_dir() and not self.checkpoints.is_symlink()
        folders = [self.path] * self.path.exists() + [self.checkpoints] * has_checkpoints
        files = [file for folder in folders for file in folder.iterdir()]
        return sorted(file for file in files if file not in (self.lock, self.checkpoints) and not _is_temporary(file))

    def _is_own(self, file: Path) -> bool:
        """Return whether a run writes a file of this name."""
        own_paths = {self.model, self.recipe, self.history, self.ledger, self.errors, self.held_out, self.sources}
        own_paths |= {self.card, self.path / "tensorboard", self.members, self.replaced, self._half_replaced}
        return file in own_paths or (file.parent == self.checkpoints and bool(_WEIGHTS.fullmatch(file.name)))

    # Replacement of a run

    def create(self, *, overwrite: bool) -> None:
        """Create an empty run directory. Raises RunError as `check_free` does, or when it cannot be created.

        A run that is overwritten is kept in `replaced` until `discard_replaced` or `restore_replaced`.
        """
        self.check_free(overwrite=overwrite)
        with writing(self.path):
            if self.replaced.exists():  # the run that was to replace it never had a model
                self._clear()
            elif self._files():
                self._half_replaced.mkdir()
                self._move(self.path, self._half_replaced)
                self._half_replaced.rename(self.replaced)
            self.checkpoints.mkdir(parents=True, exist_ok=True)

    def discard_replaced(self) -> None:
        """Delete the replaced run. Call it when the new one has a model."""
        if self.replaced.exists():
            shutil.rmtree(self.replaced, ignore_errors=True)

    def restore_replaced(self) -> None:
        """Restore the replaced run, if the new one ended before it had a model or could be resumed."""
        resumable = [self.resume, *self.members.glob(f"*/checkpoints/{self.resume.name}")]
        if self.replaced.exists() and not self.model.exists() and not any(map(Path.exists, resumable)):
            self.check_locked()
            with writing(self.path):
                self._clear()
                self.replaced.rename(self._half_replaced)
                self.recover()

    def recover(self) -> None:
        """Repair the directory after an interrupted process. Call it while the run is locked.

        Temporary files are deleted. A run that was being moved to `replaced` is moved back. The replaced run is deleted
        if the new one has a model.
        """
        with writing(self.path):
            for folder in (self.path, self.checkpoints):
                for file in folder.iterdir() if folder.is_dir() else ():
                    if _is_temporary(file):
                        file.unlink()
            if self._half_replaced.is_dir():
                self._move(self._half_replaced, self.path)
                self._half_replaced.rmdir()
            if self.model.exists():
                self.discard_replaced()

    def finish_move(self) -> None:
        """Move a run back if a process was interrupted while it moved the run to `replaced` or back.

        Raises RunError for a name that no run can have.
        """
        check_path(self.snapshot(2**53))  # the longest name in a run
        if self._half_replaced.exists():
            with self.locked():
                self.recover()

    def _movable(self, folder: Path) -> list[Path]:
        """Return the entries of a run in a directory, the recipe last: while it exists, the directory is a run."""
        excluded = {self.lock.name, self.replaced.name, self._half_replaced.name}
        entries = [entry for entry in folder.iterdir() if entry.name not in excluded]
        return sorted(entries, key=lambda entry: entry.name == self.recipe.name)

    def _move(self, source: Path, target: Path) -> None:
        for entry in self._movable(source):
            entry.rename(target / entry.name)

    def _clear(self) -> None:
        # The directory itself stays: it may be a link, a mount or the working directory of a shell.
        for entry in self._movable(self.path):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    # The history

    def record(self, event: Mapping[str, Any]) -> None:
        """Append an event to the history."""
        self.check_locked()
        # A path that is not UTF-8 contains lone surrogates; written as \udcXX they are valid JSON.
        with writing(self.history), self.history.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(json.dumps(event, ensure_ascii=False) + "\n")

    # The held-out rows

    def write_held_out(self, rows: Sequence[Sequence[str]], columns: Sequence[str] = HELD_OUT_COLUMNS) -> None:
        """Write the first HELD_OUT_ROWS held-out rows, one JSON object a line: a table that every verb reads."""
        lines = (json.dumps(dict(zip(columns, row, strict=True))) for row in rows[:HELD_OUT_ROWS])
        write_text(self.held_out, "".join(line + "\n" for line in lines))

    def read_held_out(self, columns: Sequence[str] = HELD_OUT_COLUMNS) -> list[tuple[str, ...]]:
        """Return the cells of the kept held-out rows; none where the run kept none. Raises RunError for damage."""
        try:
            lines = self.held_out.read_text(encoding="utf-8").splitlines() if self.held_out.exists() else []
            rows = [tuple(row[column] for column in columns) for row in map(json.loads, lines)]
            if not all(isinstance(text, str) for row in rows for text in row):
                raise ValueError("a row that is not text")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            what, expected = (
                "the held-out rows of the run are damaged",
                f"a JSON object with {', '.join(columns)} a line",
            )
            raise RunError(what, where=str(self.held_out), got=str(error), expected=expected) from None
        return rows

    def repair_history(self) -> None:
        """Remove an incomplete last line."""
        with contextlib.suppress(OSError):
            n_bytes = self.history.read_bytes().rfind(b"\n") + 1
            os.truncate(self.history, n_bytes)


def _is_temporary(file: Path) -> bool:
    """Return whether this is a temporary file that an interrupted process left."""
    return bool(_PART.fullmatch(file.name)) and file.is_file() and not file.is_symlink()
