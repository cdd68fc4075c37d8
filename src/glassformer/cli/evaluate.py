"""`glassformer evaluate`: how good a model is on a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from glassformer.cli import options as opt
from glassformer.cli.console import Reporter
from glassformer.cli.narrate import measured_number, print_report, warn_about_sources, warn_cut_off, warn_short_limit

if TYPE_CHECKING:
    from glassformer.data.tables import Pair
    from glassformer.inference.translator import Translator

ROWS_COMPARED = 200
"""Number of rows that a low precision is measured on, next to float32."""


def evaluate(
    model: opt.Model,
    table: opt.PairTable,
    columns: opt.ColumnsWithLedger,
    computing: opt.ComputingWithEngine,
    reporter: Reporter,
    beam: opt.Beam = None,
    bleu_tokenize: opt.BleuTokenize = "13a",
    no_group: opt.NoGroup = False,
    assignments: opt.SetDecoding = None,
    seed: opt.SamplingSeed = None,
) -> None:
    """Translate the sources of a table, and compare the answers with its targets.

    Rows with the same source count once: an answer that equals any of their targets is right. Each metric is printed
    with a 95 % bootstrap interval, resampled over the sources.
    """
    from glassformer.inference.evaluation import evaluate

    options = opt.decoding_options(assignments, num_beams=beam, seed=seed)
    translator = computing.load(model)
    warn_short_limit(reporter, translator.model_file, translator.settings.decoding.override(options))
    pairs = columns.read(reporter, table, translator.model_file)
    options |= {"bleu_tokenize": bleu_tokenize, "group": not no_group}
    report = evaluate(translator, pairs.pairs, rows_read=pairs.ledger.read, where=pairs.locations, **options)
    if translator.agreement:
        reporter.print(str(translator.agreement))
        if not translator.agreement.is_exact:
            _compare(reporter, translator, pairs.pairs[:ROWS_COMPARED], options)
    warn_about_sources(reporter, translator, pairs)
    warn_cut_off(reporter, report.unfinished)
    reporter.result(report.to_json(), lambda: print_report(report, pairs.path))
    columns.write_ledger(reporter, pairs)


def _compare(reporter: Reporter, translator: Translator, pairs: Sequence[Pair], options: dict[str, Any]) -> None:
    """Print the metrics of the first rows for the NumPy engine and for the other, side by side."""
    from glassformer.inference.evaluation import evaluate
    from glassformer.inference.translator import Translator

    assert translator.agreement is not None
    engine = f"ctranslate2, {translator.agreement.precision}"
    in_numpy = Translator(translator.model_file, engine="numpy")
    both = [evaluate(one, pairs, **options) for one in (in_numpy, translator)]
    rows = [(name, *(measured_number(name, one.metrics[name].value) for one in both)) for name in both[0].metrics]
    reporter.table(f"the first {both[0].rows_scored:,} rows", ("metric", "numpy, float32", engine), rows)
