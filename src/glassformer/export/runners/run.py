#!/usr/bin/env python3
"""Translate lines with the exported model in this folder: `python run.py < texts.txt`.

Options: --beam N (default: the model's; 1 is greedy search), --json (JSON in, JSON objects out), and more in `--help`.
`engine.py` says which libraries it needs.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

if __name__ == "__main__":
    sys.path.insert(0, str(HERE))  # PYTHONSAFEPATH leaves it out
    from lines import load, main

    exported = load(HERE)
    from engine import Engine

    main(exported, Engine)
