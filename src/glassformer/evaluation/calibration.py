"""Calibrate the confidence of answers on rows that were not trained on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.data.corpus import spread
from glassformer.data.pairs import checked_pairs, fingerprint
from glassformer.errors import TableError, counted
from glassformer.evaluation.metrics import exact_matches, group_by_source
from glassformer.inference.beam_confidence import features
from glassformer.inference.confidence import MIN_SOURCES, all_of_the_beam, fit
from glassformer.inference.translator import Translator
from glassformer.storage.records import Calibration
from glassformer.text.inputs import SourceLike

MAX_SOURCES = 10_000  # more make the search longer and the confidence hardly better


def calibrate(
    translator: Translator,
    pairs: Sequence[tuple[SourceLike, str]],
    *,
    table: str | None = None,
    where: Sequence[str] | None = None,
    num_beams: int | None = None,
) -> Calibration:
    """Fit the confidence on rows that were not trained on, with the search that `translate` uses by default.

    `table` is the name of the rows for the record, `where` as in `Translator.translate`, `num_beams` another width of
    the beam. Pairs of one source count once, and any of their targets is right; a source that was trained on is left
    out. At most MAX_SOURCES sources are taken, evenly spaced. Raises TableError for fewer than MIN_SOURCES sources.
    """
    checked = list(checked_pairs(pairs, inputs=translator.inputs))
    all_items = group_by_source(checked)
    is_trained = translator.trained_sources.contains(item.source for item in all_items)
    items = [item for item, left_out in zip(all_items, is_trained, strict=True) if not left_out]
    if len(items) < MIN_SOURCES:
        trained = f" and {len(all_items) - len(items):,} that were trained on" if is_trained.any() else ""
        raise TableError(
            "there are too few rows to calibrate on",
            where=table,
            got=f"{counted(len(items), 'different source')}{trained}",
            expected=f"at least {MIN_SOURCES}, none of which was trained on",
            hint="give a table of other rows",
        )
    items = [items[i] for i in spread(len(items), MAX_SOURCES).tolist()]
    names = None if where is None else [where[item.row] for item in items]
    decoding = translator.settings.decoding.override(
        {"do_sample": False} | ({"num_beams": num_beams} if num_beams else {})
    )
    answers = translator.translate([item.source for item in items], decoding=all_of_the_beam(decoding), where=names)
    rows = [features([answer.score for answer in (best, *best.alternatives)]) for best in answers]
    right = exact_matches([best.text for best in answers], [item.references for item in items])
    unusual = np.array([bool(best.unlike) or not best.finished for best in answers])
    return Calibration(
        weights=tuple(fit(np.array(rows), right).tolist()),
        num_beams=decoding.num_beams,
        table=table,
        fingerprint=fingerprint(checked),
        sources=len(items),
        right=int(right.sum()),
        unusual=int(unusual.sum()),
        unusual_right=int(right[unusual].sum()),
    )
