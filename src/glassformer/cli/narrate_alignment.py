"""The small picture of `explain`: which source tokens each output token depends on, in blocks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.console import Console

from glassformer.cli.console import printable

if TYPE_CHECKING:
    from glassformer.glassbox.schema import Token, Trace

BLOCKS = "·░▒▓█"
"""Below 10, 30, 50 and 70 percent of the largest number of the row, and above."""
MAX_ROWS, MAX_LABEL = 40, 8


def print_alignment(trace: Trace) -> None:
    """Print a row of blocks for each output token; nothing without evidence, a sentence where it does not fit."""
    if trace.evidence is None:
        return
    columns = [_label(token) for token in trace.tokens.source]
    rows = [_label(token) for token in trace.tokens.target_out]
    width = max(map(cell_len, columns)) + 1
    left = max(map(cell_len, rows)) + 2
    if left + width * len(columns) > Console().width or len(rows) > MAX_ROWS:
        sys.stdout.write("the picture of the alignment does not fit here: --html FILE has it\n\n")
        return
    sys.stdout.write(" " * left + "".join(_centered(label, width) for label in columns).rstrip() + "\n")
    for label, numbers in zip(rows, trace.array(trace.evidence.occlusion), strict=True):
        largest = float(numbers.max())
        blocks = "".join(_centered(_block(float(number), largest), width) for number in numbers)
        sys.stdout.write(f"{' ' * (left - 2 - cell_len(label))}{label}  {blocks.rstrip()}\n")
    sys.stdout.write(f"{BLOCKS[-1]} the log-probability of the output token falls most without this source token\n\n")


def _label(token: Token) -> str:
    text = printable(token.text.replace(" ", "␣").replace("\n", "⏎").replace("\t", "⇥"))
    return text if cell_len(text) <= MAX_LABEL else set_cell_size(text, MAX_LABEL - 1) + "…"


def _centered(text: str, width: int) -> str:
    before = (width - cell_len(text)) // 2
    return " " * before + text + " " * (width - cell_len(text) - before)


def _block(number: float, largest: float) -> str:
    if largest <= 0 or number <= 0:
        return BLOCKS[0]
    return BLOCKS[sum(number / largest >= limit for limit in (0.1, 0.3, 0.5, 0.7))]
