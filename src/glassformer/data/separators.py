"""Which character separates the cells of a table, from its first lines.

The usual separator of the format is taken unless the lines leave no doubt that another separator is meant: the first
line has none of the usual ones, or decimal commas only, and the other cuts nearly all lines into as many cells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "pipes"}

_MIN_LINES = 3  # minimum number of lines to give up the usual separator although it cuts
_ALIKE = 0.9  # minimum fraction of the lines that a separator cuts into as many cells as the first line
_QUOTED = re.compile(r'(?m)(?:^|(?<=[,;\t|]))[ ]*"(?:[^"]|"")*"(?=[ ]*(?:[,;\t|]|\r?$))')
_DECIMAL_COMMA = re.compile(r"(?<=\d),(?=\d)")
_EXCEL_LINE = re.compile(r'"?sep=([,;|\t:^~]|\\t)"?[\r\n]*', re.IGNORECASE)


def stated_separator(line: str) -> str | None:
    """Return the separator that a line `sep=;` states, as Excel reads and writes it; None for another line."""
    match = _EXCEL_LINE.fullmatch(line)
    return None if match is None else match[1].replace("\\t", "\t")


def is_clear(line: str, usual: str) -> bool:
    """Return whether one line alone shows that the table has the usual separator."""
    another_cuts = any(_cuts([line], separator, tight=True) for separator in NAMES if separator != usual)
    return usual in (_DECIMAL_COMMA.sub("", line) if usual == "," else line) or not another_cuts


def separator_of(lines: Sequence[str], usual: str, *, is_whole: bool) -> str:
    """Return the separator of a table with these first lines; `is_whole`: there are no more."""
    text = _QUOTED.sub("", "".join(lines))
    cut = [line for line in re.split(r"\r\n|\r|\n", text) if line.strip()]
    if not is_whole:
        del cut[-1:]  # it may be part of a quoted cell
    while len(cut) > 1 and not any(separator in cut[0] for separator in NAMES):
        del cut[0]  # a title
    without_decimals = [_DECIMAL_COMMA.sub("", line) for line in cut]
    if len(cut) < _MIN_LINES and _cuts(cut if len(cut) == 1 else without_decimals, usual):
        return usual
    if usual == "," and cut and cut[0].count("\t") and len({line.count("\t") for line in cut}) == 1:
        return "\t"
    if _cuts(without_decimals if usual == "," else cut, usual, tight=True):
        return usual
    other_separators = [
        separator
        for separator in NAMES
        if separator != usual and _cuts(without_decimals if separator == "," else cut, separator, tight=True)
    ]
    return other_separators[0] if len(other_separators) == 1 else usual


def _cuts(lines: Sequence[str], separator: str, *, tight: bool = False) -> bool:
    """Return whether a separator cuts nearly all lines into as many cells as the first one, two or more.

    `tight`: and it is not always followed by white space, as a comma or semicolon of prose is.
    """
    counts = [line.count(separator) for line in lines]
    if not counts or not counts[0]:
        return False
    is_prose = tight and separator in ",;" and all(f"{separator} " in line for line in lines if separator in line)
    return not is_prose and counts.count(counts[0]) >= _ALIKE * len(counts)
