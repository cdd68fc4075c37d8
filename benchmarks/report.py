"""From the measurements of the rounds to a table in Markdown: medians with their range, ratios, and the machine."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import platform
import statistics
from collections.abc import Sequence
from pathlib import Path

import psutil

PACKAGES = ("glassformer", "torch", "transformers", "ctranslate2", "numpy")


def options(program: str, description: str | None, rounds: int | None = None) -> argparse.ArgumentParser:
    """The parser of a benchmark, with `--rounds` where it has rounds."""
    parser = argparse.ArgumentParser(
        prog=program, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if rounds:
        parser.add_argument("--rounds", type=int, default=rounds)
    return parser


def spread(values: Sequence[float], digits: int = 0) -> str:
    """The median and the range of the rounds.

    The range of five rounds has the true median with a probability of 1 - 2 · 2^-5 = 94 %, whatever the distribution.
    """
    return f"{statistics.median(values):,.{digits}f} [{min(values):,.{digits}f}, {max(values):,.{digits}f}]"


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """How many times ours is theirs, round by round, because what slows a round slows both."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]


def rows_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; rows with fewer cells, such as those of an absent contender, are filled up."""
    filled = [[*row, *[""] * (len(columns) - len(row))] for row in rows]
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *filled]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def signature(rounds: int) -> str:
    """When, where and with what was measured."""
    cpu = Path("/proc/cpuinfo")
    names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")] if cpu.exists() else []
    processor = names[0].partition(": ")[2] if names else platform.processor() or platform.machine()
    versions = [f"Python {platform.python_version()}"]
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{package} {importlib.metadata.version(package)}")
    cores = f"{psutil.cpu_count(logical=False)} cores, load {psutil.getloadavg()[0]:.1f}"
    today = datetime.datetime.now(datetime.UTC).date()
    return f"\n{today}; {rounds} rounds; {processor}, {cores}; {', '.join(versions)}.\n"


def megabytes(process: psutil.Process, *, children_only: bool = False) -> float:
    """Resident memory of a process and its children, in MB of 10^6 bytes; what processes share counts once."""
    total = 0
    for each in (*(() if children_only else (process,)), *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            total += each.memory_full_info().pss
    return total / 1e6
