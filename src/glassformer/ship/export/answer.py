"""Answers of an exported model, computed by its own runtime in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import EngineError
from glassformer.inference.translator import Source


@dataclass(frozen=True)
class Answer:
    """The best answer to one text.

    `ids` are target ids without `<bos>` and `<eos>`, `score` is the sum of log-probabilities (nats), `<eos>` included.
    `rank_score` is that sum after the length penalty, or None where the runtime ranks in another way.
    """

    text: str
    ids: tuple[int, ...]
    score: float
    finished: bool
    rank_score: float | None = None


def read_answers(lines: Iterable[str]) -> list[Answer]:
    """Return the answers that a runner printed with `--json`, one object a line. Raises EngineError."""
    try:
        found = [json.loads(line) for line in lines]
        return [
            Answer(
                text=one["text"],
                ids=tuple(one["ids"]),
                score=float(one["score"]),
                finished=bool(one["finished"]),
                rank_score=float(one["rank_score"]),
            )
            for one in found
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise EngineError(
            "the exported model printed what is not an answer", got=f"{type(error).__name__}: {error}"
        ) from None


def run_answers(command: Sequence[str | Path], texts: Sequence[Source]) -> list[Answer]:
    """Run a command that reads one JSON string a line and prints one answer a line; return an answer for each text.

    Raises EngineError when the command fails, or answers another number of texts.
    """
    given = "".join(json.dumps(text) + "\n" for text in texts)
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [str(word) for word in command], input=given.encode(), capture_output=True, check=False, env=environment
    )
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise EngineError(
            "the exported model does not run", got=" | ".join(lines[-3:]) or f"exit code {done.returncode}"
        )
    answers = read_answers(done.stdout.decode().removesuffix("\n").split("\n") if done.stdout else [])
    if len(answers) != len(texts):
        raise EngineError("the exported model lost a text", got=f"{len(answers)} answers for {len(texts)} texts")
    return answers


def run_script(folder: Path, texts: Sequence[Source], num_beams: int) -> list[Answer]:
    """Run the `run.py` of an exported folder in a fresh Python process. Raises EngineError as `run_answers` does."""
    return run_answers([sys.executable, folder / "run.py", "--json", "--beam", str(num_beams)], texts)
