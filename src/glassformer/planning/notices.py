"""Notices about the tables of a run before it begins."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from glassformer.data.prepare import MAX_UNKNOWN, Prepared
from glassformer.data.rows import first_row_note
from glassformer.errors import counted
from glassformer.planning.audit import quick_audit
from glassformer.planning.grow import unknown_text
from glassformer.planning.plan import Plan
from glassformer.planning.resume import Notice
from glassformer.text import Tokenizer

ENOUGH_ROWS = 50  # to train on, without a notice


def notices_of(planned: Plan) -> Iterator[Notice]:
    """Yield what a user should know before a run: about its decisions, its tables and their tokens."""
    yield from planned.decided
    table, valid, test, prepared = planned.table, planned.valid, planned.test, planned.prepared
    tables = [read for read in (table, valid, test) if read is not None]
    for read in tables:
        if text := first_row_note(read):
            yield Notice("first row", text, read.path)
    yield from (Notice("reading", text, read.path) for read in tables for text in read.notes)
    yield from (Notice("sample", text, table.path) for text in prepared.notes)
    for overlap in prepared.overlaps:
        if overlap.rows and overlap.table:
            text = f"{overlap.rows:,} of the {overlap.total:,} rows of {overlap.table} have a source that is trained on"
            yield Notice("also trained on", f"{text} as well", overlap.table)
    if lines := quick_audit(table, tables[1:]):
        yield Notice("audit", "\n".join(lines), table.path)
    if (n_train := len(prepared.train)) < ENOUGH_ROWS and planned.start is None and planned.resumed is None:
        text = f"{counted(n_train, 'row')} to train on: a model needs some hundred to learn anything"
        yield Notice("few rows", text, table.path)
    n_rows = table.ledger.kept + (0 if valid is None else valid.ledger.kept)
    if prepared.ledger.kept < n_rows:
        text = f"rows are too long for data.max_source_length or data.max_target_length: {prepared.ledger.summary()}"
        yield Notice("too long", text, table.path)
    for side, tokenizer in (("source", prepared.source_tokenizer), ("target", prepared.target_tokenizer)):
        counts, unk_id = prepared.data.counts(side), tokenizer.vocabulary.unk_id
        if unk_id is not None and counts[unk_id]:
            text = f"{counts[unk_id]:,} of {sum(counts):,} {side} tokens to train on are not in the vocabulary"
            characters = unknown_text(tokenizer, (getattr(pair, side) for pair in table.pairs))
            named_characters = f": {characters}" if characters and tokenizer.settings.kind != "words" else ""
            yield Notice("unknown tokens", f"{text}, and become <unk>{named_characters}", table.path)
        if text := _unknown_held_out(prepared, side, tokenizer):
            yield Notice("unknown held-out", text, table.path if valid is None else valid.path)
    if text := prepared.data.short_limit(prepared.settings.decoding.max_new_tokens):
        yield Notice("short limit", text, table.path)


def _unknown_held_out(prepared: Prepared, side: str, tokenizer: Tokenizer) -> str:
    """Return the notice about held-out rows whose tokens the vocabulary lacks, or ""; a few of them are usual."""
    unk_id = tokenizer.vocabulary.unk_id
    if unk_id is None or prepared.valid is None:
        return ""
    sequences, n_rows = getattr(prepared.valid, side), len(prepared.valid)
    is_unknown = sequences.packed(np.arange(n_rows)) == unk_id
    n_unknown = len(np.unique(np.repeat(np.arange(n_rows), sequences.lengths)[is_unknown]))
    n_tokens = len(is_unknown) - tokenizer.settings.n_frame_tokens * n_rows
    if n_unknown < n_rows and is_unknown.sum() <= MAX_UNKNOWN * n_tokens:
        return ""
    kind = tokenizer.settings.kind
    return (
        f"{n_unknown:,} of {n_rows:,} held-out {side}s have {kind} that are not in the vocabulary "
        f"({is_unknown.sum():,} of {n_tokens:,}), so that validation says little: --set tokens.{side}.kind="
        f"{'characters' if kind == 'words' else 'bytes'}, or hold out other rows with --valid"
    )
