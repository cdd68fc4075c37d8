"""The programs in an exported folder: what they read, the files they consist of, and their answers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from glassformer.errors import EngineError
from glassformer.inference import beam_confidence
from glassformer.inference.encoding import max_new_tokens_of
from glassformer.storage.modelfile import ModelFile
from glassformer.text import new_strings, segmenters, sentencepiece_cut
from glassformer.text.inputs import SourceLike

DESCRIPTION = "glassformer.json"
RUNNERS = Path(__file__).parent / "runners"
CUTTER = Path(sentencepiece_cut.__file__)
"""Next to `text.py` where a side has the tokens of SentencePiece."""
SHARED = tuple(Path(str(module.__file__)) for module in (beam_confidence, new_strings, segmenters))
"""Modules of the package that need the standard library alone, and for subwords `tokenizers`."""

Beam = Literal["same", "own"]
"""A runtime has our beam search, or one with its own rules."""


@dataclass(frozen=True)
class ProgramAnswer:
    """The best answer to one text.

    `ids` are target ids without `<bos>` and `<eos>`, `score` is the sum of log-probabilities (nats), `<eos>` included,
    `rank_score` that sum after the length penalty.
    """

    text: str
    ids: tuple[int, ...]
    score: float
    finished: bool
    rank_score: float


@dataclass(frozen=True)
class Format:
    """A format that models are exported to.

    `precisions` are for the weights, the default first; `packages` are the libraries whose versions are recorded.
    `check_supported` raises SettingsError for a model that the format cannot represent, and MissingExtraError without
    its libraries. `write` writes a model into an empty folder, in a precision. `answer` returns the answers of an
    exported folder to texts with a beam width, computed by its own runtime.
    `holds_members` says whether a file with several models can be exported as one. `readme` is the README.md of the
    folder, with EXAMPLE where it has a text.
    `is_page` says whether a person reads it: `write` then takes its `title` and an `example` of a source, too.
    """

    precisions: tuple[str, ...]
    beam: Beam
    packages: tuple[str, ...]
    check_supported: Callable[[ModelFile], None]
    write: Callable[..., None]
    answer: Callable[[Path, Sequence[SourceLike], int], list[ProgramAnswer]]
    holds_members: bool = True
    readme: str = ""
    is_page: bool = False


# What a program reads


def max_new_tokens(model_file: ModelFile) -> int:
    """Return the maximum number of tokens of an answer, `<eos>` included."""
    return max_new_tokens_of(model_file.data, model_file.settings, model_file.settings.decoding)


def max_positions(model_file: ModelFile) -> int:
    """Return the number of positions that the longest source or answer needs, framed."""
    return max(model_file.settings.max_source_tokens + 2, max_new_tokens(model_file) + 1)


def describe_export(model_file: ModelFile) -> dict[str, Any]:
    """Return tokenizers, limits, search and shape as JSON values: the content of `glassformer.json`."""
    settings, calibration = model_file.settings, model_file.calibration
    confidence_of = ("weights", "num_beams", "unusual_limit")
    return {
        "format": "glassformer-export/1",
        "source": model_file.source_tokenizer.to_dict(),
        "target": model_file.target_tokenizer.to_dict(),
        "max_source_tokens": settings.max_source_tokens,
        "search": {
            "num_beams": settings.decoding.num_beams,
            "length_alpha": settings.decoding.length_alpha,
            "max_new_tokens": max_new_tokens(model_file),
            "forbidden_ids": list(model_file.target_tokenizer.vocabulary.forbidden_ids),
        },
        "model": settings.model.model_dump(mode="json"),
        "seen": model_file.seen.to_json() if model_file.seen else {},
        "calibration": {name: getattr(calibration, name) for name in confidence_of} if calibration else {},
    }


def write_programs(model_file: ModelFile, folder: Path, engine: str) -> None:
    """Write `run.py`, what it imports and `glassformer.json` into a folder that has all other files.

    `engine` is the program that computes the answers. The description has the SHA-256 of each file and, at its end,
    its own: the programs refuse a file that is another one.
    """
    runners = {name: RUNNERS / name for name in ("run.py", "lines.py", "source.py", "text.py")}
    runners |= {"engine.py": RUNNERS / engine, **{path.name: path for path in SHARED}}
    if "sentencepiece" in {side.settings.kind for side in (model_file.source_tokenizer, model_file.target_tokenizer)}:
        runners[CUTTER.name] = CUTTER
    for name, path in runners.items():
        (folder / name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8", newline="\n")
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    text = json.dumps(describe_export(model_file) | {"files": files}, ensure_ascii=False)
    body = text.removesuffix("}").encode()
    (folder / DESCRIPTION).write_bytes(body + f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}'.encode())


# Its answers


def script_answers(folder: Path, texts: Sequence[SourceLike], num_beams: int) -> list[ProgramAnswer]:
    """Return the answers of the `run.py` of an exported folder. Raises EngineError as `run_answers` does."""
    return run_answers([sys.executable, folder / "run.py", "--json", "--beam", str(num_beams)], texts)


def run_answers(command: Sequence[str | Path], texts: Sequence[SourceLike]) -> list[ProgramAnswer]:
    """Run a command that reads one JSON value a line and prints one answer a line; return an answer for each text.

    Raises EngineError when the command fails, prints what is not an answer, or answers another number of texts.
    """
    request = "".join(json.dumps(text) + "\n" for text in texts)
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    words = [str(word) for word in command]
    done = subprocess.run(words, input=request.encode(), capture_output=True, check=False, env=environment)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        got = " | ".join(lines[-3:]) or f"exit code {done.returncode}"
        raise EngineError("the exported model does not run", got=got)
    answers = read_answers(done.stdout)
    if len(answers) != len(texts):
        raise EngineError("the exported model lost a text", got=f"{len(answers)} answers for {len(texts)} texts")
    return answers


def read_answers(printed: bytes) -> list[ProgramAnswer]:
    """Return the answers that a program printed with `--json`, one object a line. Raises EngineError."""
    try:
        objects = [json.loads(line) for line in printed.splitlines()]
        return [
            ProgramAnswer(
                row["text"], tuple(row["ids"]), float(row["score"]), row["finished"], float(row["rank_score"])
            )
            for row in objects
        ]
    except (ValueError, KeyError, TypeError) as error:
        got = f"{type(error).__name__}: {error}"
        raise EngineError("the exported model printed what is not an answer", got=got) from None
