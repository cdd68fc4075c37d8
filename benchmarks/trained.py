"""The model that every decoder runs: task D's, trained once by our own command, and kept."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from benchmarks.tasks import SHAPE_D, Pairs, settings_of, split_dates

CACHE = Path(__file__).parent / ".cache"
STEPS = 1_200


def trained_dates() -> Path:
    """The run directory, trained when it is not there yet (minutes)."""
    out = CACHE / "dates"
    if not (out / "README.md").exists():  # the last thing that a run writes
        CACHE.mkdir(exist_ok=True)
        training = {
            "batch_tokens": 2_048,
            "steps": STEPS,
            "validate_every": STEPS // 4,
            "schedule": "cosine",
            "learning_rate": 7.5e-4,
            "warmup_steps": 200,
            "clip_norm": 1.0,
            "label_smoothing": 0.0,
        }
        settings = settings_of("characters", SHAPE_D, 0.1, **training)
        recipe, table, test = CACHE / "dates.toml", CACHE / "dates.csv", CACHE / "dates-test.csv"
        recipe.write_text(settings.to_toml(), encoding="utf-8")
        for path, pairs in zip((table, test), split_dates(), strict=True):
            _write(path, pairs)
        options = ["--recipe", recipe, "--test", test, "--set", "data.valid_share=0.05", "--out", out, "--overwrite"]
        command = [sys.executable, "-m", "glassformer", "train", str(table), *map(str, options)]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return out


def _write(path: Path, pairs: Pairs) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("source", "target"), *pairs])
