"""How long the command line takes to answer `--help`: medians of interleaved runs, in milliseconds.

    python benchmarks/startup.py [--runs N]

The bare interpreter and the import of PyTorch stand beside it, for scale.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time

VERBS = ("demo", "train", "translate", "evaluate", "score", "tokens", "info")


def milliseconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import torch": [sys.executable, "-c", "import torch"],
        "glassformer --help": [sys.executable, "-m", "glassformer", "--help"],
    } | {f"glassformer {verb} --help": [sys.executable, "-m", "glassformer", verb, "--help"] for verb in VERBS}
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, command in commands.items():
            taken[name].append(milliseconds(command))
    medians = {name: round(statistics.median(times)) for name, times in taken.items()}
    print(json.dumps({"python": platform.python_version(), "runs": runs, "milliseconds": medians}, indent=2))


if __name__ == "__main__":
    main()
