"""Run one benchmark by its name."""

import importlib
import sys

from benchmarks import NAMES

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in NAMES:
        sys.exit(f"usage: python -m benchmarks {{{','.join(NAMES)}}} [options]")
    name = sys.argv.pop(1)
    importlib.import_module(f"benchmarks.{name}").main(f"python -m benchmarks {name}")
