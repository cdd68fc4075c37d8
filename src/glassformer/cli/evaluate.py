"""`glassformer evaluate`: how good a model is on a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter, print_json, write_ledger
from glassformer.cli.inputs import read_pairs
from glassformer.cli.narrate import print_comparison, print_report, warn_about_sources, warn_cut_off, warn_short_limit

if TYPE_CHECKING:
    from glassformer.data.tables import Pair
    from glassformer.inference.translator import Translator


def evaluate(
    model: opt.Model,
    table: opt.PairTable,
    source: opt.SourceColumns = None,
    features: opt.ModelFeatures = None,
    target: opt.TargetColumn = None,
    header: opt.Header = None,
    bad_rows: opt.BadRows = None,
    ledger: opt.LedgerFile = None,
    overwrite: opt.OverwriteLedger = False,
    beam: opt.Beam = None,
    bleu_tokenize: opt.BleuTokenize = "13a",
    no_group: opt.NoGroup = False,
    ensemble: opt.Ensemble = None,
    assignments: opt.SetDecoding = None,
    device: opt.Device = "auto",
    precision: opt.DecodePrecision = "float32",
    engine: opt.Engine = "torch",
    seed: opt.SamplingSeed = None,
    quiet: opt.Quiet = False,
    as_json: opt.AsJson = False,
) -> None:
    """Translate the sources of a table, and compare the answers with its targets.

    Rows with the same source count once: an answer that equals any of their targets is right. Each metric is printed
    with a 95 % bootstrap interval, resampled over the sources.
    """
    from glassformer.inference.translator import Translator

    reporter = Reporter(quiet)
    options = opt.decoding_options(assignments, num_beams=beam, seed=seed)
    data = opt.data_options(source, target, header, bad_rows, features)
    translator = Translator.load(model, ensemble=ensemble or [], device=device, precision=precision, engine=engine)
    warn_short_limit(reporter, translator.model_file, translator.settings.decoding.override(options))
    pairs = read_pairs(reporter, table, data, ledger, overwrite=overwrite, model_file=translator.model_file)
    _evaluate(reporter, translator, pairs, {"bleu_tokenize": bleu_tokenize, "group": not no_group, **options}, as_json)
    write_ledger(reporter, pairs.ledger, ledger)


def _evaluate(reporter: Reporter, translator: Translator, table: Any, options: dict[str, Any], as_json: bool) -> None:
    from glassformer.inference.evaluation import evaluate

    report = evaluate(translator, table.pairs, rows_read=table.ledger.read, where=table.locations, **options)
    if translator.agreement:
        reporter.print(str(translator.agreement))
        if not translator.agreement.is_exact:
            _compare(reporter, translator, table.pairs[: translator.agreement.rows], options)
    warn_about_sources(reporter, translator, table)
    warn_cut_off(reporter, report.unfinished)
    if as_json:
        print_json(report.to_json())
    else:
        print_report(report, table.path)


def _compare(reporter: Reporter, translator: Translator, pairs: list[Pair], options: dict[str, Any]) -> None:
    """Print the metrics of the first rows for PyTorch and for the engine, side by side."""
    from glassformer.inference.evaluation import evaluate
    from glassformer.inference.translator import Translator

    assert translator.agreement is not None
    engines = (
        ("torch, float32", Translator(translator.model_file)),
        (f"ctranslate2, {translator.agreement.precision}", translator),
    )
    print_comparison(reporter, [(name, evaluate(engine, pairs, **options)) for name, engine in engines])
