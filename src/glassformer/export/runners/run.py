#!/usr/bin/env python3
"""Translate lines with the exported model in this folder: `python run.py < texts.txt`.

Options: --beam N (default: the model's; 1 is greedy search), --json (JSON in, JSON objects out), and more in `--help`.
`engine.py` says which libraries it needs.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXPORTED = "the file that was exported; export the model again"
SEAL_BYTES = len(', "sha256": ""}') + 64  # the end of the description: the SHA-256 of what is before it


def read_description(folder: Path) -> dict[str, Any]:
    """Return the description of an export. A file that is not the one that was written ends the program."""
    path = folder / "glassformer.json"
    try:
        data = path.read_bytes()
        body = data[:-SEAL_BYTES]
        if data != body + f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}'.encode():
            sys.exit(f"error: {path} is not {EXPORTED}")
        description: dict[str, Any] = json.loads(data)
        for path, digest in ((folder / name, digest) for name, digest in description["files"].items()):
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                sys.exit(f"error: {path} is not {EXPORTED}")
    except OSError as error:
        sys.exit(f"error: {path} cannot be read: {error.strerror}")
    return description


def load() -> Any:
    """Return the model for a program: `load().translate(["a text"])[0]["text"]`."""
    from engine import Engine
    from lines import Model

    return Model(read_description(HERE), Engine)


if __name__ == "__main__":
    description = read_description(HERE)
    sys.path.insert(0, str(HERE))  # PYTHONSAFEPATH leaves it out
    try:
        from engine import Engine
        from lines import main

        main(description, Engine)
    except ImportError as error:
        sys.exit(f"error: {error}")
