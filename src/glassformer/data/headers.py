"""What a header and a few rows say of the columns: which names are usual, and which columns are no text.

Names are compared without case and surrounding white space (`folded`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

# A first row with two of these among its cells is read as a header.
_USUAL_NAME_LIST = """
    source target src tgt trg x y input output inputs outputs text label labels from to question answer
    query response prompt completion instruction word words pron pronunciation phoneme phonemes phone
    phones grapheme graphemes transcription ipa spelling transliteration translation translated original
    reference hypothesis command commands action actions sentence sentences logical_form lf form lemma
    name date iso human machine id index split category source_text target_text input_text output_text
    arabic bulgarian chinese czech danish dutch english finnish french german greek hebrew hindi hungarian
    italian japanese korean latin norwegian polish portuguese romanian russian spanish swedish turkish
    ukrainian en de fr nl es it pt ru zh ja ko ar tr pl sv da fi cs el he hi hu uk ro bg la
"""
USUAL_NAMES = frozenset(_USUAL_NAME_LIST.split())

_ROLE_PAIRS = """
    src/tgt src/trg input/output inputs/outputs x/y text/label text/labels source_text/target_text
    input_text/output_text input_text/target_text question/answer query/response prompt/completion prompt/response
    instruction/response instruction/output
"""
_KIND_PAIRS = """
    original/translation text/translation word/pron word/pronunciation word/phonemes word/transcription
    word/transliteration word/ipa spelling/pronunciation grapheme/phoneme graphemes/phonemes lemma/form
    sentence/logical_form command/action commands/actions
"""


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((source, target) for source, _, target in (pair.partition("/") for pair in text.split()))


ROLE_PAIRS = _pairs(_ROLE_PAIRS)
"""Usual names of source and target after `source` and `target` themselves; the names say which is which."""

KIND_PAIRS = _pairs(_KIND_PAIRS)
"""Usual names that say what the texts are; which is the source, only their order says."""

_SOURCES = {"source", *(source for source, _ in ROLE_PAIRS)} - {"text"}
_TARGETS = {"target", *(target for _, target in ROLE_PAIRS)}

_INDEX_NAME_LIST = "id ids idx index row rows row_id line line_number number no no. nr nr. num #"
_INDEX_NAMES = frozenset(_INDEX_NAME_LIST.split())
_NAMELESS = re.compile(r"|unnamed: ?\d+(_level_\d+)?|__index_level_\d+__")  # as pandas and Arrow name an index
_MIN_NUMBERS = 3
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,15}(\.0+)?")
_RECORD_NUMBER = re.compile(r"([A-Za-z]{1,5}[-_]?)(\d{3,15})")


def folded(name: str) -> str:
    """Return a name as it is compared: without case and surrounding white space."""
    return name.strip().casefold()


def are_reversed(first: str, second: str) -> bool:
    """Return whether only the first of two names is a usual name of targets, or only the second one of sources."""
    names = folded(first), folded(second)
    return [name in _TARGETS for name in names] == [True, False] or [name in _SOURCES for name in names] == [
        False,
        True,
    ]


def is_nameless(name: str) -> bool:
    """Return whether a name is empty, or what a program writes for a column without one."""
    return _NAMELESS.fullmatch(folded(name)) is not None


def names_usual(cells: Sequence[str]) -> bool:
    """Return whether two different cells are usual names of columns."""
    return len(USUAL_NAMES.intersection(map(folded, cells))) >= 2


def is_index(name: str) -> bool:
    """Return whether a column of this name, if it has numbers, is never meant as source or target."""
    return is_nameless(name) or folded(name) in ("id", "ids", "idx", "index", "row_id")


def is_no_text(name: str | None, cells: Sequence[str]) -> bool:
    """Return whether a column is never meant as source or target: nameless, or the numbers of rows.

    `name` is None in a table without a header, where an empty column counts as nameless.
    """
    if is_nameless(name) if name is not None else not any(cell.strip() for cell in cells):
        return True
    numbers = _whole_numbers(cells)
    return _is_increasing(numbers) or (name is not None and folded(name) in _INDEX_NAMES and _are_different(numbers))


def heads_numbers(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a header by the numbers of rows below one of its cells.

    It has text, but no number; the numbers increase, or are different and have no name.
    """
    if any(_whole_numbers([cell]) for cell in first) or not any(map(str.strip, first)):
        return False
    columns = map(_whole_numbers, zip(*rows, strict=True))
    return any(
        _is_increasing(numbers) or (is_nameless(cell) and _are_different(numbers))
        for cell, numbers in zip(first, columns, strict=False)
    )


def _whole_numbers(cells: Sequence[str]) -> list[int]:
    """Return the cells as whole numbers, such as 17, or RX-0017 of one prefix; nothing where a cell is other text."""
    stripped = [cell.strip() for cell in cells]
    if all(map(_WHOLE_NUMBER.fullmatch, stripped)):
        return [int(cell.partition(".")[0]) for cell in stripped]
    records = [_RECORD_NUMBER.fullmatch(cell) for cell in stripped]
    parts = [record.groups() for record in records if record is not None]
    has_one_prefix = len(parts) == len(cells) and len({prefix for prefix, _ in parts}) == 1
    return [int(digits) for _, digits in parts] if has_one_prefix else []


def _is_increasing(numbers: Sequence[int]) -> bool:
    """Return whether there are three numbers or more, each larger than the one before, as the numbers of rows are."""
    return len(numbers) >= _MIN_NUMBERS and all(before < after for before, after in pairwise(numbers))


def _are_different(numbers: Sequence[int]) -> bool:
    return 0 < len(numbers) == len(set(numbers))
