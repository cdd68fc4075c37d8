"""Findings about lengths and tokens: rows over the limits, pairs that do not fit together, unknown tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.data.splits import hold_out
from glassformer.data.tables import Table
from glassformer.planning.audit.characters import describe
from glassformer.planning.audit.findings import SIDES, Finding, Side, about_rows, texts_of_side
from glassformer.settings import Settings
from glassformer.text import Tokenizer, learn_both

FAR_OUT = 5.0  # robust standard deviations from the expected length
MIN_FACTOR = 2.0  # minimum factor between the expected and the actual length
MIN_ROWS = 50  # rows from which the expected length is estimated
_BATCH = 4096  # texts whose ids are in memory at once


def find_length_ratio(table: Table) -> Iterator[Finding]:
    """Yield a finding for pairs in characters whose target is far longer or shorter than its source lets expect.

    The target has about `ratio` characters for each of the source, with a variance that grows with the length (Gale
    and Church 1993). Ratio and deviation are medians, so that wrong pairs do not change them.
    """
    source, target = (np.array([*map(len, texts_of_side(table, side, features=False))]) for side in SIDES)
    if len(source) < MIN_ROWS:
        return
    ratio = float(np.median(target / source))
    expected = ratio * source
    deviation = (target - expected) / np.sqrt(expected + 1)
    center = float(np.median(deviation))
    scale = max(0.5, 1.4826 * float(np.median(np.abs(deviation - center))))
    factor = (np.maximum(target, expected) + 1) / (np.minimum(target, expected) + 1)
    distance = np.abs(deviation - center) / scale

    def note(row: int) -> str:
        return f"{target[row]:,} characters; about {expected[row]:,.0f} are expected for {source[row]:,}"

    rows = _longest_first(np.flatnonzero((distance > FAR_OUT) & (factor > MIN_FACTOR)), distance)
    text = f"have a target whose length does not fit the source (a character of a source has {ratio:.2f} of a target)"
    advice = "read the examples; where source and target are not translations of each other, correct or drop the rows"
    yield from about_rows("length ratio", table, "target", rows, text, advice, note=note)


def learn_tokenizers(table: Table, settings: Settings, *, has_valid: bool) -> tuple[Tokenizer, Tokenizer]:
    """Return the tokenizers that training would learn: from the rows that it does not hold out."""
    pairs = table.pairs
    if not has_valid and len(pairs) > 1:
        data = settings.data
        train_rows, _ = hold_out(pairs, data.valid_fraction, data.max_valid_rows, settings.split_seed)
        pairs = [pairs[index] for index in train_rows]
    return learn_both(pairs, settings.tokens, table.inputs)


def find_in_tokens(table: Table, side: Side, tokenizer: Tokenizer, limit: int) -> Iterator[Finding]:
    """Yield findings for rows that have more tokens than the limit, the longest ones first, and for unknown tokens."""
    kind, unk_id = tokenizer.settings.kind, tokenizer.vocabulary.unk_id
    lengths, unknown = np.zeros(len(table.pairs), np.int64), []
    for start in range(0, len(table.pairs), _BATCH):
        batch = [getattr(pair, side) for pair in table.pairs[start : start + _BATCH]]
        for row, ids in enumerate(tokenizer.encode_many(batch), start):
            lengths[row] = len(ids)
            if unk_id in ids:
                unknown.append(row)
    too_long = _longest_first(np.flatnonzero(lengths > limit), lengths)
    text = f"have a {side} of more than {limit:,} {kind}, the limit data.max_{side}_length; training leaves them out"
    advice = "a higher limit keeps them, and needs more memory; or split these texts in the table"
    option = f"--set data.max_{side}_length={lengths.max()}"
    yield from about_rows("too long", table, side, too_long, text, advice, option, lambda i: f"{lengths[i]:,} {kind}")

    def note(row: int) -> str:
        pieces = list(dict.fromkeys(tokenizer.unknown(getattr(table.pairs[row], side))))
        return ", ".join(describe(piece) if len(piece) == 1 else repr(piece[:40]) for piece in pieces[:4])

    text = f"have a {side} with {'words' if kind == 'words' else 'characters'} that have no token"
    advice = (
        "they are read as <unk> in a source and can never be in an answer: correct them in the table, train on more "
        "rows that have them, or use tokens that represent every text"
    )
    option = f"--set tokens.{side}.kind=bytes"
    yield from about_rows("unknown tokens", table, side, unknown, text, advice, option, note)


def _longest_first(rows: NDArray[np.intp], lengths: NDArray[Any]) -> list[int]:
    return rows[np.argsort(-lengths[rows], kind="stable")].tolist()  # type: ignore[no-any-return]
