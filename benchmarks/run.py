"""The command: which jobs, how many rounds; what was measured goes to a file and into the tables.

    python -m benchmarks [--only train-D,decode-D] [--rounds N] [--quick] [--device cuda]

Fewer than five rounds are for a look: they are shown, and nothing is written.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.contenders import DECODERS, OURS, PEAKS, TRAINERS
from benchmarks.curves import POINTS, RowsCurve, StepCurve
from benchmarks.jobs import Decoding, MatrixProduct, Training
from benchmarks.padding import padding_shares
from benchmarks.page import MODELS, Page
from benchmarks.report import GOALS, PAGE, RESULTS, TABLES, Outcome, fill, goals_table, save, table_of
from benchmarks.tasks import HELD_OUT_DATES, TASKS
from benchmarks.trained import default_dates, trained_dates
from benchmarks.turns import Job, take_turns

ROUNDS = 5
QUICK_TEXTS = 100
PACKAGES = ("glassformer", "torch", "transformers", "ctranslate2", "numpy")
JOBS = {
    "cpu": ("train-D", "train-M", "decode-D", "curves", "padding", "page"),
    "cuda": ("train-D", "train-M", "train-base", "train-big", "decode-D", "curves"),
}


def jobs_of(name: str, device: str, n_texts: int) -> Mapping[str, Job]:
    """Who computes in the job `name`."""
    if name == "curves":
        return {curve: StepCurve(curve, device) for curve in POINTS} | {"rows": RowsCurve(device)}
    if name == "page":
        default_dates()
        return {model: Page(model) for model in MODELS}
    if name == "decode-D":
        model = trained_dates()
        return {contender: Decoding(model, contender, device, n_texts) for contender in DECODERS}
    task = name.removeprefix("train-")
    products = {name: MatrixProduct(precision, device) for name, precision in PEAKS.items()}
    return {contender: Training(task, contender, device) for contender in TRAINERS} | products


def measure(name: str, device: str, rounds: int, n_texts: int) -> Outcome:
    contenders: dict[str, Any]
    if name == "padding":
        rounds, contenders = 0, padding_shares()
    else:
        records = take_turns(
            jobs_of(name, device, n_texts), rounds, lambda line: print(f"{name}  {line}", file=sys.stderr)
        )
        if OURS in records and (reason := records[OURS].absent):
            sys.exit(f"{name}: nothing to compare with, because ours failed: {reason}")
        contenders = {contender: dataclasses.asdict(record) for contender, record in records.items()}
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes")
    return {"when": when, "rounds": rounds, "machine": machine(device), "contenders": contenders}


def machine(device: str) -> dict[str, Any]:
    cpu = Path("/proc/cpuinfo")
    names = [line for line in cpu.read_text().splitlines() if line.startswith("model name")] if cpu.exists() else []
    processor = names[0].partition(": ")[2] if names else platform.processor() or platform.machine()
    versions = {"Python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "device": processor if device == "cpu" else torch.cuda.get_device_name(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "versions": versions,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    known = [*(f"train-{task}" for task in TASKS), "decode-D", "curves", "padding", "page"]
    parser.add_argument("--device", choices=tuple(JOBS), default="cpu")
    parser.add_argument("--only", help=f"some of {', '.join(known)}, with commas between")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--quick", action="store_true", help="one round, fewer sentences: whether all runs, not how fast"
    )
    given = parser.parse_args()
    names = given.only.split(",") if given.only else JOBS[given.device]
    if unknown := set(names) - set(known):
        parser.error(f"there is no job {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    if given.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here")
    rounds, n_texts = (1, QUICK_TEXTS) if given.quick else (given.rounds, HELD_OUT_DATES)
    path = RESULTS / f"{datetime.date.today().isoformat()}-{given.device}.json"
    for name in names:
        outcome = measure(name, given.device, rounds, n_texts)
        print(f"\n{name}\n\n{table_of(name, outcome)}", flush=True)
        if not given.quick and (rounds >= ROUNDS or name == "padding"):
            save({name: outcome}, path)
            write_page(path, given.device)


def write_page(results: Path, device: str) -> None:
    """Fill the tables of the page from a file of results, which other benchmarks add to as well."""
    outcomes = json.loads(results.read_text(encoding="utf-8"))
    page = PAGE.read_text(encoding="utf-8")
    for name, outcome in outcomes.items():
        if name.partition("-")[0] in TABLES:
            page = fill(page, f"{name} {device}", table_of(name, outcome))
    if all(goal.job in outcomes for goal in GOALS):
        page = fill(page, f"goals {device}", goals_table(outcomes))
    PAGE.write_text(page, encoding="utf-8")
