"""`glassformer heads`: what each attention head is worth on a table."""

from __future__ import annotations

from dataclasses import asdict

from glassformer.cli.console import (
    AsJson,
    BadRows,
    Beam,
    DecodePrecision,
    Device,
    Ensemble,
    Header,
    LedgerFile,
    Model,
    OverwriteLedger,
    PairTable,
    Quiet,
    SetDecoding,
    SourceColumn,
    TargetColumn,
    Voice,
    check_ledger,
    data_options,
    decoding_options,
    print_json,
    print_table,
    write_ledger,
)
from glassformer.cli.narrate import say_table
from glassformer.errors import TableError


def heads(
    model: Model,
    table: PairTable,
    source: SourceColumn = None,
    target: TargetColumn = None,
    header: Header = None,
    bad_rows: BadRows = None,
    ledger: LedgerFile = None,
    overwrite: OverwriteLedger = False,
    beam: Beam = None,
    ensemble: Ensemble = None,
    assignments: SetDecoding = None,
    device: Device = "auto",
    precision: DecodePrecision = "float32",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Exact match on a table with each head switched off by itself, the most missed first.

    The table is translated once for the whole model, and once for each head.
    In an ensemble the heads are those of MODEL, and the further models stay whole.
    """
    from glassformer.data.tables import read_table
    from glassformer.glassbox.evidence import head_effects
    from glassformer.modelfile import ModelFile
    from glassformer.settings import DataSettings, DecodingSettings

    options = decoding_options(assignments, num_beams=beam)
    check_ledger(ledger, table, overwrite=overwrite)
    pairs = read_table(table, DataSettings(**data_options(source, target, header, bad_rows)["data"]))
    voice = Voice(quiet)
    say_table(voice, pairs, ledger)
    if not pairs.pairs:
        raise TableError("there are no rows to score", where=table, expected="at least one pair of source and target")
    model_file = ModelFile.load(model)
    decoding = DecodingSettings(**(model_file.settings.decoding.model_dump() | options))
    found = head_effects(
        model_file,
        pairs.pairs,
        ensemble=[ModelFile.load(other) for other in ensemble or []],
        decoding=decoding,
        device=device,
        precision=precision,
        where=pairs.places,
    )
    write_ledger(voice, pairs.ledger, ledger)
    if as_json:
        print_json(asdict(found))
        return
    rows = [
        (each.attention, str(each.head), f"{each.exact_match:.2%}", f"{each.broken:,}", f"{each.mended:,}")
        for each in sorted(found.heads, key=lambda each: each.exact_match)
    ]
    title = f"exact match {found.exact_match:.2%} of {found.rows:,} rows with all heads; with one off:"
    print_table(title, ("attention", "head", "exact match", "broken", "mended"), rows)
