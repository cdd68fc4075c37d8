"""A model without its weights, as one JSON object for other runtimes: tokenizers, search and shape."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from glassformer.inference.translator import max_new_tokens_of
from glassformer.ship.storage.modelfile import ModelFile
from glassformer.text import sentencepiece_cut

FORMAT = "glassformer-export/1"
FILE_NAME = "glassformer.json"
RUNNERS = Path(__file__).parent / "runners"
CUTTER = Path(sentencepiece_cut.__file__)
"""Next to `text.py` where a side has the tokens of SentencePiece."""


def max_new_tokens(model_file: ModelFile) -> int:
    """Return the maximum number of tokens of an answer, `<eos>` included."""
    return max_new_tokens_of(model_file.data, model_file.settings, model_file.settings.decoding)


def max_positions(model_file: ModelFile) -> int:
    """Return the number of positions that the longest source or answer needs, framed."""
    return max(model_file.settings.max_source_tokens + 2, max_new_tokens(model_file) + 1)


def describe_export(model_file: ModelFile) -> dict[str, Any]:
    """Return tokenizers, limits, search and shape as JSON values: the content of `glassformer.json`."""
    settings = model_file.settings
    return {
        "format": FORMAT,
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
    }


def write_description(model_file: ModelFile, folder: Path) -> None:
    """Write `glassformer.json` into an exported folder, with the SHA-256 of each file there and, at its end, its own.

    The programs in the folder refuse a file that is another one.
    """
    files = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
    text = json.dumps(describe_export(model_file) | {"files": files}, ensure_ascii=False)
    body = text.removesuffix("}").encode()
    (folder / FILE_NAME).write_bytes(body + f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}'.encode())


def copy_program(model_file: ModelFile, folder: Path, engine: str) -> None:
    """Copy `run.py` and what it imports into an exported folder; `engine` is the file that computes its answers."""
    copy_runner(folder, engine, "engine.py")
    for name in ("run.py", "lines.py", "source.py", "text.py"):
        copy_runner(folder, name, name)
    if "sentencepiece" in {side.settings.kind for side in (model_file.source_tokenizer, model_file.target_tokenizer)}:
        (folder / CUTTER.name).write_text(CUTTER.read_text(encoding="utf-8"), encoding="utf-8", newline="\n")


def copy_runner(folder: Path, runner: str, name: str) -> None:
    """Copy the file `runner` of the package into an exported folder as `name`."""
    (folder / name).write_text((RUNNERS / runner).read_text(encoding="utf-8"), encoding="utf-8", newline="\n")
