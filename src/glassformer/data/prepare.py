"""Prepare the data of a run: a split, tokenizers, ids, and a ledger of the rows that are left out."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.data.column_settings import held_out_columns
from glassformer.data.corpus import Corpus, Encoded, Tokenizers, encode, spread
from glassformer.data.ledger import Fault, Ledger, Reason
from glassformer.data.pairs import Pair, fingerprint
from glassformer.data.splits import Overlap, TrainedSources, held_rows, source_hashes
from glassformer.data.tables import Table
from glassformer.errors import TableError
from glassformer.settings import Settings
from glassformer.storage.files import shown
from glassformer.storage.modelfile import ModelFile
from glassformer.storage.records import Calibration, Metrics, TrainingData
from glassformer.storage.rundirectory import HELD_OUT_COLUMNS, HELD_OUT_ROWS
from glassformer.text import Tokenizer, grow_both, learn_both
from glassformer.text.inputs import cells_of
from glassformer.text.seen import learn_seen

MAX_UNKNOWN = 0.2  # of the tokens of one side
LEARNED_ROWS = 1_000_000
"""Rows from which words and subwords are learned in a larger table. Characters are those of all rows."""


@dataclass(frozen=True)
class Prepared:
    """The data of a run. `data` is the record for the model file, `test_ledger` the ledger of the test table.

    `trained` are the sources to train on; `overlaps` count the validation and test rows that have one of them.
    `notes` are about a large table: its tokens are learned from a sample. `tables` is what a checkpoint says about the
    tables.
    """

    settings: Settings
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    train: Corpus
    valid: Corpus | None
    valid_pairs: list[Pair]
    ledger: Ledger
    data: TrainingData
    trained: TrainedSources
    overlaps: tuple[Overlap, ...]
    test_ledger: Ledger = field(default_factory=Ledger)
    notes: tuple[str, ...] = ()
    tables: Mapping[str, str] = field(default_factory=dict)

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target."""
        return self.source_tokenizer, self.target_tokenizer

    @property
    def fingerprint(self) -> str:
        """Fingerprint of all pairs, separate validation rows included: a run is resumed with the same pairs."""
        return self.tables["fingerprint"]

    @property
    def held_out_rows(self) -> tuple[Sequence[Sequence[str]], Sequence[str]]:
        """The held-out rows and their columns, for the run directory: a column for each input, and the target."""
        inputs = self.source_tokenizer.inputs
        rows = [(*cells_of(pair.source), pair.target) for pair in self.valid_pairs[:HELD_OUT_ROWS]]
        return rows, held_out_columns(inputs, self.data.columns) if inputs else HELD_OUT_COLUMNS

    def write_ledger(self, path: Path) -> None:
        """Write the entry of each row that was not kept in the tables to train, validate and test on."""
        merged = Ledger()
        merged.include(self.ledger)
        merged.include(self.test_ledger)
        merged.write(path)

    def model_file(
        self, tensors: dict[str, Any], metrics: Metrics, calibration: Calibration | None = None
    ) -> ModelFile:
        """A model of this preparation with the given weights."""
        return ModelFile(self.settings, *self.tokenizers, tensors, self.data, metrics, calibration=calibration)


def tables_of(table: Table, valid: Table | None) -> dict[str, str]:
    """Return what a checkpoint says about the tables of its run; `fingerprint` covers all pairs."""
    of_table = fingerprint(table.pairs)
    record = {"fingerprint": of_table, "rows": str(len(table.pairs)), "table": of_table}
    if valid is not None:
        of_valid = fingerprint(valid.pairs)
        record["fingerprint"] = fingerprint([(of_table, of_valid)])
        record |= {"valid_rows": str(len(valid.pairs)), "valid": of_valid}
    return record


