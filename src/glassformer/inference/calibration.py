"""Calibrate the probability of an answer on rows that were not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.data.pairs import checked_pairs, fingerprint
from glassformer.errors import TableError
from glassformer.inference.confidence import MIN_SOURCES, features, fit
from glassformer.inference.metrics import exact_matches, group_by_source
from glassformer.inference.translator import Source, Translator
from glassformer.ship.storage.records import Calibration


def calibrate(
    translator: Translator,
    pairs: Sequence[tuple[Source, str]],
    *,
    table: str | None = None,
    where: Sequence[str] | None = None,
) -> Calibration:
    """Fit the probability on rows that were not trained on, with the search that `translate` uses by default.

    `table` is the name of the rows for the record, `where` as in `Translator.translate`. Pairs of one source count
    once, and any of their targets is right. Raises TableError for fewer than MIN_SOURCES sources.
    """
    checked = list(checked_pairs(pairs, inputs=translator.inputs))
    items = group_by_source(checked)
    if len(items) < MIN_SOURCES:
        raise TableError(
            "there are too few rows to calibrate on",
            where=table,
            got=f"{len(items):,} different sources",
            expected=f"at least {MIN_SOURCES}, none of which was trained on",
        )
    names = None if where is None else [where[item.row] for item in items]
    answers = translator.translate([item.source for item in items], where=names)
    right = exact_matches([answer.text for answer in answers], [item.references for item in items])
    tokenizer = translator.source_tokenizer
    lengths = [len(ids) for ids in tokenizer.encode_many([item.source for item in items])]
    rows = [features(answer.token_scores, length) for answer, length in zip(answers, lengths, strict=True)]
    unusual = np.array([bool(answer.unlike) or not answer.finished for answer in answers])
    return Calibration(
        weights=tuple(fit(np.array(rows), right).tolist()),
        table=table,
        fingerprint=fingerprint(checked),
        sources=len(items),
        right=int(right.sum()),
        unusual=int(unusual.sum()),
        unusual_right=int(right[unusual].sum()),
    )
