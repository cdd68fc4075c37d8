"""`glassformer evaluate`: how good a model is on a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
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
    Model,
    PairTable,
    Quiet,
    Seed,
    SetDecoding,
    SourceColumn,
    TargetColumn,
    Voice,
    data_options,
    decoding_options,
    print_json,
    print_table,
    warn_unknown,
)
from glassformer.cli.narrate import say_table

if TYPE_CHECKING:
    from glassformer.evaluation import Report

ON_THEIR_OWN_SCALE = ("bleu", "chrf")


def evaluate(
    model: Model,
    table: PairTable,
    source: SourceColumn = None,
    target: TargetColumn = None,
    header: Header = None,
    bad_rows: BadRows = None,
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
    pairs = read_table(table, DataSettings(**data_options(source, target, header, bad_rows)["data"]))
    say_table(voice, pairs)
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
    if as_json:
        print_json(report.to_json())
    else:
        say_report(report, table)


def say_report(report: Report, table: str) -> None:
    """The report as a table for people, and the worst answers."""
    if report.items < report.rows_scored:
        sys.stdout.write(
            f"{report.rows_scored:,} rows, {report.items:,} sources, {report.items_with_several_references:,} of them "
            "with several targets (evaluate --no-group scores every row by itself)\n"
        )
    rows = []
    for name, measure in report.metrics.items():
        interval = f"{_number(name, measure.low)} – {_number(name, measure.high)}"
        unit = "" if name in ON_THEIR_OWN_SCALE else " %"
        rows.append((name, _number(name, measure.value) + unit, interval, measure.signature or ""))
    title = f"{report.rows_scored:,} of {report.rows_read:,} rows of {table} in {report.seconds:.1f} s"
    print_table(title, ("metric", "value", "95 % interval", ""), rows)
    if report.examples:
        columns: tuple[str, ...] = ("source", "gold", "answer", "edits")
        if report.items_with_several_references:
            columns = ("source", "nearest gold", "answer", "edits", "targets")
        worst = [
            (each.source, each.gold, each.answer, str(each.edits), str(each.n_references))
            for each in report.examples[:5]
        ]
        print_table("the worst answers", columns, [cells[: len(columns)] for cells in worst])


def say_change(voice: Voice, reports: Sequence[tuple[str, Report]]) -> None:
    """The metrics of some reports on the same rows, side by side."""
    first = reports[0][1]
    rows = [(name, *(_number(name, report.metrics[name].value) for _, report in reports)) for name in first.metrics]
    voice.table(f"the first {first.rows_scored:,} rows", ("metric", *(name for name, _ in reports)), rows)


def _number(metric: str, value: float) -> str:
    """A figure for people; shares become percentages."""
    return f"{value if metric in ON_THEIR_OWN_SCALE else 100 * value:.2f}"