def prepare(
    table: Table,
    settings: Settings,
    valid: Table | None = None,
    tokenizers: tuple[Tokenizer, Tokenizer] | None = None,
    test: Table | None = None,
    earlier: TrainedSources | None = None,
    *,
    grow: bool = False,
) -> Prepared:
    """Split, learn tokenizers (or take `tokenizers`), encode, leave out what is too long.

    `test` is the table to evaluate on at the end, `earlier` the sources that the model to start from was trained on.
    With `grow` the given tokenizers get the characters or words of the rows to train on that they lack.

    Raises TableError when too few rows remain to train on, and for settings that do not fit the rows: a length limit
    that more than half of them exceed, or tokens that are too often unknown.
    """
    if len(table.pairs) < 2:
        got, expected = f"{len(table.pairs)} usable row", "at least 2, and some hundred to learn anything"
        raise TableError("one row is not enough to train on", where=table.path, got=got, expected=expected)
    data = settings.data
    hashes = source_hashes(table.pairs)
    held_out = np.empty(0, np.int64)
    if valid is None:
        held_out = held_rows(hashes, data.valid_fraction, data.max_valid_rows, settings.split_seed)
    train_rows = np.delete(np.arange(len(table.pairs)), held_out)
    ledger = Ledger()
    ledger.include(table.ledger)
    if valid is not None:
        ledger.include(valid.ledger)

    notes: tuple[str, ...] = ()
    if tokenizers is None or grow:
        learned_rows = train_rows
        kinds = {settings.tokens.source.kind, settings.tokens.target.kind}
        if tokenizers is None and len(train_rows) > LEARNED_ROWS and not kinds <= {"characters", "bytes"}:
            learned_rows = train_rows[spread(len(train_rows), LEARNED_ROWS)]
            notes = (f"the tokens are learned from {LEARNED_ROWS:,} of {len(train_rows):,} rows, evenly spaced",)
        pairs = [table.pairs[row] for row in learned_rows.tolist()]
        if tokenizers is None:
            tokenizers = learn_both(pairs, settings.tokens, table.inputs)
        else:
            tokenizers = grow_both(tokenizers, pairs, settings.tokens)
    encoded = encode(table, train_rows, tokenizers, settings)
    _check_lengths(encoded, settings, table.path)
    train = encoded.corpus
    _record_too_long(encoded, table, settings, ledger)
    counts = train.source.counts(len(tokenizers[0])), train.target.counts(len(tokenizers[1]))
    _check_unknown(counts, len(train), tokenizers, table.path)
    validated, rows = (table, held_out) if valid is None else (valid, np.arange(len(valid.pairs)))
    held = encode(validated, rows, tokenizers, settings)
    _record_too_long(held, validated, settings, ledger)
    valid_pairs = [validated.pairs[row] for row in rows.tolist() if row not in held.left_out]
    if not len(train):
        hint = "raise data.max_source_length or data.max_target_length"
        raise TableError("no row is left to train on", where=table.path, got=ledger.summary(), hint=hint)
    trained = TrainedSources(np.unique(np.delete(hashes, [*held_out.tolist(), *encoded.left_out])))
    trained = trained if earlier is None else trained | earlier
    overlaps = [Overlap.of(trained, valid.path if valid else "", valid_pairs)] if valid_pairs else []
    overlaps += [Overlap.of(trained, test.path, test.pairs)] if test else []
    tables = tables_of(table, valid)
    record = _training_data(table, tables, train, counts, len(valid_pairs), tokenizers, ledger)
    sources = {"sources_digest": trained.digest, "valid_overlap": overlaps[0].rows if valid_pairs else None}
    return Prepared(
        settings,
        *tokenizers,
        train,
        held.corpus if len(held.corpus) else None,
        valid_pairs,
        ledger,
        record.model_copy(update=sources),
        trained,
        tuple(overlaps),
        test.ledger if test else Ledger(),
        notes,
        tables,
    )


def _training_data(
    table: Table,
    tables: Mapping[str, str],
    train: Corpus,
    counts: tuple[list[int], list[int]],
    n_valid: int,
    tokenizers: tuple[Tokenizer, Tokenizer],
    ledger: Ledger,
) -> TrainingData:
    """Return the record of the training data for the model file."""
    separate: dict[str, Any] = {"valid_fingerprint": tables["valid"]} if "valid" in tables else {}
    seen_length, seen = learn_seen(train.source.ids, train.source.lengths)
    return TrainingData(
        table=shown(table.path),
        columns=table.taken,
        fingerprint=tables["table"],
        **separate,
        rows=ledger.counts(),
        changed_rows=ledger.changed,
        train_rows=len(train),
        valid_rows=n_valid,
        longest_source=int(train.source.lengths.max()) - tokenizers[0].settings.n_frame_tokens,
        longest_target=int(train.target.lengths.max()) - tokenizers[1].settings.n_frame_tokens,
        source_counts=tuple(counts[0]),
        target_counts=tuple(counts[1]),
        seen_length=seen_length,
        seen_strings=base64.b64encode(seen).decode(),
    )


def _record_too_long(encoded: Encoded, table: Table, settings: Settings, ledger: Ledger) -> None:
    """Add the rows that were too long to the ledger."""
    limits = settings.max_source_tokens, settings.max_target_tokens
    reasons = Reason.SOURCE_TOO_LONG, Reason.TARGET_TOO_LONG
    for limit, reason, rows in zip(limits, reasons, encoded.too_long, strict=True):
        for row, n_tokens in rows:
            ledger.drop(table.rows[row], table.file(row), Fault(reason, f"{n_tokens} tokens, of at most {limit}"))


def _check_lengths(encoded: Encoded, settings: Settings, path: str) -> None:
    """Raise TableError when more than half of the rows are longer than a limit."""
    limits = settings.max_source_tokens, settings.max_target_tokens
    for side, n_tokens, limit in zip(("source", "target"), encoded.n_tokens, limits, strict=True):
        n_long = int((n_tokens > limit).sum())
        if 2 * n_long > len(n_tokens):
            larger = int(1.25 * np.quantile(n_tokens, 0.95)) + 1
            raise TableError(
                f"more than half of the {side}s are longer than the limit",
                where=path,
                got=f"{n_long:,} of {len(n_tokens):,} have more than {limit} tokens",
                hint=f"--set data.max_{side}_length={larger} (and model.max_length, where positions are learned)",
            )


def _check_unknown(counts: tuple[list[int], list[int]], n_rows: int, tokenizers: Tokenizers, path: str) -> None:
    for side, counts_of_side, tokenizer in zip(("source", "target"), counts, tokenizers, strict=True):
        unknown = tokenizer.vocabulary.unk_id
        n_tokens = sum(counts_of_side) - tokenizer.settings.n_frame_tokens * n_rows
        n_unknown = 0 if unknown is None else counts_of_side[unknown]
        if n_unknown > MAX_UNKNOWN * n_tokens:
            raise TableError(
                f"more than {MAX_UNKNOWN:.0%} of the {side} tokens are not in the vocabulary",
                where=path,
                got=f"{n_unknown:,} of {n_tokens:,} {tokenizer.settings.kind} are unknown",
                expected=f"at most {MAX_UNKNOWN:.0%}",
                hint=f"another tokens.{side}.kind, a larger tokens.{side}.vocabulary_size or a smaller "
                f"tokens.{side}.min_count; with --init, a model of such texts",
            )
