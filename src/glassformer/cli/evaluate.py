"""`glassformer evaluate`: how good a model is on a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from glassformer.cli.console import (
    AsJson,
    BadRows,
    Beam,
    DecodePrecision,
    Device,
    Engine,
    Ensemble,
    Header,
    LedgerFile,
    Model,
    OverwriteLedger,
    PairTable,
    Quiet,
    Seed,
    SetDecoding,
    SourceColumn,
    TargetColumn,
    Voice,
    check_ledger,
    data_options,
    decoding_options,
    print_json,
    warn_unknown,
    write_ledger,
)
from glassformer.cli.narrate import say_change, say_report, say_table

if TYPE_CHECKING:
    pass


def evaluate(
    model: Model,
    table: PairTable,
    source: SourceColumn = None,
    target: TargetColumn = None,
    header: Header = None,
    bad_rows: BadRows = None,
    ledger: LedgerFile = None,
    overwrite: OverwriteLedger = False,
    beam: Beam = None,
    bleu_tokenize: Annotated[
        str, typer.Option("--bleu-tokenize", help="sacreBLEU's tokenizer: 13a, none, char, intl, zh, …")
    ] = "13a",
    no_group: Annotated[
        bool,
        typer.Option("--no-group", help="Score every row by itself, also where a source has several targets."),
    ] = False,
    ensemble: Ensemble = None,
    assignments: SetDecoding = None,
    device: Device = "auto",
    precision: DecodePrecision = "float32",
    engine: Engine = "torch",
    seed: Seed = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Translate the sources of a table and compare with its targets.

    A source with several targets counts once, and any of them is right. Every figure comes with a 95 % interval from
    resampling the sources.
    """
    from glassformer.data.tables import read_table
    from glassformer.evaluation import evaluate as evaluate_pairs
    from glassformer.settings import DataSettings, DecodingSettings
    from glassformer.translator import Translator

    voice = Voice(quiet)
    options = decoding_options(assignments, num_beams=beam, seed=seed)
    check_ledger(ledger, table, overwrite=overwrite)
    pairs = read_table(table, DataSettings(**data_options(source, target, header, bad_rows)["data"]))
    say_table(voice, pairs, ledger)
    translator = Translator.load(model, ensemble=ensemble or [], device=device, precision=precision, engine=engine)
    decoding = DecodingSettings(**(translator.settings.decoding.model_dump() | options))
    report = evaluate_pairs(
        translator,
        pairs.pairs,
        decoding=decoding,
        bleu_tokenize=bleu_tokenize,
        group=not no_group,
        rows_read=pairs.ledger.read,
        where=pairs.places,
    )
    if translator.proof:
        voice.say(str(translator.proof))
        if not translator.proof.is_exact:
            first = pairs.pairs[: translator.proof.rows]
            say_change(
                voice,
                [
                    (
                        name,
                        evaluate_pairs(each, first, decoding=decoding, bleu_tokenize=bleu_tokenize, group=not no_group),
                    )
                    for name, each in (
                        ("torch, float32", Translator(translator.model_file, device=device)),
                        (f"{engine}, {translator.proof.precision}", translator),
                    )
                ],
            )
    warn_unknown(voice, map(translator.source_tokenizer.unknown, (pair.source for pair in pairs.pairs)))
    if report.unfinished:
        voice.warn(
            f"{report.unfinished:,} answers reached the longest length before their end; "
            "--set decoding.max_new_tokens=N allows more"
        )
    write_ledger(voice, pairs.ledger, ledger)
    if as_json:
        print_json(report.to_json())
    else:
        say_report(report, table)
