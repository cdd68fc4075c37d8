"""Models of dates, trained once by our own command, and kept."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

from benchmarks.tasks import SHAPE_D, Pairs, settings_of, split_dates

CACHE = Path(__file__).parent / ".cache"
STEPS = 1_200


def trained_dates() -> Path:
    """Task D's model, which every decoder runs: the run directory, trained when it is not there yet (minutes)."""
    out = CACHE / "dates"
    if not _is_done(out):
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
        recipe = CACHE / "dates.toml"
        CACHE.mkdir(exist_ok=True)
        recipe.write_text(settings.to_toml(), encoding="utf-8")
        _train(out, "--recipe", recipe, "--set", "data.valid_fraction=0.05")
    return out


def default_dates() -> Path:
    """The same by zero configuration, for the glass box."""
    out = CACHE / "dates-default"
    if not _is_done(out):
        CACHE.mkdir(exist_ok=True)
        _train(out)
    return out


def _is_done(out: Path) -> bool:
    return (out / "README.md").exists()  # the last thing that a run writes


def _train(out: Path, *options: str | Path) -> None:
    table, test = CACHE / "dates.csv", CACHE / "dates-test.csv"
    for path, pairs in zip((table, test), split_dates(), strict=True):
        _write(path, pairs)
    words = ("train", table, "--test", test, "--out", out, "--overwrite", *options)
    subprocess.run([sys.executable, "-m", "glassformer", *map(str, words)], check=True, stdout=sys.stderr)


def _write(path: Path, pairs: Pairs) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([("source", "target"), *pairs])
