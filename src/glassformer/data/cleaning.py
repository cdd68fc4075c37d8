r"""Cleaning of the table to train on, by option: what each filter drops is in the ledger, what it changes is counted.

The filters, in this order. Texts are compared in NFC.

1. `data.strip_controls` removes control and invisible characters. A row with an empty side after that is dropped.
2. `data.drop_contradictions`: where a source has several targets, the rows with its most frequent target are kept. If
   no target is more frequent than every other, all rows of the source are dropped.
3. `data.drop_duplicates` drops rows that repeat an earlier one. It is after 2, so that repetitions count there.

The length limits in tokens are applied afterward, in `data/prepare.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.ledger import Fault, Ledger, Reason
from glassformer.data.pairs import Pair
from glassformer.data.splits import text_hashes
from glassformer.data.tables import Table, cell_fault
from glassformer.errors import TableError
from glassformer.settings import DataSettings
from glassformer.text.inputs import Inputs, cells_of, compose

MAX_TAGS = 8
"""Tag characters of a flag: the code of a region, up to 7, and the end of it (UTS #51, ED-14c)."""

_TAGS = r"[\U000e0020-\U000e007f]"
_OUTSIDE_OF_FLAG = "".join(rf"(?<!\U0001f3f4{_TAGS}{{{n}}})" for n in range(1, MAX_TAGS + 1))

# Joiners are letters of the spelling in Persian and in Indic scripts; after a Latin letter they are not.
CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    r"\ud800-\udfff\U000e0000-\U000e001f]|(?<![\u0370-\U0010ffff])[\u200c\u200d]"
    rf"|{_TAGS}{_OUTSIDE_OF_FLAG}"
)
"""A control or invisible character, except the tags of a flag, such as England's."""

_BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"
_RUN_OF_BREAKS = re.compile(f"[{_BREAKS}]+")


def has_control(text: str) -> bool:
    """Return whether a text has control or invisible characters."""
    return not text.isprintable() and CONTROL.search(text) is not None


def strip_controls(text: str) -> str:
    """Return a text without control and invisible characters; tabs and line breaks inside it become one space."""
    if text.isprintable():
        return text
    visible = CONTROL.sub(lambda match: match[0] if match[0] in _BREAKS else "", text)
    return _RUN_OF_BREAKS.sub(" ", visible.strip(_BREAKS))


