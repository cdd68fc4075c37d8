"""Export: a trained model for other runtimes, written only when its answers there were checked."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.column_settings import held_out_columns
from glassformer.errors import RunError, SettingsError, UsageError, nearest
from glassformer.export.check import Checker, ExportCheck
from glassformer.export.programs import Format
from glassformer.export.rows import CheckRows, drawn_rows, pair_rows
from glassformer.runtime.versions import library_versions
from glassformer.storage.files import check_empty, locked, writing
from glassformer.storage.hub import local_model
from glassformer.storage.modelfile import ModelFile, find_model
from glassformer.storage.rundirectory import HELD_OUT_COLUMNS, RunDirectory
from glassformer.text.inputs import SourceLike, compose

CHECK_FILE = "check.json"
FORMATS = ("onnx", "ctranslate2", "huggingface", "html")
"""The formats; each has a module of its name with its `FORMAT`."""
MAX_FLOAT16 = 65504.0


@dataclass(frozen=True)
class Exported:
    """An export that was written: its folder, format, precision of the weights, size in bytes, and its check."""

    folder: Path
    format: str
    precision: str
    n_bytes: int
    check: ExportCheck

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers."""
        return {
            "folder": str(self.folder),
            "format": self.format,
            "precision": self.precision,
            "bytes": self.n_bytes,
            "check": asdict(self.check),
        }


def load_format(name: str) -> Format:
    """Return a format by name. Raises UsageError for a format that does not exist."""
    if name not in FORMATS:
        raise UsageError(f"there is no export format {name!r}", hint=nearest(name, FORMATS))
    export_format: Format = import_module(f"{__name__}.{name}").FORMAT
    return export_format


def export(
    model: str | Path,
    to: str,
    out: str | Path,
    *,
    precision: str | None = None,
    rows: Sequence[tuple[SourceLike, str]] | None = None,
    where: Sequence[str] | None = None,
    title: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Exported:
    """Export a model file, a run directory or a model of the hub to the folder `out`; return what was checked.

    The answers of the exported model, in its own runtime, are compared with the model's answers to
    `rows` (`where[i]` names row i), or on the held-out rows of the run, or else on drawn texts. In float32 they must be
    equal, greedily and with a beam, and the scores within a bound; `check.json` in the folder says what was compared.
    A page has a `title` (default: the names of its columns), and as an example the first of these rows.

    Raises UsageError for an unknown format or a title of one without a page, SettingsError for a precision or a model
    that the format does not have, MissingExtraError when a library is not installed, RunError when `out` exists, cannot
    be written or is being written by another process, and EngineError when the answers differ; then nothing is written.
    """
    report = progress or (lambda _: None)
    target, out = load_format(to), Path(os.path.realpath(out))
    precision = precision or target.precisions[0]
    if precision not in target.precisions:
        raise SettingsError(f"{to} has no precision {precision!r}", hint=nearest(precision, target.precisions))
    if title is not None and not target.is_page:
        raise UsageError(f"{to} has no page that a title is for", got=title, hint="--to html")
    check_empty(out)
    path = find_model(local_model(model))
    model_file = ModelFile.load(path)
    if model_file.members and not target.holds_members:
        other_formats = " or ".join(f"--to {name}" for name in FORMATS if load_format(name).holds_members)
        hint = f"{other_formats}; or export one of them, RUN/members/SEED; or train with --members 1"
        raise SettingsError(f"{to} holds one model, not several", got=f"{len(model_file.seeds)} members", hint=hint)
    target.check_supported(model_file)
    if precision == "float16":
        _check_float16(model_file)
    tested = _rows_to_check(model_file, path, rows, where)
    with _new_folder(out) as folder:
        report(f"writing {to} in {precision}")
        with writing(out):
            captions = {"title": title, "example": tested.example} if target.is_page else {}
            target.write(model_file, folder, precision, **captions)
        report(f"checking {len(tested.rows)} texts in {to}: {tested.origin} and edge cases")
        checker = Checker(model_file, tested)
        answers = [target.answer(folder, tested.given, num_beams) for num_beams in checker.widths]
        check = checker.check(answers, target.beam, exact=precision == "float32")
        versions = library_versions(target.packages)
        record = {"format": to, "precision": precision, **asdict(check), "versions": versions}
        (folder / CHECK_FILE).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8", newline="\n")
        if target.readme:
            example = json.dumps(tested.given[0], ensure_ascii=False)
            readme = target.readme.replace("EXAMPLE", example)
            (folder / "README.md").write_text(readme, encoding="utf-8", newline="\n")
        n_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return Exported(out, to, precision, n_bytes, check)


def _rows_to_check(
    model_file: ModelFile, path: Path, rows: Sequence[tuple[SourceLike, str]] | None, where: Sequence[str] | None
) -> CheckRows:
    """Return the given rows, or the held-out rows of the run of the model at `path`, or else drawn texts."""
    if rows is not None:
        names = where if where is not None else [f"row {i}" for i in range(1, len(rows) + 1)]
        return pair_rows(rows, names, "the given rows", model_file)
    inputs = model_file.source_tokenizer.inputs
    columns = held_out_columns(inputs, model_file.data.columns) if inputs else HELD_OUT_COLUMNS
    if held_out := RunDirectory(path.parent).read_held_out(columns):
        pairs: list[tuple[SourceLike, str]] = [(compose(cells), target) for *cells, target in held_out]
        return pair_rows(pairs, [f"held-out row {i}" for i in range(1, len(pairs) + 1)], "held-out rows", model_file)
    return drawn_rows(model_file)


def _check_float16(model_file: ModelFile) -> None:
    """Raise SettingsError for a weight that float16 cannot hold."""
    for name, array in model_file.all_tensors.items():
        largest = float(np.abs(array).max(initial=0.0))
        if largest > MAX_FLOAT16:
            raise SettingsError(
                "a weight is too large for float16",
                got=f"{largest:.3g} in {name!r}",
                expected=f"at most {MAX_FLOAT16:g}",
                hint="export with --precision float32",
            )


@contextlib.contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `out`; after the block it is renamed to `out`.

    After an error or Ctrl-C it is deleted; one left by a killed process is deleted first. Raises RunError when another
    process writes `out`.
    """
    hint = "wait for it or stop it, or choose another --out"
    busy = RunError("another process is writing this export", where=str(out), hint=hint)
    with locked(out.with_name(f".{out.name}.lock"), busy) as is_locked:
        # Without a lock another process may have a folder of the same name.
        temporary = out.with_name(f".{out.name}.part" if is_locked else f".{out.name}.{secrets.token_hex(4)}.part")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            with writing(out):
                temporary.mkdir(parents=True)
            yield temporary
            with writing(out):
                if out.is_dir():
                    out.rmdir()
                temporary.rename(out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
