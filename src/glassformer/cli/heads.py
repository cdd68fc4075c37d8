"""`glassformer heads`: exact match on a table without each attention head."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, print_line, print_table

if TYPE_CHECKING:
    from glassformer.glassbox.run_records import HeadEffects


def heads(
    model: opt.Model,
    table: opt.PairTable,
    columns: opt.ColumnsWithLedger,
    computing: opt.Computing,
    reporter: Reporter,
    beam: opt.Beam = None,
    assignments: opt.SetDecoding = None,
) -> None:
    """Measure exact match on a table with one attention head switched off at a time; largest decrease first.

    The table is translated once with all heads, and once without each head. Rows with the same source count once, as in
    evaluate. With --ensemble, only heads of MODEL are switched off.
    """
    from glassformer.glassbox.evidence import head_effects
    from glassformer.ship.storage.modelfile import ModelFile

    options = opt.decoding_options(assignments, num_beams=beam)
    model_file = ModelFile.load(model)
    pairs = columns.read(reporter, table, model_file)
    found = head_effects(
        model_file,
        pairs.pairs,
        ensemble=[ModelFile.load(other) for other in computing.ensemble or ()],
        decoding=model_file.settings.decoding.override(options),
        device=computing.device,
        precision=computing.precision,
        where=pairs.locations,
    )
    columns.write_ledger(reporter, pairs)
    reporter.result(asdict(found), lambda: _print_heads(found))


def _print_heads(found: HeadEffects) -> None:
    rows = [
        (head.attention, head.head, f"{head.exact_match:.2%}", head.newly_wrong, head.newly_right)
        for head in sorted(found.heads, key=lambda effect: effect.exact_match)
        if head.newly_wrong or head.newly_right
    ]
    counted = f"{found.rows:,} rows" if found.items == found.rows else f"{found.items:,} sources ({found.rows:,} rows)"
    title = f"exact match {found.exact_match:.2%} of {counted} with all heads; with one head off:"
    print_table(title, ("attention", "head", "exact match", "newly wrong", "newly right"), rows)
    unneeded: dict[str, list[str]] = {}
    for head in found.heads:
        if not (head.newly_wrong or head.newly_right):
            unneeded.setdefault(head.attention, []).append(str(head.head))
    if unneeded:
        n_heads = sum(map(len, unneeded.values()))
        named = "; ".join(f"{attention} {', '.join(heads)}" for attention, heads in unneeded.items())
        print_line(f"{n_heads} of {len(found.heads)} heads change no answer: {named}")
