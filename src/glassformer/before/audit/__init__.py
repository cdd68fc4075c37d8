"""What is suspicious in a table of pairs, before a model is trained on it.

    found = audit(read_table("pairs.csv", DataSettings()))      found.findings, .lengths, .to_json()

Reads texts only and changes nothing; no row is dropped here. `quick.py` has the few checks of each training.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from glassformer.before.advise import advise
from glassformer.before.audit.characters import find_characters, find_rare
from glassformer.before.audit.findings import (
    SEVERITIES,
    SIDES,
    Audit,
    Example,
    Finding,
    Kind,
    Lengths,
    Role,
    Severity,
    Side,
    TableSummary,
)
from glassformer.before.audit.lengths import Counts, find_length_ratio, find_shift, find_too_long, summarize
from glassformer.before.audit.lookalikes import find_ends, find_look_alikes, find_two_forms
from glassformer.before.audit.pairs import (
    Rows,
    all_cells,
    find_contradictions,
    find_copies,
    find_duplicates,
    find_few_targets,
    find_left_out,
    only_texts,
)
from glassformer.before.audit.reading import find_headers, find_quoted, find_row_numbers
from glassformer.before.audit.splits import find_near, find_overlap
from glassformer.before.audit.tokens import encode, find_token_loss, learn_tokenizers
from glassformer.before.recipes.overrides import flat
from glassformer.data.cleaning import Groups
from glassformer.data.tables import Table
from glassformer.paper.settings import Settings
from glassformer.text import Tokenizer

__all__ = ["Audit", "Example", "Finding", "Kind", "Lengths", "Role", "Severity", "Side", "TableSummary", "audit"]

_SHOWN_SETTINGS = ("kind", "vocabulary_size", "min_count", "normalization")


def audit(
    table: Table, valid: Table | None = None, test: Table | None = None, settings: Settings | None = None
) -> Audit:
    """Audit the table to train on, and those to validate and test on. Changes nothing.

    `settings` are those of the training that would follow; without them, those that `advise` chooses. Time and memory
    are linear in the rows. Raises the errors of learning tokens: TextError, SettingsError, MissingExtraError.
    """
    if settings is None:
        settings = Settings(**advise(table.pairs, None, table.inputs).settings)
    trained, groups = Rows(table), Groups(table.pairs)
    held = [(Rows(other), purpose) for other, purpose in ((valid, "validate"), (test, "test")) if other is not None]
    others = [rows.table for rows, _ in held]
    findings = [finding for each in (table, *others) for finding in (*find_left_out(each), *find_headers(each))]
    findings += [*find_duplicates(table, groups), *find_contradictions(table, groups)]
    findings += [*find_copies(Rows(only_texts(table))), *find_few_targets(trained)]
    for rows, purpose in held:
        findings += find_overlap(trained, rows, purpose)
    if len(held) == 2:
        findings += find_overlap(held[0][0], held[1][0], "test", "validate")
    notes: list[str] = []
    for rows, purpose in held:
        near, sampled = find_near(trained, rows, purpose)
        findings += near
        notes += sampled
    findings += _find_in_texts(table, others, settings)
    tokenizers = learn_tokenizers(table, settings, has_valid=valid is not None)
    encoded, lengths = _find_in_tokens(table, others, settings, tokenizers)
    findings += encoded
    return Audit(
        _summaries(table, valid, test),
        tuple(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))),
        tuple(lengths),
        _recipe(settings),
        groups.best_exact_match,
        tuple(dict.fromkeys(notes)),
    )


def _find_in_texts(table: Table, others: list[Table], settings: Settings) -> Iterator[Finding]:
    """Yield the findings about characters of all tables, and about the lengths of the one to train on."""
    sides = settings.tokens.source, settings.tokens.target
    for each in (table, *others):
        cells, is_trained = all_cells(each), each is table
        for side, tokens in zip(SIDES, sides, strict=True):
            yield from find_row_numbers(each, side)
            yield from find_quoted(each, side)
            yield from find_characters(cells, side, tokens.normalization, trained=is_trained)
            yield from find_ends(each, side, tokens, trained=is_trained)
            yield from find_look_alikes(cells, side, tokens, trained=is_trained)
            yield from find_two_forms(only_texts(each), side)
    table = only_texts(table)
    for side, tokens in zip(SIDES, sides, strict=True):
        yield from find_rare(table, side, tokens)
    source, target = (_characters(table, side) for side in SIDES)
    yield from find_length_ratio(table, source, target)
    yield from find_shift(table, source, target)


def _find_in_tokens(
    table: Table, others: list[Table], settings: Settings, tokenizers: tuple[Tokenizer, Tokenizer]
) -> tuple[list[Finding], list[Lengths]]:
    """Return what the tokens lose and the limits leave out, and the lengths of the table to train on."""
    findings: list[Finding] = []
    lengths: list[Lengths] = []
    limits = (settings.max_source_tokens, settings.max_target_tokens)
    for side, tokenizer, limit in zip(SIDES, tokenizers, limits, strict=True):
        kind = tokenizer.settings.kind
        for each in (table, *others):
            encoded = encode([getattr(pair, side) for pair in each.pairs], tokenizer)
            findings += find_token_loss(each, side, tokenizer, encoded)
            findings += find_too_long(each, side, kind, encoded.lengths, limit)
            if each is table:
                lengths += [summarize(side, "characters", _characters(only_texts(table), side), None)]
                lengths += [summarize(side, kind, encoded.lengths, limit)]
    return findings, lengths


def _characters(table: Table, side: Side) -> Counts:
    return np.fromiter((len(getattr(pair, side)) for pair in table.pairs), np.int64, len(table.pairs))


def _summaries(table: Table, valid: Table | None, test: Table | None) -> tuple[TableSummary, ...]:
    roles: tuple[tuple[Role, Table | None], ...] = (("train", table), ("valid", valid), ("test", test))
    return tuple(
        TableSummary(
            role,
            each.path,
            each.format,
            each.labels,
            each.ledger.read,
            each.ledger.kept,
            {name: count for name, count in each.ledger.counts().items() if name not in ("read", "kept")},
        )
        for role, each in roles
        if each is not None
    )


def _recipe(settings: Settings) -> dict[str, object]:
    """Return the settings that the token counts depend on, by full name."""
    chosen = flat({"tokens": settings.tokens.model_dump(), "data": settings.data.model_dump()})
    shown = {f"tokens.{side}.{name}" for side in SIDES for name in _SHOWN_SETTINGS}
    shown |= {"tokens.shared", "data.max_source_length", "data.max_target_length"}
    return {name: value for name, value in chosen.items() if name in shown}
