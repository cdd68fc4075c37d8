"""`glassformer evaluate`: how good a model is on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, check_output, write_ledger
from glassformer.cli.narrate import print_report, warn_about_sources, warn_cut_off, warn_short_limit


def evaluate(
    model: opt.Model,
    table: opt.PairTable,
    columns: opt.LedgerOptions,
    computing: opt.Computing,
    reporter: Reporter,
    beam: opt.Beam = None,
    bleu_tokenize: opt.BleuTokenize = "13a",
    no_group: opt.NoGroup = False,
    confidence: Annotated[
        bool,
        Option("--confidence", help="Compare the confidence in each answer with what is right (calibrated models)."),
    ] = False,
    assignments: opt.SetDecoding = None,
    page: Annotated[
        Path | None,
        Option(
            "--report",
            metavar="FILE",
            help="Write where the answers are wrong, and which rows to add, as one page that works offline.",
        ),
    ] = None,
) -> None:
    """Translate the sources of a table, and compare the answers with its targets.

    Rows with the same source count once: an answer that equals any of their targets is right. Each metric has a 95 %
    interval: that of Wilson for exact match, else the bootstrap, resampled over the sources.

    Examples:
        glassformer evaluate run test.csv
        glassformer evaluate run test.csv --report wrong.html
    """
    from glassformer.data.rows import further_columns
    from glassformer.evaluation.evaluate import evaluate
    from glassformer.evaluation.failures import MAX_VALUES, find_failures
    from glassformer.glassbox.errorpage import EvaluationOrigin, error_page
    from glassformer.storage.files import write_text

    check_output(page, "--report", overwrite=columns.overwrite)
    options = opt.decoding_options(assignments, num_beams=beam)
    translator = computing.load(model)
    warn_short_limit(reporter, translator.model_file, translator.settings.decoding.override(options))
    pairs = columns.read(reporter, table, translator.model_file)
    options |= {"bleu_tokenize": bleu_tokenize, "group": not no_group, "confidence": confidence}
    report = evaluate(translator, pairs, **options)
    warn_about_sources(reporter, translator, pairs)
    warn_cut_off(reporter, report.unfinished)
    if page is not None:
        failures = find_failures(translator, report.answered, further_columns(pairs, MAX_VALUES))
        own_beams, beams = translator.settings.decoding.num_beams, int(report.decoding["num_beams"])
        counts, inputs = (report.rows_read, report.rows_scored), translator.inputs
        names = str(model), pairs.path
        measured = EvaluationOrigin(*names, *counts, pairs.row_name, inputs, beams if beams != own_beams else None)
        write_text(page, error_page(failures, measured))
        reporter.print(f"wrote {page}")
    reporter.result(report.to_json(), lambda: print_report(report, pairs.path, translator))
    write_ledger(reporter, pairs.ledger, columns.ledger)