class Groups:
    """Pairs that have the same source, or also the same target, from hashes alone: 16 bytes for each pair.

    The answers of a source are its different targets. Two different texts have one hash with a probability of about
    n² / 2⁶⁵ among n texts: 3 in a million for ten million.
    """

    def __init__(self, pairs: Iterable[Pair]) -> None:
        sources, targets = text_hashes(text for pair in pairs for text in pair).reshape(-1, 2).T
        order = np.lexsort((targets, sources))  # by source, then target, then index
        is_source = _is_new(sources[order])
        is_answer = is_source | _is_new(targets[order])
        self._answer_of = np.empty(len(order), np.int64)  # of each pair
        self._answer_of[order] = np.cumsum(is_answer) - 1
        self._firsts = order[is_answer]  # the first pair of each answer
        self._source_of = (np.cumsum(is_source) - 1)[is_answer]  # of each answer
        self._counts = np.bincount(self._answer_of)  # pairs of each answer
        self._most = np.zeros(is_source.sum(), np.int64)  # pairs of the most frequent answer of each source
        np.maximum.at(self._most, self._source_of, self._counts)

    def first_equal(self, index: int) -> int:
        """Return the index of the first pair that is the same as this one."""
        return int(self._firsts[self._answer_of[index]])

    @property
    def is_repetition(self) -> NDArray[np.bool_]:
        """Whether each pair repeats an earlier one."""
        return self._firsts[self._answer_of] != np.arange(len(self._answer_of))  # type: ignore[no-any-return]

    @property
    def _n_answers(self) -> NDArray[np.int64]:
        return np.bincount(self._source_of)

    @property
    def n_contradictory_sources(self) -> int:
        """The number of sources with several answers."""
        return int((self._n_answers > 1).sum())

    @property
    def n_contradictions(self) -> int:
        """The number of pairs whose source has several answers."""
        return int(self._counts[self._n_answers[self._source_of] > 1].sum())

    @property
    def best_exact_match(self) -> float:
        """The best exact match when one answer of each source is right."""
        return int(self._most.sum()) / max(1, len(self._answer_of))

    def first_contradictions(self, count: int) -> list[tuple[int, int]]:
        """Return the first pair of each of the first contradictory sources, and the first one with another target."""
        by_source = np.lexsort((self._firsts, self._source_of))
        starts = np.flatnonzero(_is_new(self._source_of[by_source]))[self._n_answers > 1]
        pairs = zip(self._firsts[by_source[starts]].tolist(), self._firsts[by_source[starts + 1]].tolist(), strict=True)
        return sorted(pairs)[:count]

    def dropped(self, row_name: Callable[[int], str], data: DataSettings) -> Iterator[tuple[int, Fault]]:
        """Yield the index of each pair to drop, in order, with the reason. `row_name(i)` names the row of pair i."""
        totals = np.bincount(self._source_of, self._counts).astype(np.int64)
        n_most = np.bincount(self._source_of, self._counts == self._most[self._source_of])
        is_wrong = (self._counts < self._most[self._source_of]) | (n_most[self._source_of] > 1)
        is_contradiction = is_wrong[self._answer_of] & data.drop_contradictions
        for index in np.flatnonzero(is_contradiction | (self.is_repetition & data.drop_duplicates)).tolist():
            if is_contradiction[index]:
                answer = self._answer_of[index]
                count, total = self._counts[answer], totals[self._source_of[answer]]
                yield index, Fault(Reason.CONTRADICTION, f"target of {count} of {total} rows with this source")
            else:
                yield index, Fault(Reason.DUPLICATE, f"the same as {row_name(self.first_equal(index))}")


def _is_new(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value differs from the one before it."""
    return np.concatenate(([True], values[1:] != values[:-1]))[: len(values)]


def clean(table: Table, data: DataSettings) -> Table:
    """Return the table without the rows that the settings drop; without such settings, the table itself.

    Its ledger is a new one, with an entry for each dropped row; `changed` counts kept rows that were changed. Raises
    TableError when no row is left.
    """
    if not (data.strip_controls or data.drop_contradictions or data.drop_duplicates):
        return table
    pairs = [_stripped(pair) for pair in table.pairs] if data.strip_controls else table.pairs
    dropped = _empty(pairs, table.inputs) if data.strip_controls else {}
    if data.drop_contradictions or data.drop_duplicates:
        left = [index for index in range(len(pairs)) if index not in dropped]
        groups = Groups(pairs[index] for index in left)
        faults = groups.dropped(lambda position: table.row_name(left[position]), data)
        dropped |= {left[position]: fault for position, fault in faults}
    ledger = Ledger()
    ledger.include(table.ledger)
    for index, fault in dropped.items():
        ledger.drop(table.rows[index], table.file(index), fault)
    left = [index for index in range(len(pairs)) if index not in dropped]
    ledger.changed += sum(pairs[index] != table.pairs[index] for index in left)
    if not left:
        what, hint = "no row of the table is left after cleaning", "drop fewer rows"
        raise TableError(what, where=table.path, got=ledger.summary(), hint=hint)
    return replace(table.chosen(left, [pairs[index] for index in left]), ledger=ledger)


def _stripped(pair: Pair) -> Pair:
    """Return a pair without control characters."""
    if all(map(str.isprintable, (*cells_of(pair.source), pair.target))):
        return pair
    return Pair(compose([*map(strip_controls, cells_of(pair.source))]), strip_controls(pair.target))


def _empty(pairs: Sequence[Pair], inputs: Inputs) -> dict[int, Fault]:
    """Return the pairs with an empty side, by index."""
    faults = ((index, cell_fault((*cells_of(pair.source), pair.target), inputs)) for index, pair in enumerate(pairs))
    return {index: fault._replace(detail="without control characters") for index, fault in faults if fault}
